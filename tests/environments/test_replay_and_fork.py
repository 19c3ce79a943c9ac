"""A recorded run can be played again without anybody, and branched off at any event."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import BaseModel

from rolecraft import Action, Environment, Message, Role, Team, UserRequirement
from rolecraft.actions import Finish, idempotency_key
from rolecraft.errors import Diverged, NotRestorable, UsageError
from rolecraft.messages import NOBODY
from rolecraft.models import FunctionModel, ScriptedModel, forbid_real_models
from rolecraft.models.chance import UniformModel
from rolecraft.models.doubles import ModelCall
from rolecraft.models.tiny import tiny_model
from rolecraft.trajectories import Trajectory
from rolecraft.trajectories.codec import encode_event


def written(run: object) -> list[bytes]:
    trajectory: Trajectory = run.trajectory
    return [encode_event(event) for event in trajectory.events]


class Outline(BaseModel):
    title: str
    chapters: list[str]


class WriteOutline(Action):
    async def run(self, history) -> Outline:
        title = await self.ask(f"A title for {history[-1].content}?")
        self.record_artifact("outline", title)
        return Outline(title=title, chapters=["one", "two"])


class WriteChapter(Action):
    chapter: str

    async def run(self) -> str:
        text = await self.ask(f"Write chapter {self.chapter}")
        self.role.written.append(self.chapter)
        return text


class Author(Role):
    actions = [WriteOutline]
    written: list[str] = []

    async def _act(self):
        message = await super()._act()
        if message.instruct_content is not None:
            self.set_actions([WriteChapter(name) for name in message.instruct_content.chapters])
        return message


class Comment(Action):
    async def run(self, history) -> str | None:
        await asyncio.sleep(0)
        self.role.publish_message(Message("reading", send_to=NOBODY))
        answer = await self.ask(f"Comment on {history[-1].content}")
        return answer if "silent" not in answer else None


class Counter:
    """A model that counts who was asked what."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.model = FunctionModel(self._answer)

    def _answer(self, call: ModelCall) -> str:
        self.asked.append(call.messages[-1].content)
        return f"re: {call.messages[-1].content[:40]}"


def book_team(model: object = None, **options: object) -> Team:
    return Team(
        [Author(), Role(name="Reader", actions=[Comment], watch=[WriteChapter, WriteOutline])],
        model=model,
        **options,
    )


async def test_a_replay_is_byte_equal_and_asks_nobody() -> None:
    counter = Counter()
    team = book_team(counter.model)
    run = await team.run("rain")
    asked = len(counter.asked)
    assert asked == 4
    with forbid_real_models():
        again = await team.replay(run)
        without_model = await book_team().replay(run)
    assert written(again) == written(without_model) == written(run)
    assert again.trajectory.header() == run.trajectory.header()
    assert len(counter.asked) == asked
    assert again.message == run.message


async def test_a_replay_does_no_action_again() -> None:
    done: list[str] = []

    class Pay(Action):
        async def run(self) -> str:
            done.append(idempotency_key())
            return "paid"

    team = Team([Role(name="Ann", actions=[Pay, Pay])])
    run = await team.run("go")
    assert done == ["run/Ann/1", "run/Ann/2"]
    assert written(await team.replay(run)) == written(run)
    assert len(done) == 2


async def test_a_replay_of_a_1000_message_5_role_run_is_byte_equal() -> None:
    """Roles that act together, ask, and wait for no fixed time."""
    counter, chance = Counter(), random.Random(3)

    class Say(Action):
        async def run(self, history) -> str:
            for _ in range(chance.randrange(3)):
                await asyncio.sleep(0)
            if len(history) % 4 == 1:
                return await self.ask(history[-1].content)
            return f"{self.role.name} heard {len(history)}"

    kinds = [type(f"Say{n}", (Say,), {}) for n in range(5)]

    def team(model: object = None) -> Team:
        roles = [
            Role(name=f"R{n}", actions=[kinds[n]], watch=[kinds[n - 1], UserRequirement])
            for n in range(5)
        ]
        return Team(roles, model=model)

    run = await team(counter.model).run("go", rounds=200)
    assert len(list(run.trajectory.of("message"))) == 1001
    asked = len(counter.asked)
    assert asked > 100
    assert written(await team().replay(run)) == written(run)
    assert len(counter.asked) == asked


async def test_a_fork_at_an_event_makes_exactly_the_calls_after_it() -> None:
    counter = Counter()
    team = book_team(counter.model)
    run = await team.run("rain")
    events = run.trajectory.events
    for at in range(len(events)):
        counter.asked.clear()
        branch = await team.fork(run, at)
        later = [event for event in events[at + 1 :] if event.kind == "model_call"]
        assert len(counter.asked) == len(later), f"event {at}"
        assert written(branch)[: at + 1] == written(run)[: at + 1]
        assert branch.trajectory.about["fork"] == {"trajectory": "run", "at": at}
        (mark,) = branch.trajectory.of("fork")
        assert mark.data == {"trajectory": "run", "at": at, "changed": []}


async def test_a_changed_message_is_what_everybody_after_it_hears() -> None:
    counter = Counter()
    team = book_team(counter.model)
    run = await team.run("rain")
    *_, chapter = (e for e in run.trajectory.of("message") if e.role == "Author")
    counter.asked.clear()
    branch = await team.fork(run, chapter.seq, message="All wet.")
    assert branch.trajectory.events[chapter.seq].content == "All wet."
    assert "Comment on All wet." in counter.asked
    assert not any("A title" in question for question in counter.asked)
    assert "All wet." not in str(written(run)), "the run that it branches off stays as it was"


async def test_the_first_message_can_be_changed() -> None:
    counter = Counter()
    team = book_team(counter.model)
    run = await team.run("rain")
    counter.asked.clear()
    branch = await team.fork(run, 0, message="snow")
    assert counter.asked[0] == "A title for snow?"
    assert branch.stop == "idle"


async def test_a_message_with_content_that_code_reads_wants_the_changed_content() -> None:
    counter = Counter()
    team = book_team(counter.model)
    run = await team.run("rain")
    outline = next(e for e in run.trajectory.of("message") if "instruct_content" in e.data)
    with pytest.raises(UsageError, match=r"carries a `.*Outline`, which role code reads"):
        await team.fork(run, outline.seq, message="three chapters")
    content = Outline(title="Snow", chapters=["only"])
    message = Message("one chapter", instruct_content=content)
    counter.asked.clear()
    branch = await team.fork(run, outline.seq, message=message)
    assert [q for q in counter.asked if q.startswith("Write")] == ["Write chapter only"]
    said = next(e for e in branch.trajectory.of("message") if e.role == "Author")
    assert said.data["instruct_content"] == content.model_dump()


async def test_another_model_answers_after_the_fork_and_not_before() -> None:
    team = book_team(Counter().model)
    run = await team.run("rain")
    other = FunctionModel(lambda call: "silent", name="other")
    branch = await team.fork(run, 4, model=other)
    calls = [(event.seq, event.data["model"]) for event in branch.trajectory.of("model_call")]
    assert {name for seq, name in calls if seq <= 4} == {"function"}
    assert {name for seq, name in calls if seq > 4} == {"other"}
    (mark,) = branch.trajectory.of("fork")
    assert mark.data["changed"] == ["model"]


async def test_another_role_takes_over_with_what_the_first_remembers() -> None:
    class Recall(Action):
        async def run(self, history) -> str:
            return f"{len(history)} messages, the first {history[0].content}"

    team = book_team(Counter().model)
    run = await team.run("rain")
    stranger = Role(name="Reader", actions=[Recall], watch=[WriteChapter])
    second = [e for e in run.trajectory.of("message") if e.role == "Author"][1]
    branch = await team.fork(run, second.seq, role=stranger)
    said = [e.content for e in branch.trajectory.of("message") if e.role == "Reader"]
    assert said[-1].startswith("3 messages, the first ")
    with pytest.raises(UsageError, match="'Nobody' is not known"):
        await team.fork(run, 3, role=Role(name="Nobody", actions=[Recall]))


async def test_a_fork_of_nothing_says_so() -> None:
    team = book_team(Counter().model)
    run = await team.run("rain")
    last = len(run.trajectory.events) - 1
    with pytest.raises(UsageError, match=f"the record has the events 0 to {last}"):
        await team.fork(run, last + 1)
    with pytest.raises(UsageError, match=r"event 1 is an action, no message\. The nearest"):
        await team.fork(run, 1, message="x")


async def test_what_the_user_said_later_is_said_again_in_a_fork() -> None:
    counter = Counter()
    team = book_team(counter.model)
    await team.run("rain")
    run = await team.run("snow")
    branch = await team.fork(run, 1)
    asked = [e.content for e in branch.trajectory.of("message") if e.role == "user"]
    assert asked == ["rain", "snow"]


async def test_a_fork_can_be_recorded_to_a_file(tmp_path: Path) -> None:
    team = book_team(Counter().model, journal=tmp_path / "run.jsonl")
    run = await team.run("rain")
    branch = await team.fork(tmp_path / "run.jsonl", 3, journal=tmp_path / "fork.jsonl")
    assert Trajectory.load(tmp_path / "fork.jsonl").events == branch.trajectory.events
    assert Trajectory.load(tmp_path / "run.jsonl").events == run.trajectory.events


async def test_the_first_divergence_is_reported() -> None:
    """Role code that is not the same when it runs again."""
    moods = iter(["sunny", "rainy"])

    class Moody(Role):
        async def _act(self):
            return Message(next(moods))

    team = Team([Moody(name="Ann", actions=[Comment], max_actions=1)])
    team.roles["Ann"].rc.max_react_loop = 1
    run = await team.run("go")
    with pytest.raises(Diverged, match="first at event 1") as caught:
        await team.replay(run)
    assert caught.value.seq == 1
    assert "sunny" in caught.value.recorded
    assert "rainy" in caught.value.got


async def test_a_role_that_is_another_than_then_is_refused() -> None:
    team = book_team(Counter().model)
    run = await team.run("rain")

    class Other(Author):
        goal = "something else"

    reader = Role(name="Reader", actions=[Comment], watch=[WriteChapter, WriteOutline])
    with pytest.raises(UsageError, match=r"Role 'Author' differs .* in `class`, `goal`"):
        await Team([Other(name="Author"), reader]).replay(run)


async def test_a_team_of_other_roles_is_refused() -> None:
    team = book_team(Counter().model)
    run = await team.run("rain")
    with pytest.raises(UsageError, match=r"record is of the roles \['Author', 'Reader'\]; this"):
        await Team([Role(name="Zoe", actions=[Comment])]).replay(run)
    with pytest.raises(UsageError, match=r"\['Reader'\] are missing"):
        await Team([Author()]).replay(run)


async def test_a_failed_run_is_replayed_with_its_failure() -> None:
    class Break(Action):
        async def run(self) -> str:
            await self.ask("?")
            raise KeyError("lost")

    team = Team([Role(name="Ann", actions=[Break])], model=ScriptedModel(["!"]))
    with pytest.raises(KeyError):
        await team.run("go")
    failed = team.trajectory.copy()
    again = await team.replay(failed)
    assert written(again) == [encode_event(event) for event in failed.events]
    assert again.stop == "error"


async def test_role_code_meets_the_failure_that_was_recorded() -> None:
    """A role that catches what its action raises takes the same way when it is replayed."""
    tries: list[int] = []

    class Flaky(Action):
        async def run(self) -> str:
            tries.append(1)
            if len(tries) == 1:
                raise ConnectionError("no network")
            return "there"

    class Patient(Role):
        async def _act(self):
            try:
                return await super()._act()
            except ConnectionError as error:
                return Message(f"again: {error}", cause_by=Flaky)

    team = Team([Patient(name="Ann", actions=[Flaky, Flaky])])
    run = await team.run("go")
    assert [e.content for e in run.trajectory.of("message")][1:] == ["again: no network", "there"]
    assert written(await team.replay(run)) == written(run)
    assert len(tries) == 2


async def test_what_an_action_changes_of_its_role_is_put_back() -> None:
    class Count(Action):
        times: int = 0

        async def run(self) -> str:
            self.times += 1
            self.role.seen.append(self.times)
            self.role.latest = Outline(title=str(self.times), chapters=[])
            return f"{self.role.total}"

    class Adder(Role):
        actions = [Count, Count]
        seen: list[int] = []
        total: int = 0
        latest: Outline | None = None

        async def _act(self):
            message = await super()._act()
            self.total += len(self.seen)
            message.content = f"{message.content} {self.seen} {self.latest.title}"
            return message

    team = Team([Adder()])
    run = await team.run("go")
    assert run.message.content == "1 [1, 1] 1"
    assert written(await team.replay(run)) == written(run)


async def test_an_action_that_swaps_the_list_is_served_with_the_swap() -> None:
    class Plan(Action):
        async def run(self) -> str:
            self.role.set_actions([WriteChapter("x"), WriteChapter("y")])
            return "planned"

    class Writer(Role):
        actions = [Plan]
        written: list[str] = []

    counter = Counter()
    team = Team([Writer()], model=counter.model)
    run = await team.run("go")
    assert run.message.content == "re: Write chapter y"
    assert written(await team.replay(run)) == written(run)
    assert len(counter.asked) == 2


async def test_a_result_that_no_record_holds_is_named() -> None:
    class Open(Action):
        async def run(self) -> object:
            return object()

    class Keeper(Role):
        actions = [Open]

        async def _act(self):
            await self.rc.todo.run()
            return Message("opened")

    team = Team([Keeper()])
    run = await team.run("go")
    with pytest.raises(NotRestorable, match="`Open` has returned a `object`"):
        await team.replay(run)
    Open.repeat = "freely"
    assert written(await team.replay(run)) == written(run)


async def test_an_action_that_only_touches_objects_here_is_done_again_when_it_may() -> None:
    class Register(Action):
        repeat = "freely"

        async def run(self) -> str:
            self.role.rc.env.values.append(await self.ask("value?"))
            return f"{len(self.role.rc.env.values)} values"

    class Registers(Environment):
        def __init__(self, *args, **options) -> None:
            super().__init__(*args, **options)
            self.values: list[str] = []

    model = ScriptedModel(["1", "2"])
    env = Registers([Role(name="Ann", actions=[Register, Register])], model=model)
    team = Team(env=env)
    run = await team.run("go")
    assert env.values == ["1", "2"]
    assert written(await team.replay(run)) == written(run)
    assert env.values == ["1", "2"], "the replay has an environment of its own"


async def test_several_runs_of_one_team_are_replayed_together() -> None:
    counter = Counter()
    team = book_team(counter.model)
    await team.run("rain", rounds=1)
    await team.run("snow")
    run = await team.run("hail", rounds=2)
    assert written(await team.replay(run)) == written(run)


async def test_sequential_and_free_runs_are_replayed() -> None:
    chance = random.Random(5)

    class Say(Action):
        async def run(self, history) -> str:
            await asyncio.sleep(chance.random() / 1000)
            return f"{self.role.name} after {history[-1].content[:8]}"

    kinds = [type(f"Say{n}", (Say,), {}) for n in range(3)]
    for schedule in ("sequential", "free"):
        roles = [
            Role(name=f"R{n}", actions=[kinds[n]], watch=[kinds[n - 1], UserRequirement])
            for n in range(3)
        ]
        team = Team(roles, schedule=schedule)
        run = await team.run("go", rounds=40)
        assert run.trajectory.about["schedule"] == schedule
        assert written(await team.replay(run)) == written(run), schedule


async def test_a_run_that_a_role_finished_is_replayed_to_its_end() -> None:
    team = Team(
        [Role(name="A", actions=[Finish]), Role(name="B", actions=[Finish])], may_finish=["B"]
    )
    run = await team.run("done?")
    assert run.stop == "finished"
    assert (await team.replay(run)).stop == "finished"


async def test_tokens_go_on_exactly_where_the_record_ends() -> None:
    """A conversation of a local model, forked in its middle, continues its token sequence."""

    class Talk(Action):
        async def run(self) -> str:
            session = self.open_session()
            words = []
            for question in ("a", "b", "c"):
                answer = await session.generate([Message(question)])
                words.append(answer.text)
            return " ".join(words)

    model = tiny_model(["a", "b", "c", "d"], seed=1)
    team = Team([Role(name="Ann", actions=[Talk])], model=model)
    run = await team.run("go")
    first = next(run.trajectory.of("model_call"))
    branch = await team.fork(run, first.seq)
    ours = [event.tokens for event in branch.trajectory.of("model_call")]
    theirs = [event.tokens for event in run.trajectory.of("model_call")]
    assert [t.start for t in ours] == [t.start for t in theirs]
    assert [t.given for t in ours] == [t.given for t in theirs]
    assert [t.sampled for t in ours] == [t.sampled for t in theirs], "the seed says what is drawn"
    await model.aclose()


async def test_a_model_by_chance_is_replayed_and_forked_alike() -> None:
    class Pick(Action):
        async def run(self) -> str:
            from rolecraft.models import Sampling

            sampling = Sampling(choices=("a", "b", "c", "d", "e", "f"))
            return await self.ask("?", sampling=sampling)

    team = Team([Role(name="Ann", actions=[Pick] * 5)], model=UniformModel(), seed=11)
    run = await team.run("go")
    assert written(await team.replay(run)) == written(run)


class Note(Action):
    """Counts how often it was really done."""

    done: ClassVar[list[str]] = []

    async def run(self) -> str:
        self.done.append(idempotency_key())
        await asyncio.sleep(0)
        return "noted"


def two_who_note(kind: type[Role] = Role, model: object = None) -> Team:
    roles = [kind(name="Ann", actions=[Note, Note]), Role(name="Bob", actions=[Note])]
    return Team([*roles, Role(name="Cy", actions=[Note], watch=[Note])], model=model)


async def test_a_replay_of_a_run_that_was_cut_off_does_nothing_and_ends_with_its_last_round() -> (
    None
):
    run = await two_who_note().run("go")
    events = run.trajectory.events
    second = next(event.seq for event in events if event.time == 2)
    for cut in range(1, len(events)):
        Note.done.clear()
        record = Trajectory("run", run.trajectory.about, events[:cut])
        again = await two_who_note().replay(record)
        assert Note.done == []
        assert written(again) == written(run)[: second if cut > second else 1]


async def test_a_replay_of_a_cancelled_run_does_nothing() -> None:
    entered = asyncio.Event()

    class Wait(Action):
        async def run(self) -> None:
            Note.done.append("entered")
            entered.set()
            await asyncio.Event().wait()

    team = Team([Role(name="Ann", actions=[Note]), Role(name="Bob", actions=[Wait], watch=[Note])])
    running = asyncio.create_task(team.run("go"))
    await entered.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    Note.done.clear()
    again = await team.replay(team.trajectory)
    assert [event.kind for event in again.trajectory.events] == ["message", "action", "message"]
    assert Note.done == []


async def test_a_role_that_does_more_than_then_in_a_replay_does_it_not() -> None:
    """Also beside others, when what it does is compared with the record only later."""
    run = await two_who_note().run("go")

    class Eager(Role):
        async def _react(self):
            said = await super()._react()
            await self.actions[0].run()
            return said

    Eager.__module__, Eager.__qualname__ = Role.__module__, Role.__qualname__
    Note.done.clear()
    with pytest.raises(Diverged, match="first at event 5"):
        await two_who_note(Eager).replay(run)
    assert Note.done == []


async def test_a_result_is_served_to_the_call_that_had_it_and_to_no_other() -> None:
    """An action that is run again may do something else than it did: it need not be repeatable."""
    pages = iter([1, 2])
    fetched: list[int] = []

    class Fetch(Action):
        page: int

        async def run(self) -> str:
            fetched.append(self.page)
            return f"page {self.page}"

    class Browse(Action):
        async def run(self) -> str:
            found = await Fetch(next(pages))._bound(self.role).run()
            if found == "page 1":
                raise ConnectionError("gone")
            return found

    team = Team([Role(name="Ann", actions=[Browse])])
    with pytest.raises(ConnectionError):
        await team.run("go")
    run = await team.recover(team.trajectory)
    assert run.message.content == "page 2"
    assert fetched == [1, 2]
