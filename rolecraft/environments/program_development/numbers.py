"""Programs that calculate."""

from __future__ import annotations

from random import Random

from rolecraft.environments.program_development.program import Program


def rpn_calculator(text: str) -> str:
    """Work out formulas in reverse Polish notation."""
    said = []
    for line in text.splitlines():
        stack: list[int] = []
        error = ""
        for word in line.split():
            if word.lstrip("-").isdigit():
                stack.append(int(word))
            elif word not in ("+", "-", "*", "/"):
                error = f"unknown {word}"
                break
            elif len(stack) < 2:
                error = "too few numbers"
                break
            else:
                right, left = stack.pop(), stack.pop()
                if word == "/" and right == 0:
                    error = "division by zero"
                    break
                if word == "+":
                    stack.append(left + right)
                elif word == "-":
                    stack.append(left - right)
                elif word == "*":
                    stack.append(left * right)
                else:
                    stack.append(left // right)
        if error:
            said.append(f"error: {error}")
        elif len(stack) != 1:
            said.append(f"error: {len(stack)} numbers left")
        else:
            said.append(str(stack[0]))
    return "".join(f"{line}\n" for line in said)


def _draw_rpn(draw: Random) -> str:
    lines = []
    for _ in range(draw.randint(2, 5)):
        words = [str(draw.randint(-9, 30))]
        for _ in range(draw.randint(1, 3)):
            words += [str(draw.randint(-3, 9)), draw.choice("+-*/")]
        if draw.random() < 0.3:
            words.insert(draw.randrange(len(words) + 1), draw.choice(["+", "7", "x", "0 /"]))
        lines.append(" ".join(words))
    return "\n".join(lines) + "\n"


RPN_CALCULATOR = Program(
    "rpn_calculator",
    """
A calculator for reverse Polish notation. Each line is a formula of whole numbers (a minus in front
is allowed) and the operators + - * /, with spaces between them. `/` divides and rounds down,
towards minus infinity. Print the result of each line.

A line with a mistake prints one of these instead, for the first mistake that is met from left to
right: `error: unknown WORD`, `error: too few numbers` when an operator finds fewer than two,
`error: division by zero`. If at the end there is not exactly one number: `error: N numbers left`.
""",
    rpn_calculator,
    _draw_rpn,
    "3 4 + 2 *\n-7 2 /\n1 +\n1 2\n5 0 /\n1 two +\n",
)


def bank(text: str) -> str:
    """Keep accounts that may not be overdrawn."""
    accounts: dict[str, int] = {}
    said = []
    for line in text.splitlines():
        words = line.split()
        match words:
            case ["open", name]:
                if name in accounts:
                    said.append(f"{name} exists")
                else:
                    accounts[name] = 0
                    said.append(f"{name} opened")
            case ["deposit", name, amount]:
                if name not in accounts:
                    said.append(f"no account {name}")
                else:
                    accounts[name] += int(amount)
                    said.append(f"{name} {accounts[name]}")
            case ["transfer", giver, taker, amount]:
                missing = [name for name in (giver, taker) if name not in accounts]
                if missing:
                    said.append(f"no account {missing[0]}")
                elif accounts[giver] < int(amount):
                    said.append(f"{giver} has only {accounts[giver]}")
                else:
                    accounts[giver] -= int(amount)
                    accounts[taker] += int(amount)
                    said.append(f"{giver} {accounts[giver]}, {taker} {accounts[taker]}")
    said += [f"{name}: {accounts[name]}" for name in sorted(accounts)]
    return "".join(f"{line}\n" for line in said)


def _draw_bank(draw: Random) -> str:
    names = ["ann", "bob", "eve"]
    lines = [f"open {name}" for name in draw.sample(names, 2)]
    for _ in range(draw.randint(3, 8)):
        giver, taker = draw.choice(names), draw.choice(names)
        amount = draw.randint(1, 60)
        lines.append(
            draw.choice(
                [
                    f"open {giver}",
                    f"deposit {giver} {amount}",
                    f"deposit {taker} {amount}",
                    f"transfer {giver} {taker} {amount}",
                    f"transfer {giver} {taker} {amount}",
                ]
            )
        )
    return "\n".join(lines) + "\n"


BANK = Program(
    "bank",
    """
Accounts of a small bank. Each line is one of

- `open NAME`: prints `NAME opened`, or `NAME exists`; a new account holds 0;
- `deposit NAME AMOUNT`: prints `NAME BALANCE`, the balance afterwards;
- `transfer FROM TO AMOUNT`: prints `FROM BALANCE, TO BALANCE`, both afterwards. If the balance of
  FROM is smaller than the amount, nothing is moved and `FROM has only BALANCE` is printed.

An account that does not exist prints `no account NAME`, of a transfer the first of the two that
does not exist. Amounts are whole numbers greater than 0. A transfer from an account to itself is
allowed. At the end print `NAME: BALANCE` for every account in alphabetical order.
""",
    bank,
    _draw_bank,
    "open ann\nopen bob\ndeposit ann 50\ntransfer ann bob 20\ntransfer bob ann 70\ndeposit eve 1\n",
)


def change(text: str) -> str:
    """Pay amounts with the fewest coins."""
    first, *amounts = text.splitlines()
    coins = sorted({int(coin) for coin in first.split()}, reverse=True)
    said = []
    for line in amounts:
        amount = int(line)
        best: list[list[int] | None] = [[]] + [None] * amount
        for total in range(1, amount + 1):
            for coin in coins:
                rest = best[total - coin] if coin <= total else None
                if rest is not None:
                    known = best[total]
                    paid = sorted([coin, *rest], reverse=True)
                    if known is None or (-len(paid), paid) > (-len(known), known):
                        best[total] = paid
        pays = best[amount]
        if pays is None:
            said.append(f"{amount}: impossible")
        else:
            said.append(f"{amount}: {' '.join(map(str, pays)) or 'nothing'}")
    return "".join(f"{line}\n" for line in said)


def _draw_change(draw: Random) -> str:
    coins = draw.choice([[1, 5, 10, 25], [1, 3, 4], [2, 5], [3, 7, 20], [1, 6, 10, 15]])
    draw.shuffle(coins)
    amounts = [str(draw.randint(0, 60)) for _ in range(draw.randint(1, 5))]
    return "\n".join([" ".join(map(str, coins)), *amounts]) + "\n"


CHANGE = Program(
    "change",
    """
Change with the fewest coins. Line 1: the values of the coins, each available as often as needed.
Every further line is an amount from 0. Print `AMOUNT: ` and the coins that pay it exactly, as few
of them as possible, the greatest first. If several choices have equally few coins, take the one
whose greatest coin is greatest, then whose second is, and so on. Print `AMOUNT: nothing` for 0 and
`AMOUNT: impossible` if it cannot be paid.
""",
    change,
    _draw_change,
    "4 3 1\n6\n0\n14\n",
)


def roman(text: str) -> str:
    """Turn numbers into Roman ones and back."""
    import re

    parts = [
        (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"),
        (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),
    ]  # fmt: skip
    form = "M{0,3}(CM|CD|D?C{0,3})(XC|XL|L?X{0,3})(IX|IV|V?I{0,3})"
    said = []
    for word in text.split():
        if word.isdigit() and 1 <= int(word) <= 3999:
            rest, written = int(word), ""
            for value, sign in parts:
                while rest >= value:
                    rest -= value
                    written += sign
            said.append(written)
        elif word and re.fullmatch(form, word):
            total, left = 0, word
            for value, sign in parts:
                while left.startswith(sign):
                    left = left[len(sign) :]
                    total += value
            said.append(str(total))
        else:
            said.append("?")
    return "".join(f"{line}\n" for line in said)


def _draw_roman(draw: Random) -> str:
    words = [
        str(draw.randint(1, 4200)),
        str(draw.choice([4, 9, 40, 90, 400, 900, 3999, 0])),
        roman(str(draw.randint(1, 3999))).strip(),
        draw.choice(["IIII", "VX", "MCMXC", "ABC", "IM", "xiv"]),
    ]
    draw.shuffle(words)
    return "\n".join(words) + "\n"


ROMAN = Program(
    "roman",
    """
Roman numerals. Each line is a number from 1 to 3999 or a Roman numeral in capital letters. Print
the number as a Roman numeral, or the Roman numeral as a number. Only the usual, shortest form
counts as a Roman numeral (IV, not IIII; XCIX, not IC). For anything else print `?`.
""",
    roman,
    _draw_roman,
    "1994\nXIV\nIIII\n0\nhello\n",
)

NUMBERS = (RPN_CALCULATOR, BANK, CHANGE, ROMAN)
