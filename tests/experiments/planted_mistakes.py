"""For each of the 32 programs two mistakes, as a text of the reference and what stands there then.

They are mistakes that a team makes: a rule that was overlooked, an edge that was not thought of.
"""

MISTAKES: dict[str, list[tuple[str, str]]] = {
    "snake": [
        ("if head in (body if eats else body[:-1]):", "if head in body:"),
        ("            body.pop()", "            pass"),
    ],
    "tic_tac_toe": [
        ("(2, 4, 6)", "(2, 4, 5)"),
        (
            '            said.append(f"illegal {move}")\n            continue',
            '            said.append(f"illegal {move}")\n'
            "            player = 'O' if player == 'X' else 'X'\n            continue",
        ),
    ],
    "hangman": [
        ('said.append(f"{guess} again")', 'wrong += 1; said.append(f"{guess} again")'),
        (
            "        if wrong == 6 or all(letter in seen for letter in word):\n            break\n",
            "",
        ),
    ],
    "game_of_life": [
        ("near == 3 or (near == 2 and (x, y) in alive)", "near == 3"),
        ("        alive = following", "            alive = alive | following"),
    ],
    "bulls_and_cows": [
        (" - bulls", ""),
        (" or len(set(guess)) != len(guess)", ""),
    ],
    "text_statistics": [
        ("text.lower()", "text"),
        ("(-counts[word], word)", "-counts[word]"),
    ],
    "to_do_list": [
        ("1 <= int(rest)", "0 <= int(rest)"),
        ('            if not tasks:\n                said.append("nothing to do")\n', ""),
    ],
    "word_wrap": [
        ("len(line) + 1 + len(word) > width", "len(line) + 1 + len(word) >= width"),
        (":>{width}", ":<{width}"),
    ],
    "caesar": [
        (
            '        by = int(shift) if command == "encrypt" else -int(shift)',
            "        by = int(shift)",
        ),
        ("- 65 + by) % 26", "- 65 - by) % 26"),
    ],
    "csv_totals": [
        ("sorted(totals)", "totals"),
        ("            bad += 1\n", ""),
    ],
    "rpn_calculator": [
        ("right, left = stack.pop(), stack.pop()", "left, right = stack.pop(), stack.pop()"),
        ("left // right", "int(left / right)"),
    ],
    "bank": [
        ("accounts[giver] < int(amount)", "accounts[giver] <= int(amount)"),
        ("                    accounts[taker] += int(amount)\n", ""),
    ],
    "change": [
        ("reverse=True)\n    said", "reverse=True)[:-1]\n    said"),
        ("or 'nothing'", ""),
    ],
    "roman": [
        ('(900, "CM"), ', ""),
        ("<= 3999", "<= 3000"),
    ],
    "connect_four": [
        ("((1, 0), (0, 1), (1, 1), (1, -1))", "((1, 0), (0, 1), (1, 1))"),
        (' or grid[0][int(line) - 1] != "."', ' or grid[1][int(line) - 1] != "."'),
    ],
    "minesweeper": [
        ("            waiting += around(*cell)", "            opened |= set(around(*cell))"),
        ("and (x, y) in mines", "and False"),
    ],
    "sudoku_check": [
        ("n // 3 * 3, n % 3 * 3", "n % 3 * 3, n // 3 * 3"),
        ('set("123456789.")', 'set("0123456789.")'),
    ],
    "word_guess": [
        ("            left[said] -= 1\n", ""),
        ("if used == 6:", "if used > 6:"),
    ],
    "maze": [
        ("(0, 1), (-1, 0), (1, 0), (0, -1)", "(0, -1), (1, 0), (-1, 0), (0, 1)"),
        ('if start not in far:\n    print("no way")\n    sys.exit()\n', ""),
    ],
    "blackjack": [
        ("total + 10 <= 21", "total + 10 < 21"),
        ("if value == 21 and len(cards) == 2:", "if value == 21:"),
    ],
    "battleship": [
        ('    if at in shot:\n        print(said, "again")\n        continue\n', ""),
        ("(10|[1-9])", "([1-9])"),
    ],
    "bowling": [
        ("at += 3 if frame == 9 else 1", "at += 1"),
        ('            if pins > 10:\n                return "invalid"\n', ""),
    ],
    "anagrams": [
        ("(-len(group), group[0])", "group[0]"),
        ('.strip(".,;:!?").lower()', '.strip(".,;:!?")'),
    ],
    "table_of_contents": [
        ("        fenced = not fenced\n", ""),
        ("    if count:\n", "    if count > 1:\n"),
    ],
    "morse": [
        ("if c in CODES]", "]"),
        ('BACK.get(code, "?")', 'BACK.get(code, "")'),
    ],
    "run_length": [
        ('        if char == before:\n            return "error"\n', ""),
        ("        mark = ", '        mark = "" if char != "1" else '),
    ],
    "template": [
        ("    missing.add(name)\n", "    missing.add(found[0])\n"),
        ('=(.*)", line)', '=([^=]*)", line)'),
    ],
    "date_days": [
        ("year % 4 == 0 and (year % 100 or year % 400 == 0)", "year % 4 == 0"),
        ("(second - first).days", "abs((second - first).days)"),
    ],
    "matrix": [
        ('    if len({len(row) for row in rows}) > 1:\n        raise Wrong("ragged")\n', ""),
        ("a + sign * b", "a + b"),
    ],
    "tax_brackets": [
        ("rounding=ROUND_HALF_UP", 'rounding="ROUND_HALF_EVEN"'),
        ("tax += (upper - start) * rate / 100", "tax = income * rate / 100"),
    ],
    "search_files": [
        ('    if option == "--":\n        break\n', ""),
        ("re.escape(word)", "word"),
    ],
    "duplicate_files": [
        ("        if content:\n", "        if True:\n"),
        ("size * (len(names) - 1)", "size * len(names)"),
    ],
}
