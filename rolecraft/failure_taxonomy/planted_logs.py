"""Planted failures as other people's logs: a script written the way another framework would.

What a detector finds in a run of our own it may miss in a log, where tool calls are lines of code
and nothing says that a step is finished. So the same kind of script is also rendered as text, and
read through the importer of that format. The roles of a script for `hyperagent` are `Planner`,
`Navigator`, `Editor` and `Executor`; the planner's turns name in `to` whom they are for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from rolecraft.failure_taxonomy.planting import Script, Turn, Use
from rolecraft.messages import ALL, USER

INSTANCE = "demo__demo-7"
SET_UP = "<set up>"
"""The role of a turn that is the system's own set-up line."""
THINKS = "thinks"
"""Name of the field of a turn that holds what the role thinks before it acts."""


def as_hyperagent(script: Script) -> str:
    """The script as a HyperAgent log."""
    lines = [*_set_up()]
    for turn in script.turns:
        lines += _hyperagent_turn(turn)
    return "\n".join(lines) + "\n"


def _set_up() -> list[str]:
    head = f"HyperAgent_{INSTANCE} - INFO - "
    return [f"{head}Initialized HyperAgent instance {INSTANCE}", f"{head}Initialized tools"]


def _hyperagent_turn(turn: Turn) -> Iterator[str]:
    head = f"HyperAgent_{INSTANCE} - INFO - "
    if turn.role == SET_UP:
        yield from _set_up()
        return
    thought = str(turn.fields.get(THINKS, ""))
    if turn.role == "Planner":
        yield f"{head}Planner's Response: Thought: {thought}"
        if turn.says is not None:
            yield f"Intern Name: Codebase {turn.to}"
            yield f"Subgoal: {turn.says}"
        return
    for at, use in enumerate(turn.does):
        assert isinstance(use, Use)
        given = ", ".join(f"{name}={value!r}" for name, value in use.arguments.items())
        step = thought if at == 0 else f"Now {use.tool}."
        yield f"{head}Inner-{turn.role}-Assistant's Response: Thought: {step}"
        yield from ("Action:", "```python", f"result = {use.tool}._run({given})")
        yield from ("print(result)", "```")
    if not turn.does:
        yield f"{head}Inner-{turn.role}-Assistant's Response: Thought: {thought}"
    if turn.says is not None:
        yield f"{head}{turn.role}->Planner: {turn.says}"


def as_ag2(script: Script) -> str:
    """The script as a chat of AG2 agents (JSON)."""
    rows = [
        {
            "content": _with_code(turn),
            "role": "assistant" if at % 2 == 0 else "user",
            "name": "user_proxy" if turn.role == USER else turn.role,
        }
        for at, turn in enumerate(script.turns)
    ]
    return json.dumps(rows, indent=1)


def as_metagpt(script: Script) -> str:
    """The script as a communication log of MetaGPT."""
    parts = ["=== MetaGPT Agent Communication Log - Started at 2025-01-01 10:00:00 ===", ""]
    rule = "-" * 80
    for at, turn in enumerate(script.turns):
        time = f"[2025-01-01 10:{at // 60:02}:{at % 60:02}]"
        if turn.role == USER:
            parts += [f"{time} FROM: Human TO: {{'{ALL}'}}"]
            parts += ["ACTION: metagpt.actions.add_requirement.UserRequirement", "CONTENT:"]
            parts += [_with_code(turn), rule, ""]
        else:
            parts += [f"{time} NEW MESSAGES:", "", f"{turn.role}: {_with_code(turn)}", "", rule, ""]
    return "\n".join([*parts, "", "=== Communication Log Ended at 2025-01-01 11:00:00 ===", ""])


def _with_code(turn: Turn) -> str:
    """What is said, with each call as a line of fenced code."""
    said = turn.says or ""
    for use in turn.does:
        assert isinstance(use, Use)
        given = ", ".join(f"{name}={value!r}" for name, value in use.arguments.items())
        said += f"\n```python\nresult = {use.tool}({given})\nprint(result)\n```"
    return said.strip()


RENDERINGS = {
    "hyperagent": (as_hyperagent, ".log"),
    "ag2": (as_ag2, ".json"),
    "metagpt": (as_metagpt, ".txt"),
}
"""How a script is written in each format, and the ending of such a file."""
