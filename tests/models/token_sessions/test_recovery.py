"""A run with tools that was killed goes on from its journal with the same tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rolecraft import Role, Team, tool
from rolecraft.models import Sampling
from rolecraft.roles.tool_calling import UseTools


@tool
async def look(place: str, times: int) -> str:
    """Look at a place."""
    return place * times


class Looks(UseTools):
    sampling = Sampling(max_tokens=400)
    tools = (look,)


class Scout(Role):
    goal = "to look"
    actions = [Looks]


def scripted(kit: Any, name: str, skip: int = 0) -> Any:
    """A model that calls twice, and then says what it saw; the first answers can be left out."""
    family = kit.FAMILIES[name]
    thought = "ab ba" if family.thinks else ""
    call, said = family.ends[-1], family.ends[0]
    model = kit.RandomModel(family, broken=0)
    model.script = [
        (kit.written(family, thought, "", [kit.call(family)]), call),
        (kit.written(family, thought, "aab", [kit.call(family)]), call),
        (kit.written(family, thought, "bb", []), said),
    ][skip:]
    return model


@pytest.mark.parametrize("name", ["qwen25", "qwen3", "glm45", "deepseek_v3", "gpt_oss"])
async def test_cut_off_after_any_line_the_tokens_are_the_same(
    kit: Any, name: str, tmp_path: Path
) -> None:
    whole = tmp_path / "whole.jsonl"
    first = scripted(kit, name)
    run = await Team([Scout()], model=first, journal=whole).run("ab")
    assert run.message.content == "bb"
    assert len([*run.trajectory.of("tool_result")]) == 2
    lines = whole.read_bytes().splitlines(keepends=True)
    for kept in range(2, len(lines)):
        known = sum(b'"kind":"model_call"' in line for line in lines[:kept])
        journal = tmp_path / f"{kept}.jsonl"
        journal.write_bytes(b"".join(lines[:kept]))
        model = scripted(kit, name, known)
        again = await Team([Scout()], model=model).recover(journal)
        spans, expected = (
            [event.tokens for event in each.trajectory.of("model_call")] for each in (again, run)
        )
        assert spans == expected, f"{kept} lines"
        asked = [request.ids for request, _ in first.calls]
        assert [request.ids for request, _ in model.calls] == asked[known:], f"{kept} lines"
