"""A clerk who looks things up in a small almanac, and a stand-in that answers without a key.

    rolecraft batch examples/batch/questions.jsonl --team examples/batch/team.py:team --out answers

`--model openai/gpt-4o-mini` asks a real model instead. The stand-in knows two kinds of questions:
what is in the almanac, and sums. Now and then it does what models do: it calls a tool that does
not exist, or gives no reasoning. Such samples are in `aside.jsonl`, with the reason.
"""

from __future__ import annotations

import re

from rolecraft import FunctionModel, Role, Team, tool
from rolecraft.messages import ToolCall
from rolecraft.models import Completion, ModelCall

RIVERS = {
    "Danube": 2850,
    "Elbe": 1094,
    "Loire": 1006,
    "Rhine": 1233,
    "Thames": 346,
    "Vistula": 1047,
    "Volga": 3530,
    "Ebro": 930,
}
"""Lengths in kilometres."""


@tool(parallel=True)
def river_length(name: str) -> int:
    """How long a river is, in kilometres."""
    if name not in RIVERS:
        raise ValueError(f"The almanac has no river {name!r}; it has {', '.join(RIVERS)}.")
    return RIVERS[name]


@tool(parallel=True)
def add(numbers: list[int]) -> int:
    """Add whole numbers."""
    return sum(numbers)


# --- the stand-in: rules, and no language model --------------------------------------------------


def answer(call: ModelCall) -> Completion:
    """What it says next, by what was asked and what its tools have returned."""
    question = next(each.content for each in call.messages if each.role == "user")
    results = [each.content for each in call.messages if each.api_role == "tool"]
    if results:
        said = ", ".join(results)
        return Completion(text=f"The answer is {said}.", reasoning=f"The tools say {said}.")
    numbers = [int(found) for found in re.findall(r"\d+", question)]
    if numbers:
        name = "sum_up" if sum(numbers) % 29 == 0 else "add"
        calls = [ToolCall(name, {"numbers": numbers}, "call_1")]
    else:
        rivers = re.findall(r"the ([A-Z]\w+)", question)
        calls = [
            ToolCall("river_length", {"name": river}, f"call_{place}")
            for place, river in enumerate(rivers, 1)
        ]
    if not calls:
        return Completion(text="I cannot say.")
    return Completion(text="", reasoning=f"I look it up with {calls[0].name}.", tool_calls=calls)


def team() -> Team:
    """The clerk, who may be asked anything."""
    clerk = Role(
        name="Clerk",
        profile="a clerk with an almanac",
        goal="right answers, looked up and not guessed",
        tools=[river_length, add],
    )
    return Team([clerk], model=FunctionModel(answer, name="stand-in", keep_calls=False))
