"""Teams whose roles swap their lists and wait for each other can be replayed and recovered.

Their roles keep what they know in their memory, so that role code which is run again on the record
comes to the same decisions.
"""

from __future__ import annotations

import importlib.util
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rolecraft import FunctionModel, Message, Role, Team
from rolecraft.models import ModelCall
from rolecraft.roles.ready.debate import debaters_and_judge
from rolecraft.roles.ready.panel import panel
from rolecraft.scenarios.tutorial import tutorial_team
from rolecraft.trajectories import Event, Trajectory
from rolecraft.trajectories.codec import encode_event

EXAMPLES = Path(__file__).parents[3] / "examples"


def script_of(example: str) -> Callable[[ModelCall], str]:
    """The stand-in of an example."""
    spec = importlib.util.spec_from_file_location(f"example_{example}", EXAMPLES / f"{example}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    script: Callable[[ModelCall], str] = module.script
    return script


def proposes(call: ModelCall) -> str:
    said = "5" if "says" in call.messages[-1].content.split("JSON")[0] else call.role
    return f'{{"reasoning": "so", "answer": "{said}"}}'


TEAMS: dict[str, tuple[Callable[[], list[Role]], Callable[[ModelCall], str]]] = {
    "tutorial": (tutorial_team, script_of("tutorial_assistant")),
    "debate": (lambda: debaters_and_judge(["one", "two"]), script_of("debate")),
    "panel": (panel, proposes),
}


def team(name: str, **options: Any) -> tuple[Team, FunctionModel]:
    roles, answer = TEAMS[name]
    model = FunctionModel(answer)
    return Team(roles(), model=model, **options), model


def story(events: list[Event]) -> list[tuple[str, str, str, int]]:
    """What happened, without what recovering itself writes."""
    return [(e.kind, e.role, e.content, e.time) for e in events if e.kind != "resume"]


@pytest.mark.parametrize("schedule", ["rounds", "sequential", "free"])
@pytest.mark.parametrize("name", TEAMS)
async def test_a_replay_has_the_same_bytes_and_asks_nobody(name: str, schedule: str) -> None:
    crew, model = team(name, schedule=schedule)
    run = await crew.run("a task")
    calls = len(model.calls)
    again = await crew.replay(run)
    assert len(model.calls) == calls
    assert list(map(encode_event, again.trajectory.events)) == list(
        map(encode_event, run.trajectory.events)
    )


@pytest.mark.parametrize("name", TEAMS)
async def test_cut_off_after_any_event_it_comes_to_the_same_end(name: str) -> None:
    crew, _ = team(name)
    whole = (await crew.run("a task")).trajectory
    for cut in range(1, len(whole.events)):
        known = Trajectory(whole.id, whole.about, whole.events[:cut])
        other, model = team(name)
        run = await other.recover(known)
        assert story(run.trajectory.events) == story(whole.events), f"cut after event {cut - 1}"
        answered = sum(event.kind == "model_call" for event in known.events)
        assert len(model.calls) == whole.usage.calls - answered


@pytest.mark.parametrize("name", TEAMS)
async def test_after_any_failed_call_the_team_comes_to_the_same_end(name: str) -> None:
    """Whichever model call fails: it is run again, and what a role heard is counted once."""
    roles, answer = TEAMS[name]
    expected = await team(name)[0].run("a task")
    assert expected.message is not None
    for failing in range(1, expected.usage.calls + 1):
        crew = Team(roles(), model=FunctionModel(fails_at(failing, answer)))
        with pytest.raises(ConnectionError):
            await crew.run("a task")
        await crew.run()
        assert ends(crew, expected.message) == [expected.message.content]


def ends(crew: Team, expected: Message) -> list[str]:
    """What was said by the role and the kind of work with which the run ends."""
    return [
        event.content
        for event in crew.trajectory.of("message")
        if (event.role, event.data["cause_by"]) == (expected.sent_from, expected.cause_by)
    ]


def fails_at(number: int, answer: Callable[[ModelCall], str]) -> Callable[[ModelCall], str]:
    calls = itertools.count(1)

    def unreliable(call: ModelCall) -> str:
        if next(calls) == number:
            raise ConnectionError("down")
        return answer(call)

    return unreliable
