"""A word problem, solved in conversation with Python at hand: three published forms and one more.

`--form chat` is student and assistant, `prompt` the same with a better prompt, `team` is solver,
coder and verifier, of whom only the verifier may end the run, `voting` that team with a vote on the
proposals and programs that are written again until they run. Programs run in bubblewrap.

Without `--model` a stand-in answers that can read these problems and no others. It makes the
mistakes that the forms are there for: the first program fails, and the first proposal is wrong.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from fractions import Fraction

from rolecraft import FunctionModel, Model
from rolecraft.models import ModelCall
from rolecraft.roles.ready.answers import final_answer
from rolecraft.scenarios.maths_chat import FORMS

# --- what the stand-in knows: each sentence of a problem, as a line of Python -----------------

N = r"(\d+(?:\.\d+)?)"
STOCK: list[tuple[str, Callable[..., str]]] = [
    (rf"^\w+ has {N} \w+$", lambda n: f"have = F({n})"),
    (r"^\w+ had some \w+$", lambda: "have = start"),
    (rf"gets {N} boxes with {N} ", lambda boxes, each: f"have += {boxes} * {each}"),
    (rf"loses {N} of them", lambda n: f"have -= {n}"),
    (rf"there are {N} times as many", lambda n: f"have *= {n}"),
    (rf"gives one in {N} of them away", lambda n: f"have -= have / {n}"),
]


def program(problem: str) -> str:
    """A Python program that computes the answer of a problem of the family `maths`."""
    lines = ["from fractions import Fraction as F"]
    if "pours" in problem:
        poured = re.findall(rf"{N} litres of water with {N}% salt", problem)
        water = re.search(rf"{N} litres without salt", problem)
        lines += [
            f"salt = {' + '.join(f'{litres} * F({percent}, 100)' for litres, percent in poured)}",
            f"volume = {' + '.join(litres for litres, _ in poured)} + {water[1] if water else 0}",
            "print('per cent:', 100 * salt / volume)",
        ]
    elif "tap" in problem:
        hours = re.findall(rf"in {N} hours", problem)
        drain = "empties" in problem
        rates = [f"F(1, {h})" for h in hours]
        filled = f"{' + '.join(rates[:2])} - {rates[2]}" if drain else " + ".join(rates)
        lines += [f"rate = {filled}", "print('hours:', 1 / rate)"]
    elif "kilometres at" in problem:
        stretches = re.findall(rf"{N} kilometres at {N} ", problem)
        lines += [
            f"hours = {' + '.join(f'F({km}, {speed})' for km, speed in stretches)}",
            f"kilometres = {' + '.join(km for km, _ in stretches)}",
            f"print('answer:', {'kilometres / hours' if 'mean speed' in problem else 'hours'})",
        ]
    elif "buys" in problem:
        pieces, price = re.findall(rf"buys {N} \w+ at {N} euros", problem)[0]
        lines.append(f"pay = {pieces} * F('{price}')")
        lines += [f"pay *= F(100 - {n}, 100)" for n in re.findall(rf"takes {N}% off", problem)]
        lines += [f"pay /= {n}" for n in re.findall(rf"{N} people share", problem)]
        lines.append("print('euros:', pay)")
    else:
        lines += _stock(problem)
    return "\n".join(lines)


def _stock(problem: str) -> list[str]:
    steps = [
        line(*found.groups())
        for sentence in re.split(r"[.?]\s+", problem)
        for pattern, line in STOCK
        if (found := re.search(pattern, sentence))
    ]
    now = re.search(rf"Now there are {N} ", problem)
    if now is None:
        return [*steps, "print('now:', have)"]
    # Each step is linear, so two tries tell where it must have begun.
    body = "\n".join(f"    {step}" for step in steps)
    return [
        f"def end(start):\n{body}\n    return have",
        "zero, one = end(F(0)), end(F(1))",
        f"print('start:', ({now[1]} - zero) / (one - zero))",
    ]


# --- the stand-in ----------------------------------------------------------------------------

SLIP = "print(result)\n"
"""What the first program of a conversation has in front: it fails at once."""


def stand_in(*, wrong: int = 1) -> Model:
    """Plays every role of every form. The first program fails; `wrong` proposals are wrong."""
    proposals = itertools.count()

    def answer(call: ModelCall) -> str:
        talk = [message for message in call.messages if message.role != "system"]
        problem, heard = talk[0].content, talk[-1].content
        match call.role:
            case "Assistant" if heard.startswith("Output:") and "Error" not in heard:
                told_to = "Verification" in call.messages[0].content
                check = "Check: worked by hand, it is the same.\n" if told_to else ""
                return f"{check}The program gives \\boxed{{{heard.split()[-1]}}}"
            case "Assistant" | "Coder":
                slip = SLIP if all(message.role == "user" for message in talk) else ""
                return f"I compute it.\n```python\n{slip}{program(problem)}\n```"
            case "Solver":
                right = computed(problem)
                said = right if next(proposals) >= wrong else right + 1
                return f"Step by step I come to \\boxed{{{said}}}"
            case _:
                return verdict(heard)

    return FunctionModel(answer, name="stand-in")


def computed(problem: str) -> Fraction:
    """The answer. The program is the stand-in's own, so it needs no sandbox here."""
    printed: list[Fraction] = []
    exec(program(problem), {"print": lambda _, value: printed.append(Fraction(value))})
    return printed[-1]


def verdict(heard: str) -> str:
    """Accepts what solver and program agree on."""
    said = re.findall(r"^\[(\w+)\]\n(.*?)(?=\n\n\[\w+\]\n|\Z)", heard, re.DOTALL | re.MULTILINE)
    proposal = [final_answer(text) for name, text in said if name == "Solver"][-1]
    output = [text for name, text in said if name == "Coder"][-1].splitlines()[0]
    if "Error" in output or "Traceback" in output:
        reason, agree = "The program failed, so nothing is computed yet.", False
    else:
        value = output.split()[-1]
        agree = value == proposal
        reason = f"The program gives {value}, the solver {proposal}."
    return json.dumps({"reason": reason, "accepted": agree, "answer": proposal if agree else ""})


if __name__ == "__main__":
    from _options import play

    play({name: make() for name, make in FORMS.items()}, stand_in=stand_in())
