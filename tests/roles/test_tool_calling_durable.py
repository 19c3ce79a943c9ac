"""Tools and the record: a run with tools goes on, or is replayed, without doing them again."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from rolecraft import Action, FunctionModel, Role, Run, Team
from rolecraft.actions import idempotency_key, tool
from rolecraft.errors import OutcomeUnknown
from rolecraft.messages import ToolCall
from rolecraft.models import Completion
from rolecraft.trajectories.codec import encode_event

done: Counter[str] = Counter()
"""How often each call had its effect, by tool and idempotency key."""


@tool(parallel=True)
async def fetch(page: str, here: Action) -> dict[str, int]:
    """Beside others, and with a record of its own."""
    done[f"fetch {idempotency_key()}"] += 1
    await asyncio.sleep(0)
    here.record_artifact(page, "text")
    return {"length": len(page)}


@tool
def store(text: str) -> str:
    """In a thread."""
    done[f"store {idempotency_key()}"] += 1
    return f"stored {text}"


@tool(repeat="never")
async def pay(amount: int) -> None:
    """Not to be done twice."""
    done[f"pay {idempotency_key()}"] += 1
    if amount > 100:
        raise ValueError("too much")


ANSWERS = [
    Completion(
        text="",
        tool_calls=[
            ToolCall("fetch", {"page": "a"}, "1"),
            ToolCall("fetch", {"page": "bb"}, "2", repairs=("trailing comma",)),
            ToolCall("store", {"text": "c"}, "3"),
            ToolCall("store", {}, "4"),
            ToolCall("nothing", {}, "5"),
        ],
    ),
    Completion(
        text="",
        tool_calls=[ToolCall("pay", {"amount": 500}, "6"), ToolCall("pay", {"amount": 5}, "7")],
    ),
    Completion(text="All done."),
]


def team(journal: Path | None = None) -> Team:
    """Its model answers by what it was told, so that it can be asked from any point on."""
    told = {1: 0, 7: 1, 10: 2}
    model = FunctionModel(lambda call: ANSWERS[told[len(call.messages)]])
    clerk = Role(name="Ann", tools=[fetch, store, pay], model=model)
    return Team([clerk], journal=journal)


def encoded(run: Run) -> list[bytes]:
    return [encode_event(event) for event in run.trajectory.events]


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()


async def test_a_run_with_tools_is_replayed_without_calling_them() -> None:
    """Their results, and their errors too, come from the record, and the same bytes follow."""
    first = team()
    run = await first.run("go")
    assert sum(done.values()) == 5
    done.clear()
    again = await first.replay(run)
    assert not done
    assert encoded(again) == encoded(run)


async def go_on_from(folder: Path, *, told_of_a_failure: bool) -> None:
    """Cut a run off after every event, or only where its last event is a call that failed."""
    whole = await team(folder / "whole.jsonl").run("go")
    lines = (folder / "whole.jsonl").read_bytes().splitlines(keepends=True)
    events, expected = whole.trajectory.events, encoded(whole)
    for kept in range(1, len(events)):
        failed = events[kept - 1].kind == "tool_result" and not events[kept - 1].data["ok"]
        if failed is not told_of_a_failure:
            continue
        done.clear()
        journal = folder / f"{kept}.jsonl"
        journal.write_bytes(b"".join(lines[: kept + 1]))
        ended = {event.cause for event in events[:kept] if event.kind == "tool_result"}
        left = {
            f"{event.data['tool']} {whole.trajectory.id}/Ann/{event.data['run']}"
            for event in whole.trajectory.of("tool_call")
            if event.seq not in ended and event.data["arguments"]
        }
        run = await team().recover(journal, on_unknown="redo")
        assert encoded(run) == expected
        assert done == Counter(left)


async def test_cut_off_after_any_event_a_run_goes_on_to_the_same_end(tmp_path: Path) -> None:
    """What was complete is not done again; what was under way keeps its key."""
    await go_on_from(tmp_path, told_of_a_failure=False)


async def test_cut_off_after_a_call_that_failed_it_is_not_done_again(tmp_path: Path) -> None:
    """The model was about to be told of the failure; that is no end of the run."""
    await go_on_from(tmp_path, told_of_a_failure=True)


async def test_a_call_that_must_not_be_done_twice_is_asked_about(tmp_path: Path) -> None:
    await team(tmp_path / "whole.jsonl").run("go")
    lines = (tmp_path / "whole.jsonl").read_bytes().splitlines(keepends=True)
    paying = next(number for number, line in enumerate(lines, 1) if b'"tool":"pay"' in line)
    journal = tmp_path / "cut.jsonl"
    journal.write_bytes(b"".join(lines[:paying]))
    done.clear()
    with pytest.raises(OutcomeUnknown, match="Action 'pay' of role 'Ann' was under way"):
        await team().recover(journal)
    assert not done


@tool(repeat="freely")
def open_shelf(here: Action) -> str:
    """Changes this process only, so it is done again also where it was complete."""
    here.role.tools = [open_shelf, store]
    return "open"


async def test_a_tool_that_changes_the_roles_tools_does_so_again(tmp_path: Path) -> None:
    def shelf_team(journal: Path | None = None) -> Team:
        answers = [
            Completion(text="", tool_calls=[ToolCall("open_shelf", {}, "1")]),
            Completion(text="", tool_calls=[ToolCall("store", {"text": "c"}, "2")]),
            Completion(text="Done."),
        ]
        model = FunctionModel(lambda call: answers[len(call.messages) // 2])
        return Team([Role(name="Ann", tools=[open_shelf], model=model)], journal=journal)

    whole = await shelf_team(tmp_path / "whole.jsonl").run("go")
    lines = (tmp_path / "whole.jsonl").read_bytes().splitlines(keepends=True)
    for cut in range(2, len(lines)):
        journal = tmp_path / f"{cut}.jsonl"
        journal.write_bytes(b"".join(lines[:cut]))
        assert encoded(await shelf_team().recover(journal)) == encoded(whole)
