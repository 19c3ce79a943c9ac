"""The tasks of `maths`: word problems in English, drawn at random, with exact answers.

A problem is a start and a number of steps; its level says how many. From level 2 on a sentence
that has nothing to do with the question may stand in between, and a problem may be put backwards:
the end is told and the start asked for. Answers are integers, decimals, fractions or percentages.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

from rolecraft.environments.task import Split, Task
from rolecraft.errors import UsageError

LEVELS = (1, 2, 3)
ASKED = "Give the exact value: a fraction where no decimal is exact."
_NAMES = ("Ada", "Bela", "Chen", "Dora", "Emre", "Femi", "Gita", "Hana", "Ivan", "Jun")
_THINGS = ("stamps", "marbles", "postcards", "apples", "beads", "tickets", "shells", "pencils")
_BESIDE_THE_POINT = (
    "{name} is {n} years old.",
    "The day before, {n} people had asked {name} about it.",
    "It is {n} kilometres from there to the sea.",
    "{name}'s sister has {n} books about the subject.",
)


class Problem(NamedTuple):
    """A problem without the names of its people: they do not make it another one."""

    kind: str
    text: str
    """With `{name}` and `{thing}` to be filled in."""
    answer: Fraction
    unit: str = ""
    """`%` if a percentage is asked for."""


class MathsTasks:
    """Draws word problems. A fifth of all possible ones is for `test` and never for `train`.

    `levels` are those to draw from, evenly. `task.data` has the exact `answer` as text, the
    `level`, and the `kind` of problem.
    """

    def __init__(self, levels: Sequence[int] = LEVELS) -> None:
        unknown = [level for level in levels if level not in LEVELS]
        if unknown or not levels:
            raise UsageError(f"`MathsTasks(levels={levels!r})`: levels are some of {LEVELS}.")
        self.levels = tuple(levels)

    def sample(self, count: int, *, seed: int = 0, split: Split = "train") -> list[Task]:
        draw = random.Random(f"maths/{split}/{seed}")
        tasks: list[Task] = []
        while len(tasks) < count:
            level = draw.choice(self.levels)
            problem = draw.choice(_KINDS[level])(draw, level)
            name, thing = draw.choice(_NAMES), draw.choice(_THINGS)
            distraction = level > 1 and draw.random() < 0.5
            beside, number = draw.choice(_BESIDE_THE_POINT), draw.randrange(20, 90)
            mark = zlib.crc32(problem.text.encode())  # people and distraction leave it as it is
            if (mark % 5 == 0) is not (split == "test"):
                continue
            text = problem.text
            if distraction:
                story, question = text.rsplit("\n", 1)
                text = f"{story} {beside.replace('{n}', str(number))}\n{question}"
            text = text.replace("{name}", name).replace("{thing}", thing).replace("\n", " ")
            data = {
                "answer": as_text(problem.answer, problem.unit),
                "level": level,
                "kind": problem.kind,
            }
            task_id = f"maths-{split}-{seed}-{len(tasks)}"
            tasks.append(Task(task_id, f"{text} {ASKED}", data, seed=len(tasks)))
        return tasks


def as_text(value: Fraction, unit: str = "") -> str:
    """A value as an answer: an integer or a fraction, per cent where that is the unit."""
    return f"{value * 100 if unit == '%' else value}{unit}"


# --- the kinds of problems -------------------------------------------------------------------


def _stock(draw: random.Random, level: int) -> Problem:
    """Something is got, given away, shared; what is left?"""
    start = have = draw.randrange(12, 60)
    told = [f"{{name}} has {start} {{thing}}."]
    for _ in range(level):
        text, have = _change(draw, have)
        told.append(text)
    question = "How many {thing} does {name} have now?"
    return Problem("stock", f"{' '.join(told)}\n{question}", Fraction(have))


def _stock_backwards(draw: random.Random, level: int) -> Problem:
    """The same, with the end told and the start asked for."""
    start = have = draw.randrange(12, 60)
    told = ["{name} had some {thing}."]
    for _ in range(level):
        text, have = _change(draw, have)
        told.append(text)
    told.append(f"Now there are {have} {{thing}}.")
    question = "How many {thing} did {name} have at the start?"
    return Problem("stock_backwards", f"{' '.join(told)}\n{question}", Fraction(start))


def _change(draw: random.Random, have: int) -> tuple[str, int]:
    """A step that can be undone: from what comes out, what went in can be told."""
    divisors = [n for n in (2, 3, 4, 5, 6) if have % n == 0]
    match draw.randrange(4 if divisors else 3):
        case 0:
            boxes, each = draw.randrange(2, 9), draw.randrange(3, 13)
            return f"{{name}} gets {boxes} boxes with {each} {{thing}} each.", have + boxes * each
        case 1:
            fewer = draw.randrange(1, max(2, have // 2))
            return f"{{name}} loses {fewer} of them.", have - fewer
        case 2:
            times = draw.randrange(2, 5)
            return f"Then {{name}} gets so many that there are {times} times as many.", have * times
        case _:
            part = draw.choice(divisors)
            return f"{{name}} gives one in {part} of them away.", have - have // part


def _shopping(draw: random.Random, level: int) -> Problem:
    """Prices, a discount, and a bill to share."""
    pieces, cents = draw.randrange(2, 13), draw.randrange(35, 995, 5)
    total = Fraction(pieces * cents, 100)
    told = [f"{{name}} buys {pieces} {{thing}} at {cents / 100:.2f} euros each."]
    if level > 1:
        percent = draw.choice((5, 10, 15, 20, 25, 30, 40))
        total *= Fraction(100 - percent, 100)
        told.append(f"The shop takes {percent}% off.")
    question = "How many euros does {name} pay?"
    if level > 2:
        friends = draw.randrange(3, 8)
        total /= friends
        told.append(f"{friends} people share the bill evenly, {{name}} among them.")
    return Problem("shopping", f"{' '.join(told)}\n{question}", total)


def _journey(draw: random.Random, level: int) -> Problem:
    """Stretches at different speeds; how many hours, or how fast on the whole?"""
    stretches = [(draw.randrange(4, 90), draw.randrange(4, 60)) for _ in range(level)]
    told = " Then ".join(
        f"{'{name}' if i == 0 else 'they'} cover{'s' if i == 0 else ''} {km} kilometres at {speed} "
        f"kilometres an hour."
        for i, (km, speed) in enumerate(stretches)
    )
    hours = sum((Fraction(km, speed) for km, speed in stretches), Fraction(0))
    if level > 2:
        kilometres = sum(km for km, _ in stretches)
        question = "What is the mean speed of the whole journey, in kilometres an hour?"
        return Problem("mean_speed", f"{told}\n{question}", kilometres / hours)
    return Problem("journey", f"{told}\nHow many hours does it take altogether?", hours)


def _together(draw: random.Random, level: int) -> Problem:
    """Taps that fill a tank, and from level 3 on a drain that empties it."""
    hours = draw.sample(range(2, 16), 2)
    rate = sum((Fraction(1, h) for h in hours), Fraction(0))
    told = f"One tap alone fills a tank in {hours[0]} hours, another in {hours[1]} hours."
    if level > 2:
        drain = draw.randrange(20, 40)
        rate -= Fraction(1, drain)
        told += f" The drain, which {{name}} left open, empties a full tank in {drain} hours."
    question = "How many hours does it take to fill the empty tank with everything open?"
    return Problem("together", f"{told}\n{question}", 1 / rate)


def _mixture(draw: random.Random, level: int) -> Problem:
    """Solutions that are poured together; how strong is the mixture?"""
    poured = [(draw.randrange(1, 12), draw.randrange(5, 80, 5)) for _ in range(level)]
    told = "{name} pours together " + ", ".join(
        f"{litres} litres of water with {percent}% salt" for litres, percent in poured
    )
    salt = sum(Fraction(litres * percent, 100) for litres, percent in poured)
    volume = sum(litres for litres, _ in poured)
    if level < 3:
        water = draw.randrange(1, 10)
        volume += water
        told += f" and {water} litres without salt"
    question = "How many per cent of the mixture is salt?"
    return Problem("mixture", f"{told}.\n{question}", Fraction(salt) / volume, "%")


_KINDS: dict[int, tuple[Callable[[random.Random, int], Problem], ...]] = {
    1: (_stock, _shopping, _journey, _mixture),
    2: (_stock, _stock_backwards, _shopping, _journey, _together, _mixture),
    3: (_stock, _stock_backwards, _shopping, _journey, _together, _mixture),
}
