"""Who acts at the same time, who may end a run, and who may stop it from outside."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rolecraft import Action, Environment, Message, Role, Run, Team, UserRequirement
from rolecraft.actions import Finish
from rolecraft.errors import UsageError
from rolecraft.trajectories import Event
from rolecraft.trajectories.codec import encode_event
from rolecraft.trajectories.observer import Directive


class Say(Action):
    """Say whom I heard last, after giving others some turns of the event loop."""

    yields: int = 0

    async def run(self, history: Any) -> str:
        for _ in range(self.yields):
            await asyncio.sleep(0)
        return f"after {history[-1].sent_from}"


class Begin(Say): ...


class Follow(Say): ...


def said(run: Run | Environment) -> list[str]:
    return [f"{e.time} {e.role}: {e.content}" for e in run.trajectory.of("message")][1:]


def written(run: Run) -> list[bytes]:
    return [encode_event(event) for event in run.trajectory.events]


def three(**options: Any) -> Team:
    """All of them listen to the user; B and C to those before them as well."""
    return Team(
        [
            Role(name="A", actions=[Begin], watch=[UserRequirement]),
            Role(name="B", actions=[Follow], watch=[UserRequirement, Begin]),
            Role(name="C", actions=[Say], watch=[UserRequirement, Begin, Follow]),
        ],
        **options,
    )


# --- rounds, sequential ----------------------------------------------------------------------


async def test_in_rounds_nobody_hears_in_a_round_what_is_said_in_it() -> None:
    run = await three().run("go")
    assert said(run) == [
        "1 A: after user",
        "1 B: after user",
        "1 C: after user",
        "2 B: after A",
        "2 C: after B",
        "3 C: after B",
    ]


async def test_in_sequence_each_hears_those_before_it() -> None:
    run = await three(schedule="sequential").run("go")
    assert said(run) == ["1 A: after user", "2 B: after A", "3 C: after B"]
    assert run.trajectory.about["schedule"] == "sequential"


async def test_in_sequence_the_turn_goes_round() -> None:
    """After the last role the first is next, also where a later one has waited for longer."""
    roles = [
        Role(name="A", actions=[Begin], watch=[UserRequirement, Say]),
        Role(name="B", actions=[Follow], watch=[Begin]),
        Role(name="C", actions=[Say], watch=[Begin]),
    ]
    run = await Team(roles, schedule="sequential").run("go", rounds=6)
    assert [event.role for event in run.trajectory.of("message")][1:] == [*"ABCABC"]


async def test_an_unknown_schedule_is_refused() -> None:
    with pytest.raises(UsageError, match="`schedule` is 'parallel', expected one of"):
        Environment(schedule="parallel")  # type: ignore[arg-type]


# --- free ------------------------------------------------------------------------------------


async def test_free_roles_act_as_soon_as_they_have_heard_something() -> None:
    """B does not wait until the slow C, which began with A, has ended."""
    over = asyncio.Event()

    class Wait(Action):
        async def run(self) -> str:
            await over.wait()
            return "at last"

    class Release(Action):
        async def run(self, history: Any) -> str:
            over.set()
            return f"after {history[-1].sent_from}"

    roles = [
        Role(name="A", actions=[Begin]),
        Role(name="B", actions=[Release], watch=[Begin]),
        Role(name="C", actions=[Wait]),
    ]
    async with asyncio.timeout(60):  # in rounds it would never end
        run = await Team(roles, schedule="free").run("go")
    assert [line[2:] for line in said(run)] == ["A: after user", "B: after A", "C: at last"]


async def test_free_turns_are_bounded_and_the_next_call_goes_on() -> None:
    team = Team(
        [
            Role(name="A", actions=[Begin], watch=[UserRequirement, Follow]),
            Role(name="B", actions=[Follow], watch=[Begin]),
        ],
        schedule="free",
    )
    run = await team.run("go", rounds=3)
    assert (run.stop, len(said(run))) == ("rounds", 3)
    run = await team.run(rounds=2)
    assert (run.stop, len(said(run))) == ("rounds", 5)


async def test_a_free_role_that_fails_ends_the_run_and_cancels_the_others() -> None:
    cancelled: list[str] = []

    class Wait(Action):
        async def run(self) -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(self.role.name)
                raise

    class Fail(Action):
        async def run(self) -> None:
            await asyncio.sleep(0)
            raise ValueError("no")

    team = Team([Role(name="A", actions=[Wait]), Role(name="B", actions=[Fail])], schedule="free")
    async with asyncio.timeout(60):
        with pytest.raises(ValueError, match="no"):
            await team.run("go")
    assert cancelled == ["A"]
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert team.trajectory.stop_reason == "error"


async def test_a_free_run_that_was_cut_off_goes_on(tmp_path: Path) -> None:
    """Its order is what happened, not what the program says; what is complete is not done again."""
    done: list[str] = []

    class Note(Action):
        async def run(self, history: Any) -> str:
            done.append(f"{self.role.name}{len(history)}")
            return f"{len(history)}"

    kinds = [type(f"Note{n}", (Note,), {}) for n in range(3)]

    def team(journal: Path | None = None) -> Team:
        roles = [
            Role(name=f"R{n}", actions=[kinds[n]], watch=[UserRequirement, kinds[n - 1]])
            for n in range(3)
        ]
        return Team(roles, schedule="free", journal=journal)

    whole = team(tmp_path / "whole.jsonl")
    await whole.run("go", rounds=9)
    whole.close()
    lines = (tmp_path / "whole.jsonl").read_bytes().splitlines(keepends=True)
    for cut in range(3, len(lines) - 1):
        journal = tmp_path / f"{cut}.jsonl"
        journal.write_bytes(b"".join(lines[:cut]))
        ended = sum(b'"ends"' in line for line in lines[:cut])
        done.clear()
        again = team()
        run = await again.recover(journal)
        again.close()
        assert run.stop == "rounds"
        assert len(done) == 9 - ended, f"cut after line {cut}"


# --- ending ----------------------------------------------------------------------------------


def judges(**options: Any) -> Team:
    class Decide(Finish):
        async def run(self, history: Any) -> str | None:
            return "enough" if len(history) > 3 else None

    return Team(
        [
            Role(name="A", actions=[Begin], watch=[UserRequirement, Follow]),
            Role(name="B", actions=[Follow], watch=[Begin]),
            Role(name="Judge", actions=[Decide], watch=[Begin, Follow]),
        ],
        **options,
    )


async def test_finish_ends_the_run_after_its_round() -> None:
    run = await judges().run("go")
    assert run.stop == "finished"
    assert said(run)[-1] == "5 Judge: enough"
    assert written(await judges().replay(run)) == written(run)


@pytest.mark.parametrize("schedule", ["rounds", "sequential", "free"])
async def test_only_those_who_may_finish_end_the_run(schedule: str) -> None:
    run = await judges(schedule=schedule, may_finish=["Judge"]).run("go", rounds=60)
    assert run.stop == "finished"
    run = await judges(schedule=schedule, may_finish=["A"]).run("go", rounds=30)
    assert run.stop == "rounds"
    assert any(event.content == "enough" for event in run.trajectory.of("message"))


async def test_a_finish_that_says_nothing_of_its_own_repeats_what_was_said_last() -> None:
    run = await Team([Role(name="A", actions=[Begin, Finish])]).run("go")
    assert (run.stop, run.message and run.message.content) == ("finished", "after user")
    run = await Team([Role(name="A", actions=[Finish("done")])]).run("go")
    assert (run.stop, run.message and run.message.content) == ("finished", "done")


async def test_a_finished_team_can_be_given_more_to_do() -> None:
    team = Team([Role(name="A", actions=[Finish])])
    assert (await team.run("one")).stop == "finished"
    run = await team.run("two")
    assert (run.stop, run.message and run.message.content) == ("finished", "two")


# --- observers -------------------------------------------------------------------------------


class Watcher:
    """Stops the run at the message number `last`, and writes down what it was told."""

    def __init__(self, last: int = 10**6) -> None:
        self.last = last
        self.heard: list[Event] = []

    def on_event(self, event: Event) -> Directive | None:
        self.heard.append(event)
        said = sum(each.kind == "message" for each in self.heard)
        return Directive("stop", "enough was said") if said == self.last else None


class Memory(Watcher):
    """One that wants to know what was before."""

    def __init__(self, last: int = 10**6) -> None:
        super().__init__(last)
        self.known: list[Event] = []

    def on_known_event(self, event: Event) -> None:
        self.known.append(event)


async def test_an_observer_hears_of_each_event_once() -> None:
    watcher = Watcher()
    run = await three(observers=[watcher]).run("go")
    assert sorted(event.seq for event in watcher.heard) == list(range(len(run.trajectory.events)))


async def test_an_observer_hears_before_the_commit() -> None:
    """Also in a round in which others act: of the event itself, which has no number yet."""
    numbers: list[tuple[str, bool]] = []

    class Early:
        def on_event(self, event: Event) -> None:
            numbers.append((event.kind, event.seq < 0))

    await three(observers=[Early()]).run("go")
    assert numbers[0] == ("message", True)
    assert numbers[1] == ("action", True)


async def test_an_observer_stops_the_run_after_the_round() -> None:
    watcher = Watcher(last=3)
    run = await three(observers=[watcher]).run("go")
    assert run.stop == "observer"
    assert [line[:3] for line in said(run)] == ["1 A", "1 B", "1 C"], "the round is played out"
    (stop,) = run.trajectory.of("stop")
    assert stop.data == {"reason": "observer", "rounds": 1, "why": "enough was said"}
    assert written(await three().replay(run)) == written(run)


async def test_a_run_that_was_stopped_can_be_gone_on_with() -> None:
    watcher = Watcher(last=3)
    team = three(observers=[watcher])
    stopped = await team.run("go")
    run = await three().recover(stopped)
    assert run.stop == "idle"
    assert said(run) == said(await three().run("go"))


async def test_a_stopped_team_goes_on_where_it_stopped() -> None:
    """What the observer wanted was done; it may want it again."""
    team = three(observers=[Watcher(last=3)])
    await team.run("go")
    run = await team.run()
    assert run.stop == "idle"
    assert len(said(run)) == 6


async def test_only_an_observer_with_a_memory_is_told_what_was() -> None:
    run = await three().run("go", rounds=1)
    forgetful, mindful = Watcher(), Memory()
    whole = await three(observers=[forgetful, mindful]).recover(run, rounds=5)
    committed = [event.kind for event in mindful.known]
    assert committed == [event.kind for event in run.trajectory.events]
    assert [event.kind for event in mindful.heard] == [event.kind for event in forgetful.heard]
    assert len(mindful.known) + len(mindful.heard) == len(whole.trajectory.events)


async def test_a_replay_tells_observers_nothing_new() -> None:
    run = await three().run("go")
    watcher = Watcher(last=1)
    again = await three(observers=[watcher]).replay(run)
    assert again.stop == "idle"
    assert watcher.heard == []


async def test_what_an_observer_raises_is_not_swallowed() -> None:
    class Broken:
        def on_event(self, event: Event) -> None:
            if event.kind == "action":
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await three(observers=[Broken()]).run("go")


async def test_a_message_from_outside_waits_for_the_end_of_the_round() -> None:
    """In every schedule: what is said from outside meanwhile is heard in the next turn."""

    class Knock(Action):
        async def run(self) -> None:
            asyncio.get_running_loop().call_soon(
                team.env.publish_message, Message("knock", send_to="B")
            )
            for _ in range(3):
                await asyncio.sleep(0)

    for schedule in ("rounds", "sequential", "free"):
        team = Team(
            [Role(name="A", actions=[Knock]), Role(name="B", actions=[Say], watch=[Begin])],
            schedule=schedule,
        )
        run = await team.run("go")
        assert [line[2:] for line in said(run)] == ["user: knock", "B: after user"], schedule


@pytest.mark.parametrize("schedule", ["rounds", "sequential", "free"])
async def test_going_on_after_a_failure_is_in_the_record_whatever_the_schedule(
    schedule: str,
) -> None:
    """A free run that went on once left no `resume`."""
    tries: list[int] = []

    class Flaky(Action):
        async def run(self) -> str:
            tries.append(1)
            if len(tries) == 1:
                raise ConnectionError("away")
            return "there"

    def team() -> Team:
        return Team([Role(name="Ann", actions=[Flaky])], schedule=schedule)

    failed = team()
    with pytest.raises(ConnectionError):
        await failed.run("go")
    run = await team().recover(failed.trajectory)
    kinds = [event.kind for event in run.trajectory.events]
    assert kinds == ["message", "resume", "action", "message", "stop"]
