"""Detectors while the run goes on: what they want is done once, and is in the record.

The team here is stuck: its worker looks into the same folder until somebody tells it not to.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rolecraft import Action, Message, Role, Run, Team, UserRequirement
from rolecraft.errors import UnknownName, UsageError
from rolecraft.failure_taxonomy import Detector, LiveDetectors, annotate
from rolecraft.failure_taxonomy.detectors import Constraints, Repetition, Reset
from rolecraft.failure_taxonomy.view import TraceView
from rolecraft.trajectories import Directive, Event, FailureFinding
from rolecraft.trajectories.codec import encode_event


def nudged(history: list[Message]) -> Message | None:
    """What a role that was nudged says: nothing that wakes anybody."""
    if any(message.sent_from == "environment" for message in history):
        return Message("I see. It is done.", send_to="<none>")
    return None


class Look(Action):
    """Looks into the folder, and finds what it found before."""

    async def run(self, history: list[Message]) -> str | Message:
        return nudged(history) or "The folder holds parser.py."


class Nod(Action):
    async def run(self, history: list[Message]) -> str | Message:
        return nudged(history) or "Look again."


class Deaf(Look):
    async def run(self, history: list[Message]) -> str:
        return "The folder holds parser.py."


class DeafNod(Nod):
    async def run(self, history: list[Message]) -> str:
        return "Look again."


def stuck(look: type[Look] = Look, nod: type[Nod] = Nod, **options: Any) -> Team:
    """A worker that looks, and a boss that sends it to look again."""
    worker = Role(name="worker", actions=[look], watch=[UserRequirement, nod])
    return Team([worker, Role(name="boss", actions=[nod], watch=[look])], **options)


def written(run: Run) -> list[bytes]:
    return [encode_event(event) for event in run.trajectory.events]


def nudging(**options: Any) -> Team:
    return stuck(observers=[LiveDetectors(on={"repetition": "nudge"})], **options)


async def test_a_nudge_is_said_to_the_role_that_repeats_itself() -> None:
    run = await nudging().run("Look into the folder.", rounds=12)
    assert run.stop == "idle"
    said = [e for e in run.trajectory.of("message") if e.role == "environment"]
    assert said
    assert all(e.to in (("worker",), ("boss",)) for e in said)
    assert "Step repetition" in said[0].content
    assert "was done once more" in said[0].content
    nudge = said[0].data["metadata"]["nudge"]
    assert nudge["mode"] == "repetition"
    assert nudge["source"] == "detector.repetition"
    assert not list(run.trajectory.of("note"))


async def test_without_a_nudge_it_is_stuck() -> None:
    assert (await stuck().run("Look into the folder.", rounds=12)).stop == "rounds"


async def test_a_stop_ends_the_run_and_says_why() -> None:
    watch = LiveDetectors(on={"repetition": "stop"})
    run = await stuck(observers=[watch]).run("Look into the folder.", rounds=12)
    assert run.stop == "observer"
    (stop,) = run.trajectory.of("stop")
    (note,) = (n for n in run.trajectory.of("note") if n.data["do"] == "stop")
    assert stop.data["why"] == note.content
    assert watch.found[0].mode == "repetition"


async def test_a_note_changes_nothing_else() -> None:
    plain = await stuck().run("Look into the folder.", rounds=8)
    noted = await stuck(observers=[LiveDetectors()]).run("Look into the folder.", rounds=8)
    assert list(noted.trajectory.of("note"))
    kept = [(e.kind, e.role, e.content) for e in noted.trajectory.events if e.kind != "note"]
    assert kept == [(e.kind, e.role, e.content) for e in plain.trajectory.events]


async def test_each_finding_is_acted_on_once() -> None:
    watch = LiveDetectors(on={"repetition": "note"})
    run = await stuck(observers=[watch]).run("Look into the folder.", rounds=20)
    assert len(list(run.trajectory.of("note"))) == len(watch.found) == 2  # one for each role


async def test_a_role_that_does_not_listen_is_not_told_for_ever() -> None:
    watch = LiveDetectors(on={"repetition": "nudge"}, most=2)
    run = await stuck(Deaf, DeafNod, observers=[watch]).run("Look into the folder.", rounds=40)
    assert run.stop == "rounds"
    for role in ("worker", "boss"):
        nudges = [e for e in run.trajectory.of("message") if e.to == (role,)]
        assert 1 <= len(nudges) <= 2


# --- the record ---------------------------------------------------------------------------------


async def test_a_replay_has_the_same_bytes() -> None:
    team = nudging()
    run = await team.run("Look into the folder.", rounds=12)
    assert written(await team.replay(run)) == written(run)
    assert written(await stuck().replay(run)) == written(run)  # it watches nothing, and need not


@pytest.mark.parametrize("schedule", ["rounds", "sequential"])
async def test_wherever_a_run_is_killed_it_goes_on_to_the_same_record(
    tmp_path: Path, schedule: str
) -> None:
    whole = tmp_path / "whole.jsonl"
    team = nudging(journal=whole, schedule=schedule)
    await team.run("Look into the folder.", rounds=12)
    team.close()
    lines = whole.read_bytes().splitlines(keepends=True)
    assert any(b'"nudge"' in line for line in lines)
    for count in range(1, len(lines)):
        journal = tmp_path / f"cut-{count}.jsonl"
        journal.write_bytes(b"".join(lines[:count]))
        again = nudging(schedule=schedule)
        await again.recover(journal)
        again.close()
        assert journal.read_bytes() == whole.read_bytes(), count


async def test_a_free_run_that_is_killed_loses_no_nudge_and_says_none_twice(tmp_path: Path) -> None:
    """The order of free turns is what happened, so the records differ; what is said does not."""
    whole = tmp_path / "whole.jsonl"
    team = nudging(journal=whole, schedule="free")
    await team.run("Look into the folder.", rounds=12)
    team.close()
    lines = whole.read_bytes().splitlines(keepends=True)
    for count in range(1, len(lines)):
        journal = tmp_path / f"cut-{count}.jsonl"
        journal.write_bytes(b"".join(lines[:count]))
        again = nudging(schedule="free")
        run = await again.recover(journal)
        again.close()
        assert run.stop == "idle", count
        said = [e for e in run.trajectory.of("message") if e.role == "environment"]
        named = [(e.to, *e.data["metadata"]["nudge"]["events"]) for e in said]
        assert len(named) == len(set(named)), count
        assert {e.to for e in said} == {("worker",), ("boss",)}, count


async def test_a_fork_before_a_nudge_is_nudged_and_one_after_it_is_not_again() -> None:
    team = nudging()
    run = await team.run("Look into the folder.", rounds=12)
    nudge = next(e for e in run.trajectory.of("message") if e.role == "environment")
    for at in (nudge.seq - 1, nudge.seq):
        branch = await team.fork(run, at)
        said = [
            next(e for e in each.trajectory.of("message") if e.role == "environment")
            for each in (branch, run)
        ]
        assert (said[0].seq, said[0].content) == (said[1].seq, said[1].content)
        told = [e for e in branch.trajectory.of("message") if e.role == "environment"]
        named = [(e.to, *e.data["metadata"]["nudge"]["events"]) for e in told]
        assert len(named) == len(set(named))


async def test_what_was_found_live_is_found_afterwards() -> None:
    watch = LiveDetectors()
    run = await stuck(observers=[watch]).run("Look into the folder.", rounds=12)
    report = await annotate(run)
    after = {(f.mode, f.role, f.events[0]) for f in report.present}
    assert {(f.mode, f.role, f.events[0]) for f in watch.found} <= after
    assert {(f.mode, f.verdict) for f in watch.findings} >= {
        (f.mode, f.verdict) for f in report.present
    }


async def test_one_object_can_watch_one_run_after_the_other() -> None:
    watch = LiveDetectors()
    first = await stuck(observers=[watch]).run("Look into the folder.", rounds=8)
    found = list(watch.found)
    second = await stuck(observers=[watch]).run("Look into the folder.", rounds=8)
    assert watch.found == found
    assert written(first) == written(second)


async def test_a_run_that_failed_goes_on_under_the_same_eyes() -> None:
    """The round that failed is told twice, and watched once."""

    class Fails(Look):
        left: int = 1

        async def run(self, history: list[Message]) -> str | Message:
            if self.left and len(history) > 2:
                self.left -= 1
                raise OSError("the disk is gone")
            return await super().run(history)

    watch = LiveDetectors(on={"repetition": "nudge"})
    team = stuck(Fails, observers=[watch])
    with pytest.raises(OSError, match="the disk is gone"):
        await team.run("Look into the folder.", rounds=12)
    Fails.left = 0
    run = await team.recover(team.trajectory)
    assert run.stop == "idle"
    said = [e for e in run.trajectory.of("message") if e.role == "environment"]
    named = [(e.to, *e.data["metadata"]["nudge"]["events"]) for e in said]
    assert len(named) == len(set(named)) >= 2


# --- observers ----------------------------------------------------------------------------------


class Once:
    """Wants one thing at the first action."""

    def __init__(self, directive: Directive) -> None:
        self.directive: Directive | None = directive

    def on_event(self, event: Event) -> Directive | None:
        if event.kind != "action":
            return None
        wanted, self.directive = self.directive, None
        return wanted


async def test_any_observer_can_nudge_and_note() -> None:
    nudge = Directive("nudge", "Stop looking.", role="worker")
    run = await stuck(observers=[Once(nudge)]).run("Look into the folder.", rounds=6)
    assert "Stop looking." in [e.content for e in run.trajectory.of("message")]
    note = Directive("note", "It looks.", data={"how": "hard"})
    run = await stuck(observers=[Once(note)]).run("Look into the folder.", rounds=3)
    (noted,) = run.trajectory.of("note")
    assert (noted.content, noted.data) == ("It looks.", {"do": "note", "how": "hard"})


async def test_a_nudge_needs_a_role_that_is_there() -> None:
    with pytest.raises(UsageError, match="A nudge is said to somebody"):
        Directive("nudge", "Stop looking.")
    nobody = Directive("nudge", "Stop looking.", role="nobody")
    with pytest.raises(UnknownName, match="nobody"):
        await stuck(observers=[Once(nobody)]).run("Look into the folder.")


async def test_what_cannot_be_watched_is_named() -> None:
    with pytest.raises(UsageError, match="No detector decides `derailment`"):
        LiveDetectors(on={"derailment": "note"}, detectors=[Repetition()])
    with pytest.raises(UnknownName, match="shout"):
        LiveDetectors(on={"repetition": "shout"})  # type: ignore[dict-item]
    with pytest.raises(UnknownName, match="repetitoin"):
        LiveDetectors(on={"repetitoin": "note"})
    with pytest.raises(UsageError, match=r"says by mode what is done.*not 'stop'"):
        LiveDetectors(on="stop")  # type: ignore[arg-type]


def test_what_would_never_be_found_live_is_refused() -> None:
    """A team that trusts in a stop which cannot come would run on."""
    with pytest.raises(UsageError, match=r"No detector decides `no_clarification`.*Constraints"):
        LiveDetectors(on={"no_clarification": "stop"})
    for mode in ("premature_end", "verification.absent", "verification.weak"):
        with pytest.raises(UsageError, match=f"`{mode}` is only found after the run"):
            LiveDetectors(on={mode: "note"})
    assert LiveDetectors(on={"no_clarification": "stop"}, detectors=[Constraints()]).detectors
    assert "premature_end" in LiveDetectors().on


# --- cost ---------------------------------------------------------------------------------------


class Counting(Detector):
    """Counts the events that it is shown."""

    name = "detector.counting"
    modes = ("repetition",)

    def __init__(self) -> None:
        self.shown = 0

    def look(self, view: TraceView) -> list[FailureFinding]:
        self.shown += len(view.events)
        return [self.absent("repetition", "counted only")]


class CountingReset(Counting, Reset):
    modes = ("reset",)


class CountingRepetition(Counting, Repetition):
    pass


def shown(rounds: int, detectors: Sequence[Any], window: int) -> int:
    watch = LiveDetectors(detectors=detectors, window=window)
    for at in range(rounds * 5):
        watch.on_event(Event("message", "ada", str(at), seq=at, time=at // 5))
        if at % 5 == 4:
            watch.on_round({})
    return sum(detector.shown for detector in detectors)


def test_the_cost_of_a_round_does_not_grow_with_the_run() -> None:
    """Nothing is looked at more often than its share of the bound."""
    for rounds in (100, 1000):
        assert shown(rounds, [CountingReset()], 50) <= 12 * rounds * 5 + 50 * 50
        assert shown(rounds, [CountingRepetition()], 50) <= rounds * 50 + 12 * rounds * 5 + 50 * 50
