"""Programs that read text."""

from __future__ import annotations

from random import Random

from rolecraft.environments.program_development.program import Program

WORDS = [
    *("the", "cat", "sat", "on", "a", "red", "mat", "and", "saw", "one", "more", "cat", "walk"),
    *("by", "then", "it", "slept", "until", "noon"),
]


def text_statistics(text: str) -> str:
    """Count lines, words and letters, and name the commonest words."""
    import re

    words = re.findall(r"[a-z]+", text.lower())
    counts: dict[str, int] = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    top = sorted(counts, key=lambda word: (-counts[word], word))[:3]
    longest = max(words, key=len, default="-")
    lines = [
        f"lines {len(text.splitlines())}",
        f"words {len(words)}",
        f"letters {sum(map(len, words))}",
        f"longest {longest}",
        *(f"{word} {counts[word]}" for word in top),
    ]
    return "\n".join(lines) + "\n"


def _sentence(draw: Random, count: int) -> str:
    words = [draw.choice(WORDS) for _ in range(count)]
    words[0] = words[0].title()
    return " ".join(words)


def _draw_text(draw: Random) -> str:
    marks = [".", "!", " - 3 times.", ","]
    lines = [
        _sentence(draw, draw.randint(1, 9)) + draw.choice(marks) for _ in range(draw.randint(1, 5))
    ]
    return "\n".join(lines) + "\n"


TEXT_STATISTICS = Program(
    "text_statistics",
    """
Statistics of a text. A word is a longest run of the letters a to z; capital letters count as small
ones. Print

- `lines N`: how many lines the text has;
- `words N`: how many words, every occurrence counted;
- `letters N`: how many letters all words have together;
- `longest WORD`: the longest word, the first of them if several are equally long, `-` if none;
- then the three commonest words (fewer if there are fewer), one a line as `WORD COUNT`, the
  commonest first, equally common ones in alphabetical order.
""",
    text_statistics,
    _draw_text,
    "The cat saw the dog.\nThe dog ran!\n",
)


def to_do_list(text: str) -> str:
    """Run the commands of a to-do list."""
    tasks: list[list[str]] = []
    said = []
    for line in text.splitlines():
        command, _, rest = line.strip().partition(" ")
        rest = rest.strip()
        if command == "add" and rest:
            tasks.append([rest, " "])
            said.append(f"added {len(tasks)}")
        elif command == "list":
            said += [f"{at}. [{done}] {what}" for at, (what, done) in enumerate(tasks, 1)]
            if not tasks:
                said.append("nothing to do")
        elif command in ("done", "remove"):
            if rest.isdigit() and 1 <= int(rest) <= len(tasks):
                if command == "done":
                    tasks[int(rest) - 1][1] = "x"
                    said.append(f"done {rest}")
                else:
                    said.append(f"removed {tasks.pop(int(rest) - 1)[0]}")
            else:
                said.append(f"no task {rest}".rstrip())
        elif line.strip():
            said.append(f"unknown: {line.strip()}")
    return "".join(f"{line}\n" for line in said)


def _draw_to_do(draw: Random) -> str:
    lines = []
    for _ in range(draw.randint(4, 10)):
        number = draw.randint(0, 4)
        what = " ".join(draw.sample(WORDS, 2))
        lines.append(
            draw.choice(
                [f"add {what}", f"add {what}", "list", f"done {number}", f"remove {number}", "add"]
            )
        )
    return "\n".join([*lines, "list"]) + "\n"


TO_DO_LIST = Program(
    "to_do_list",
    """
A to-do list on the command line. Each line of the input is a command:

- `add TEXT` appends a task and prints `added N`, its number, from 1;
- `done N` marks task N and prints `done N`;
- `remove N` takes task N out, those behind it move up, and prints `removed TEXT`;
- `list` prints every task as `N. [ ] TEXT`, or `N. [x] TEXT` when it is done; with no task at all
  it prints `nothing to do`.

`done` and `remove` with anything that is not the number of a task print `no task` and what was
given. Any other line, also `add` without a text, prints `unknown: LINE`. Empty lines are ignored.
""",
    to_do_list,
    _draw_to_do,
    "add buy milk\nadd call Ann\ndone 1\nlist\nremove 1\nlist\ndone 7\njump\n",
)


def word_wrap(text: str) -> str:
    """Set words into lines of at most a given width."""
    first, _, rest = text.partition("\n")
    width = int(first)
    lines: list[str] = []
    line = ""
    for word in rest.split():
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    if line:
        lines.append(line)
    return "".join(f"{line:>{width}}|\n" for line in lines)


def _draw_word_wrap(draw: Random) -> str:
    return f"{draw.randint(4, 20)}\n{_draw_text(draw)}"


WORD_WRAP = Program(
    "word_wrap",
    """
Word wrap, flush right. The first line is the width. All further lines are one text: words with
white space between them. Put as many words as fit into each line, one space between two words, and
no line longer than the width; a word longer than the width gets a line of its own and sticks out.
Print each line filled with spaces on the left up to the width, and then a `|`.
""",
    word_wrap,
    _draw_word_wrap,
    "12\nThe cat sat on the red mat and purred extraordinarily\n",
)


def caesar(text: str) -> str:
    """Encrypt and decrypt with a shifted alphabet."""
    said = []
    for line in text.splitlines():
        command, shift, message = line.split(" ", 2)
        by = int(shift) if command == "encrypt" else -int(shift)
        coded = ""
        for char in message:
            if "a" <= char <= "z":
                coded += chr((ord(char) - 97 + by) % 26 + 97)
            elif "A" <= char <= "Z":
                coded += chr((ord(char) - 65 + by) % 26 + 65)
            else:
                coded += char
        said.append(coded)
    return "".join(f"{line}\n" for line in said)


def _draw_caesar(draw: Random) -> str:
    return "".join(
        f"{draw.choice(['encrypt', 'decrypt'])} {draw.randint(0, 60)} {_sentence(draw, 4)}, ok?\n"
        for _ in range(draw.randint(1, 4))
    )


CAESAR = Program(
    "caesar",
    """
Caesar's cipher. Each line is `encrypt N TEXT` or `decrypt N TEXT`, N a number from 0 that may be
greater than 26. Encrypting moves every letter N places on in the alphabet, behind z comes a;
decrypting moves it back. Capital letters stay capital, everything that is no letter from a to z
stays as it is. Print the resulting text of each line.
""",
    caesar,
    _draw_caesar,
    "encrypt 3 Attack at dawn!\ndecrypt 29 Dwwdfn dw gdzq!\n",
)


def csv_totals(text: str) -> str:
    """Add up a column per group."""
    header, *rows = [line.split(",") for line in text.split("\n") if line.strip()]
    group, amount = header.index("group"), header.index("amount")
    totals: dict[str, int] = {}
    bad = 0
    for row in rows:
        if len(row) != len(header) or not row[amount].strip().lstrip("-").isdigit():
            bad += 1
            continue
        key = row[group].strip()
        totals[key] = totals.get(key, 0) + int(row[amount])
    lines = [f"{key}: {totals[key]}" for key in sorted(totals)]
    return "\n".join([*lines, f"total: {sum(totals.values())}", f"bad rows: {bad}"]) + "\n"


def _draw_csv(draw: Random) -> str:
    columns = draw.sample(["group", "amount", "note"], 3)
    lines = [",".join(columns)]
    for _ in range(draw.randint(2, 8)):
        row = {
            "group": draw.choice(["north", "south", "east"]),
            "amount": draw.choice([str(draw.randint(-50, 99)), str(draw.randint(0, 9)), "n/a"]),
            "note": draw.choice(WORDS),
        }
        cells = [row[column] for column in columns]
        lines.append(",".join(cells[: draw.choice([2, 3, 3, 3])]))
    return "\n".join(lines) + "\n"


CSV_TOTALS = Program(
    "csv_totals",
    """
Totals of a table. The input is comma-separated values without quotes. Its first line names the
columns; `group` and `amount` are among them, in any place. For every group print `GROUP: SUM`, the
sum of its amounts, in alphabetical order of the groups. Then `total: SUM` of all groups and `bad
rows: N`. A row is bad, and is left out of every sum, when it has not as many cells as the first
line or when its amount is no whole number (it may have a minus in front). Empty lines are ignored.
Spaces around a cell do not belong to it.
""",
    csv_totals,
    _draw_csv,
    "group,amount,note\nnorth,5,a\nsouth,-2,b\nnorth,x,c\nnorth,7\n north , 4 ,d\n",
)

TEXTS = (TEXT_STATISTICS, TO_DO_LIST, WORD_WRAP, CAESAR, CSV_TOTALS)
