"""Incidents of durability: each test is one that somebody met, and its docstring tells it.

A kill is an image of the run's folder, files and effects, as `kill -9` would leave them at that
moment. The run itself goes on, so that one run gives an image of every moment.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import json
import os
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from rolecraft import Action, Limits, Message, Role, Run, Team, Trajectory, UserRequirement
from rolecraft.actions import idempotency_key
from rolecraft.errors import Diverged, JournalError, NotRestorable, TraceError, UsageError
from rolecraft.models import FunctionModel, ScriptedModel
from rolecraft.models.doubles import ModelCall
from rolecraft.trajectories import Event
from rolecraft.trajectories.append_file import AppendFile
from rolecraft.trajectories.codec import encode_event

JOURNAL = "run.jsonl"


def written(record: Run | Trajectory) -> list[bytes]:
    trajectory = record.trajectory if isinstance(record, Run) else record
    return [encode_event(event) for event in trajectory.events]


def said(record: Run | Trajectory, role: str) -> list[str]:
    trajectory = record.trajectory if isinstance(record, Run) else record
    return [event.content for event in trajectory.of("message") if event.role == role]


def note(path: Path, text: str) -> None:
    """An effect outside of the process."""
    with path.open("a") as file:
        file.write(text + "\n")


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class Clerk(Role):
    """A role that has effects."""

    effects: Path


class Look(Action):
    """Takes effect and ends."""

    async def run(self) -> str:
        note(self.role.effects, f"{idempotency_key()} looked")
        return "looked"


# --- kills -----------------------------------------------------------------------------------


def image(folder: Path, number: object) -> Path:
    """What a kill at this moment would leave of `folder`."""
    return Path(shutil.copytree(folder, folder.with_name(f"{folder.name}-{number}")))


@contextmanager
def images_of(folder: Path, *, step: int = 1, only: str = "") -> Iterator[list[Path]]:
    """Images before and after each write into a file of `folder`, or only those `after`.

    A longer `step` takes fewer of them.
    """
    taken: list[Path] = []
    moments = itertools.count()

    def take(when: str, file: AppendFile) -> None:
        if file.path.parent != folder or only not in ("", when):
            return  # another run, or the other moments
        if (moment := next(moments)) % step == 0:
            taken.append(image(folder, moment))

    def around(plain: Callable[..., None]) -> Callable[..., None]:
        def write(self: AppendFile, data: Any) -> None:
            changes = data != self.size  # shortened to what it is, a file stays as it is
            if changes:
                take("before", self)
            plain(self, data)
            if changes:
                take("after", self)

        return write

    with pytest.MonkeyPatch.context() as patch:
        for name in ("append", "truncate"):
            patch.setattr(AppendFile, name, around(getattr(AppendFile, name)))
        yield taken


async def recovered(team: Team, folder: Path, begin: Callable[[Team], Awaitable[Run]]) -> Run:
    """Go on as another process would; a run that left nothing is begun anew."""
    try:
        try:
            return await team.recover(folder / JOURNAL)
        except (TraceError, UsageError) as error:
            if "run the team anew" not in str(error):
                raise
            return await begin(team)
    finally:
        team.close()


# --- the role itself cancels an action -------------------------------------------------------


class Send(Action):
    """Takes effect, and then does not end."""

    async def run(self) -> None:
        note(self.role.effects, f"{idempotency_key()} sent")
        await asyncio.Event().wait()


class SendOnce(Send):
    repeat = "never"


class Refuse(Action):
    async def run(self) -> None:
        await asyncio.sleep(0)
        raise ConnectionError("refused")


class Say(Action):
    async def run(self, history: Sequence[Message]) -> str:
        return f"heard that he {history[-1].content}"


class Hasty(Clerk):
    """Waits a moment for its action, and goes on without."""

    async def _act(self):
        try:
            async with asyncio.timeout(0.01):
                return await super()._act()
        except TimeoutError:
            return Message("gave up", cause_by=type(self.rc.todo))


class Divided(Clerk):
    """Does two things at the same time; one fails, and the other is cancelled for it."""

    async def _react(self):
        first, second = self.actions
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(first.run())
                group.create_task(second.run())
        except* ConnectionError:
            pass
        return Message("went on", cause_by=type(first))


def hasty_team(effects: Path, send: type[Action], how: str) -> Team:
    """Bob cancels his action, Cy hears of it a round later."""
    kind, actions = (Hasty, [send]) if how == "timeout" else (Divided, [send, Refuse])
    return Team(
        [
            kind(name="Bob", actions=actions, effects=effects),
            Role(name="Cy", actions=[Say], watch=[send]),
        ]
    )


@pytest.mark.parametrize("how", ["timeout", "group"])
@pytest.mark.parametrize("send", [Send, SendOnce])
async def test_an_action_that_its_role_cancelled_is_over(
    tmp_path: Path, send: type[Action], how: str
) -> None:
    """A role gave its action a time limit (or ran two at once, and one failed), and went on.

    The letter had been sent. The replay of that run, a fork at its end and a recovery of the
    finished run sent it again, and `repeat = "never"` made each of them an `OutcomeUnknown`.
    """
    effects = tmp_path / "effects"
    run = await hasty_team(effects, send, how).run("go")
    assert (run.stop, len(said(run, "Cy"))) == ("idle", 1)
    sent = lines(effects)
    assert sent == ["run/Bob/1 sent"]

    again = await hasty_team(effects, send, how).replay(run)
    assert written(again) == written(run)
    back = await hasty_team(effects, send, how).recover(run, rounds=1)
    assert written(back)[: len(run.trajectory.events)] == written(run)
    (end,) = (e for e in run.trajectory.of("action_result") if e.data.get("cancelled"))
    for at in range(end.seq, len(run.trajectory.events)):
        branch = await hasty_team(effects, send, how).fork(run, at=at)
        assert said(branch, "Cy") == said(run, "Cy"), f"forked at {at}"
        assert lines(effects) == sent, f"forked at {at}"
    assert lines(effects) == sent


@pytest.mark.parametrize("how", ["timeout", "group"])
@pytest.mark.parametrize("send", [Send, SendOnce])
async def test_it_is_over_too_when_the_process_was_killed_later(
    tmp_path: Path, send: type[Action], how: str
) -> None:
    """The kill came after the role had said that it gave up: no question is open."""
    effects = tmp_path / "effects"
    run = await hasty_team(effects, send, how).run("go")
    gave_up = next(event for event in run.trajectory.of("message") if event.role == "Bob")
    for cut in range(gave_up.seq + 1, len(run.trajectory.events)):
        record = Trajectory("run", run.trajectory.about, run.trajectory.events[:cut])
        back = await hasty_team(effects, send, how).recover(record)
        assert written(back) == written(run), f"killed after {cut} events"
        assert lines(effects) == ["run/Bob/1 sent"], f"killed after {cut} events"


@pytest.mark.parametrize("send", [Send, SendOnce])
async def test_it_is_over_too_when_the_round_was_not(tmp_path: Path, send: type[Action]) -> None:
    """Another role still acted when the process was killed, so only the pending file had it."""
    folder = tmp_path / "run"
    folder.mkdir()
    given_up = asyncio.Event()

    class Long(Clerk):
        """Acts for as long as Bob does."""

        async def _react(self):
            await given_up.wait()
            return await super()._react()

    class Listens:
        def on_event(self, event: Event) -> None:
            if event.content == "gave up":
                given_up.set()

    def team(home: Path) -> Team:
        effects = home / "effects"
        bob = Hasty(name="Bob", actions=[send], effects=effects)
        dan = Long(name="Dan", actions=[Look], effects=effects)
        return Team([bob, dan], journal=home / JOURNAL, observers=[Listens()])

    async def begin(team: Team) -> Run:
        return await team.run("go")

    with images_of(folder, only="after") as images:
        first = team(folder)
        run = await begin(first)
        first.close()
    later = [each for each in images if b"gave up" in b"".join(files(each).values())]
    assert len(later) > 4
    for killed in later:
        back = await recovered(team(killed), killed, begin)
        assert written(back) == written(run), killed.name
        assert sorted(lines(killed / "effects")) == ["run/Bob/1 sent", "run/Dan/1 looked"]


# --- answers of a conversation that goes on over turns ---------------------------------------


class Asker(Role):
    """Has one conversation, in which every question is the same."""

    session: Any = None

    async def _react(self):
        self.session = self.session or self.open_session()
        answer = await self.session.generate([Message("continue")])
        return Message(answer.text, send_to="Bob")


class Echo(Role):
    async def _react(self):
        return Message(f"ok {self.rc.news[-1].content}", send_to="Ann")


def talking_team(folder: Path, schedule: str) -> Team:
    def answer(call: ModelCall) -> str:
        number = len(lines(folder / "calls"))
        note(folder / "calls", "asked")
        return f"answer {number}"

    return Team(
        [Asker(name="Ann"), Echo(name="Bob")],
        model=FunctionModel(answer),
        journal=folder / JOURNAL,
        schedule=schedule,
    )


@pytest.mark.parametrize("schedule", ["rounds", "sequential", "free"])
async def test_an_answer_given_once_is_not_given_again_by_a_recovery_of_a_recovery(
    tmp_path: Path, schedule: str
) -> None:
    """Ann asked "continue" every turn, and Bob echoed.

    The process was killed after her call, and the recovery in Bob's turn. The pending file of the
    first process was still there, so the second recovery answered her next question with what
    she had been told already. It stayed there when the run had ended, too.
    """
    folder = tmp_path / "run"
    folder.mkdir()

    async def begin(team: Team) -> Run:
        return await team.run("go", rounds=6, send_to="Ann")

    with images_of(folder, only="after") as first:
        team = talking_team(folder, schedule)
        run = await begin(team)
        team.close()
    answers = said(run, "Ann")
    assert answers == [f"answer {number}" for number in range(3)]
    journal = (folder / JOURNAL).read_bytes()
    assert len(first) > 8
    for killed in first:
        with images_of(killed, only="after") as second:
            await recovered(talking_team(killed, schedule), killed, begin)
        for again in (killed, *second):
            if again is not killed:
                await recovered(talking_team(again, schedule), again, begin)
            assert said(Trajectory.load(again / JOURNAL), "Ann") == answers, again.name
            assert len(lines(again / "calls")) == 3, again.name
            assert (again / JOURNAL).read_bytes() == journal, again.name
            assert sorted(files(again)) == ["calls", JOURNAL], again.name


# --- a recovery that is killed ---------------------------------------------------------------


class Work(Action):
    """Asks one thing after the other, and has an effect."""

    async def run(self, history: Sequence[Message]) -> str:
        answers = [await self.ask(f"{len(history)}.{number}?") for number in range(3)]
        note(self.role.effects, f"{self.role.name} {idempotency_key()}")
        await asyncio.sleep(0)
        return " ".join(answers)


def working_team(folder: Path) -> Team:
    def answer(call: ModelCall) -> str:
        note(folder / "calls", f"{call.role} {call.messages[-1].content}")
        return f"[{call.messages[-1].content}]"

    return Team(
        [
            Clerk(
                name=name,
                actions=[Work],
                watch=[Work, UserRequirement],
                effects=folder / "effects",
            )
            for name in ("Ann", "Bob", "Cy")
        ],
        model=FunctionModel(answer),
        journal=folder / JOURNAL,
    )


def repeated(path: Path, role: str) -> int:
    """How many of the role's lines say what another one has said."""
    mine = [line for line in lines(path) if line.startswith(f"{role} ")]
    return len(mine) - len(set(mine))


async def kill_recoveries(folder: Path, *, first: int, second: int) -> int:
    """Kill a run at every `first`-th moment, its recovery at every `second`-th; how often."""

    async def begin(team: Team) -> Run:
        return await team.run("go", rounds=2)

    with images_of(folder, step=first) as images:
        team = working_team(folder)
        await begin(team)
        team.close()
    expected = {name: Counter(lines(folder / name)) for name in ("calls", "effects")}
    assert [set(counted.values()) for counted in expected.values()] == [{1}, {1}]
    checked = 0
    for killed in images:
        with images_of(killed, step=second) as recoveries:
            await recovered(working_team(killed), killed, begin)
        for again, kills in [(killed, 1), *((each, 2) for each in recoveries)]:
            if again is not killed:
                await recovered(working_team(again), again, begin)
            assert (again / JOURNAL).read_bytes() == (folder / JOURNAL).read_bytes(), again.name
            assert sorted(files(again)) == ["calls", "effects", JOURNAL], again.name
            for name, counted in expected.items():
                assert Counter(lines(again / name)).keys() == counted.keys(), again.name
                for role in ("Ann", "Bob", "Cy"):
                    assert repeated(again / name, role) <= kills, f"{again.name}: {name} of {role}"
            shutil.rmtree(again)
            checked += 1
    return checked


async def test_a_recovery_that_is_killed_loses_no_answer_either(tmp_path: Path) -> None:
    """Two rounds of three roles, killed in the second, and the recovery killed as well.

    When the recovery had played the first round again it emptied the pending file, and with it
    what was known of the second. Whatever a role was doing at a kill may be done once more,
    nothing else.
    """
    folder = tmp_path / "run"
    folder.mkdir()
    assert await kill_recoveries(folder, first=9, second=5) > 60


@pytest.mark.slow
async def test_a_recovery_that_is_killed_at_any_write_loses_no_answer(tmp_path: Path) -> None:
    """Before and after every write of the run, and every fifth moment of its recovery.

    Where the recovery began a round before the one that was under way, what the two said at the
    same places of their turns was mixed: the second time Ann said what she had said the first.
    """
    folder = tmp_path / "run"
    folder.mkdir()
    assert await kill_recoveries(folder, first=1, second=5) > 800


# --- what an action changes deep inside of attributes ----------------------------------------


class Ledger(BaseModel):
    entries: int = 0


class Enter(Action):
    """Changes what its role holds in place, without setting one attribute."""

    pages: dict[str, list[int]]

    async def run(self) -> str:
        role = self.role
        self.pages["seen"].append(len(self.pages["seen"]))
        role.book["pages"].append(len(role.book["pages"]))
        role.ledger.entries += 1
        role.rows[0]["times"] += 1
        return f"{self.pages} {role.book} {role.ledger.entries} {role.rows}"


class Keeper(Role):
    book: dict[str, list[int]]
    ledger: Ledger
    rows: list[dict[str, int]]


def keepers(**options: Any) -> Team:
    def keeper(name: str) -> Keeper:
        return Keeper(
            name=name,
            actions=[Enter(pages={"seen": []}) for _ in range(3)],
            book={"pages": []},
            ledger=Ledger(),
            rows=[{"times": 0}],
        )

    return Team([keeper("Ann"), keeper("Bob")], **options)


def held(team: Team) -> list[Any]:
    return [
        (role.book, role.ledger, role.rows, [action.pages for action in role.actions])
        for role in team.roles.values()
    ]


ENTERED = ({"pages": [0, 1, 2]}, Ledger(entries=3), [{"times": 3}], [{"seen": [0]}] * 3)


async def test_what_an_action_changed_deep_inside_is_there_after_a_recovery(
    tmp_path: Path,
) -> None:
    """A dict of lists, a list of dicts and a pydantic model that were changed in place.

    Attributes were compared with shallow copies of themselves, so nothing seemed to have changed:
    the recovered role counted from one again.
    """
    folder = tmp_path / "run"
    folder.mkdir()

    async def begin(team: Team) -> Run:
        return await team.run("go")

    with images_of(folder) as images:
        team = keepers(journal=folder / JOURNAL)
        await begin(team)
        team.close()
    assert held(team) == [ENTERED] * 2
    assert len(images) > 10
    for killed in images:
        team = keepers(journal=killed / JOURNAL)
        await recovered(team, killed, begin)
        assert held(team) == [ENTERED] * 2, killed.name
        assert (killed / JOURNAL).read_bytes() == (folder / JOURNAL).read_bytes(), killed.name


async def test_a_run_beside_a_team_begins_with_what_it_was_at_first(tmp_path: Path) -> None:
    """A fork and a replay from the team that had run began with what that run had left.

    The beginning shared with the role whatever was no list, dict or set: a pydantic model held
    what the run had made of it. And what the fork did, the team that had run had done.
    """
    team = keepers()
    run = await team.run("go")
    first = await keepers().run("go")
    assert written(await team.replay(run)) == written(run) == written(first)
    branch = await team.fork(run, at=0)
    assert said(branch, "Ann") == said(run, "Ann")
    assert said(branch, "Bob") == said(run, "Bob")
    assert held(team) == [ENTERED] * 2, "it is left as it was"
    assert written(await team.replay(branch)) == written(branch)
    team.reset()
    assert written(await team.run("go")) == written(run)


# --- limits ----------------------------------------------------------------------------------


class AskFour(Action):
    async def run(self) -> str:
        for number in range(3):
            await self.ask(f"{number}?")
        await self.role.before_the_last()
        return await self.ask("last?")


class Spender(Role):
    before_the_last: Callable[[], Awaitable[None]]


def spenders(folder: Path, before_the_last: Callable[[], Awaitable[None]]) -> Team:
    def answer(call: ModelCall) -> str:
        note(folder / "calls", call.role)
        return "yes"

    return Team(
        [Spender(name=n, actions=[AskFour], before_the_last=before_the_last) for n in "ABCDEF"],
        model=FunctionModel(answer),
        journal=folder / JOURNAL,
        limits=Limits(calls=20, on_limit="stop"),
    )


async def test_calls_made_before_a_kill_count_before_the_next_is_made(tmp_path: Path) -> None:
    """Six roles had three answers each of twenty that were allowed, when the process was killed.

    In the recovery each was served its three, one at a time, and each in turn found that there
    was room for a fourth: 23 calls were made.
    """
    folder = tmp_path / "run"
    folder.mkdir()
    together = asyncio.Barrier(6)
    images: list[Path] = []

    async def kill() -> None:
        if await together.wait() == 5:  # the last to come, and the first to go on
            images.append(image(folder, "killed"))

    async def nothing() -> None:
        pass

    team = spenders(folder, kill)
    run = await team.run("go")
    team.close()
    assert (run.stop, run.usage.calls, len(lines(folder / "calls"))) == ("limit", 20, 20)
    (killed,) = images
    assert len(lines(killed / "calls")) == 18
    team = spenders(killed, nothing)
    run = await team.recover(killed / JOURNAL)
    team.close()
    assert run.stop == "limit"
    assert run.usage.calls == len(lines(killed / "calls")) <= 21


# --- values ----------------------------------------------------------------------------------


class Titled(BaseModel):
    title: str = Field(alias="Title")


class Guarded(BaseModel):
    name: str
    secret: str = Field(default="", exclude=True)


class Shape(BaseModel):
    kind: Literal["shape", "circle"] = "shape"
    name: str


class Circle(Shape):
    kind: Literal["circle"] = "circle"
    radius: float


class Drawing(BaseModel):
    main: Shape
    others: list[Shape] = []


class Nested(BaseModel):
    titled: Titled
    shape: Circle | Shape


class Photo(BaseModel):
    data: bytes


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


@dataclass
class Found:
    colour: Colour
    level: Level


EQUAL = [
    Titled(Title="Rain"),
    Nested(titled=Titled(Title="Rain"), shape=Circle(kind="circle", name="sun", radius=2.5)),
    [Titled(Title="Rain"), {"one": Titled(Title="Snow")}],
]
EQUAL_OR_NAMED = [
    Guarded(name="Ann", secret="tea"),
    Drawing(main=Circle(name="sun", radius=2.5), others=[Shape(name="x")]),
    Photo(data=b"\xff\xd8"),
    [Guarded(name="Ann", secret="tea")],
]


class Return(Action):
    """Returns what the test has put there."""

    value: Any = None

    async def run(self) -> Any:
        return self.role.made[0]


class Reader(Role):
    """Role code that looks at what its action returned, and at what it has said."""

    actions = [Return]
    made: Any
    seen: Any

    async def _act(self):
        value = await self.rc.todo.run()
        self.seen(value)
        return Message(f"a {type(value).__name__}", cause_by=Return)


class Teller(Reader):
    """Says what its action returned, as roles do; Cy hears it."""

    async def _act(self):
        message = await super(Reader, self)._act()
        self.seen(message.instruct_content)
        return message


class Listener(Role):
    seen: Any
    watch = [Return]

    async def _react(self):
        self.seen(self.rc.news[-1].instruct_content)
        return Message("heard")


def readers(kind: type[Reader], value: object, seen: list[Any]) -> Team:
    reader = kind(name="Ann", made=(value,), seen=seen.append)
    return Team([reader, Listener(name="Cy", seen=seen.append)])


def by_role(values: list[Any]) -> list[tuple[type[Reader], Any]]:
    """Each value with each kind of role, except that a list cannot be said."""
    return [
        (kind, value)
        for kind in (Reader, Teller)
        for value in values
        if kind is Reader or isinstance(value, BaseModel)
    ]


def in_short(given: Any) -> str:
    return given.__name__ if isinstance(given, type) else type(given).__name__


async def seen_again(kind: type[Reader], value: object) -> tuple[list[Any], list[Any]]:
    """What role code saw in a run, and in its replay, whose bytes are the same."""
    live: list[Any] = []
    again: list[Any] = []
    run = await readers(kind, value, live).run("go")
    other = object()  # what the action would return if it were done again
    assert written(await readers(kind, other, again).replay(run)) == written(run)
    recovered: list[Any] = []
    await readers(kind, other, recovered).recover(run, rounds=1)
    assert recovered == again
    return live, again


@pytest.mark.parametrize(("kind", "value"), by_role(EQUAL), ids=in_short)
async def test_a_model_comes_back_with_all_that_it_held(kind: type[Reader], value: object) -> None:
    """Models were written under the names of their fields, which one with an alias does not take:
    no replay of such a run came to its end."""
    live, again = await seen_again(kind, value)
    assert len(live) == 2
    assert live[0] == value
    assert again == live
    assert list(map(repr, again)) == list(map(repr, live))


@pytest.mark.parametrize(("kind", "value"), by_role(EQUAL_OR_NAMED), ids=in_short)
async def test_a_model_that_json_cuts_comes_back_whole_or_not_at_all(
    kind: type[Reader], value: object
) -> None:
    """A field with `exclude=True` came back empty, and one that held a subclass as its base class.

    A picture, whose bytes are no UTF-8, failed the run that had just downloaded it.
    """
    live: list[Any] = []
    run = await readers(kind, value, live).run("go")
    assert (run.stop, live[0]) == ("idle", value)
    again: list[Any] = []
    try:
        assert written(await readers(kind, None, again).replay(run)) == written(run)
    except NotRestorable:
        return
    assert list(map(repr, again)) == list(map(repr, live))
    assert again == live


async def test_a_typed_answer_with_an_alias_is_followed() -> None:
    """The model answered a `Titled`, and every replay of the run ended with a ValidationError."""

    class Ask(Action):
        async def run(self) -> Titled:
            return await self.ask("Which title?", returns=Titled)

    class Use(Action):
        async def run(self, history: Sequence[Message]) -> str:
            return history[-1].instruct_content.title

    def team(model: object = None) -> Team:
        return Team([Role(name="Ann", actions=[Ask, Use])], model=model)

    run = await team(ScriptedModel(['{"Title": "Rain"}'])).run("go")
    assert said(run, "Ann")[-1] == "Rain"
    assert written(await team().replay(run)) == written(run)
    assert said(await team().recover(run, rounds=1), "Ann") == said(run, "Ann")
    asked = next(event for event in run.trajectory.of("message") if event.role == "Ann")
    branch = await team().fork(run, at=asked.seq)
    assert said(branch, "Ann") == said(run, "Ann")


@pytest.mark.parametrize(
    "value",
    [
        Colour.RED,
        Level.HIGH,
        [Colour.RED, Level.HIGH],
        {"level": Level.HIGH},
        Found(Colour.RED, Level.HIGH),
    ],
    ids=repr,
)
async def test_a_member_of_an_enum_comes_back_as_that_or_not_at_all(value: object) -> None:
    """`Colour.RED` came back as the text "red", for which role code took another branch."""
    live: list[Any] = []
    run = await readers(Reader, value, live).run("go")
    again: list[Any] = []
    try:
        assert written(await readers(Reader, None, again).replay(run)) == written(run)
    except NotRestorable:
        return
    assert list(map(repr, again)) == list(map(repr, live))
    assert again == live


# --- a recovery that is refused --------------------------------------------------------------


class Pay(Action):
    """Transfer money."""

    approval = True

    async def run(self) -> str:
        note(self.role.effects, "paid")
        return "paid"


class Fail(Action):
    async def run(self) -> str:
        raise ConnectionError("no network")


class Wait(Action):
    """Until somebody kills the process, or, in the recovery, not at all."""

    async def run(self) -> str:
        await self.role.moment()
        return "waited"


class Waiter(Clerk):
    moment: Callable[[], Awaitable[None]]


async def refused_at(why: str, folder: Path) -> Callable[[str], Team]:
    """Leave a run in `folder` that was not over; how to make its team, with a goal for Ann."""
    actions = {"approval": [Look, Pay], "error": [Look, Fail], "killed": [Look, Wait]}[why]
    images: list[Path] = []

    async def kill() -> None:
        images.append(image(folder, "killed"))

    async def nothing() -> None:
        pass

    def team(goal: str, moment: Callable[[], Awaitable[None]] = nothing) -> Team:
        how: dict[str, Any] = {"effects": folder / "effects", "moment": moment}
        return Team(
            [
                Waiter(name="Ann", actions=actions, goal=goal, **how),
                Waiter(name="Bob", actions=[Look], **how),
            ],
            journal=folder / JOURNAL,
        )

    first = team("order", kill)
    try:
        await first.run("go")
    except ConnectionError:
        assert why == "error"
    first.close()
    if images:
        shutil.rmtree(folder)
        images[0].rename(folder)
    return team


@pytest.mark.parametrize("why", ["approval", "error", "killed"])
async def test_a_recovery_by_another_team_changes_nothing(tmp_path: Path, why: str) -> None:
    """Somebody recovered with a team whose goal was another, and was told so.

    By then the last round was taken back from the journal: why the run had stopped, and what
    waited for permission, was in no file that people look at.
    """
    folder = tmp_path / "run"
    folder.mkdir()
    team = await refused_at(why, folder)
    before = files(folder)
    other = team("disorder")
    for _ in range(2):
        with pytest.raises(UsageError, match=r"Role 'Ann' differs .* `goal`"):
            await other.recover(folder / JOURNAL)
        assert files(folder) == before
    left = Trajectory.load(folder / JOURNAL)
    assert left.stop_reason == (None if why == "killed" else why)
    assert len(list(left.of("approval"))) == (why == "approval")
    right = team("order")  # in the same process, and nobody has closed the other one
    if why == "error":
        with pytest.raises(ConnectionError):
            await right.recover(folder / JOURNAL)
    else:
        run = await right.recover(folder / JOURNAL)
        assert run.stop == ("approval" if why == "approval" else "idle")
    right.close()
    looked = [line for line in lines(folder / "effects") if line.endswith("looked")]
    assert sorted(looked) == ["run/Ann/1 looked", "run/Bob/1 looked"]


async def test_a_recovery_that_diverged_leaves_the_journal_to_the_next(tmp_path: Path) -> None:
    """Role code had changed; it was mended in the same session, and recovered again.

    The journal was still locked by the first attempt, which nobody has a reason to close.
    """
    mood = "sunny"
    network = False

    class Moody(Clerk):
        async def _act(self):
            message = await super()._act()
            return Message(f"{mood}: {message.content}", cause_by=type(self.rc.todo))

    class Call(Action):
        async def run(self) -> str:
            if not network:
                raise ConnectionError("no network")
            return "called"

    path, effects = tmp_path / JOURNAL, tmp_path / "effects"

    def team() -> Team:
        ann = Moody(name="Ann", actions=[Look], effects=effects)
        bob = Clerk(name="Bob", actions=[Call], effects=effects, watch=[Look])
        return Team([ann, bob], journal=path)

    first = team()
    with pytest.raises(ConnectionError):
        await first.run("go")
    first.close()
    mood, network = "rainy", True
    second = team()
    with pytest.raises(Diverged):
        await second.recover(path)
    mood = "sunny"
    third = team()
    run = await third.recover(path)
    assert said(run, "Ann") == ["sunny: looked"]
    assert said(run, "Bob") == ["called"]
    assert lines(effects) == ["run/Ann/1 looked"]
    third.close()
    second.close()
    assert written(Trajectory.load(path)) == written(run)


# --- a disk that is full at the end of a round -----------------------------------------------


class Disk:
    """A disk that can be full for a file, or for all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full: tuple[Path, ...] = ()
        plain = os.write

        def write(fd: int, data: Any) -> int:
            inode = os.fstat(fd).st_ino
            if any(path.exists() and path.stat().st_ino == inode for path in self.full):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return plain(fd, data)

        monkeypatch.setattr(os, "write", write)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


class Break(Action):
    """Fails, after the disk has become full."""

    async def run(self) -> str:
        self.role.fill()
        raise ValueError("the error that matters")


class Fill(Action):
    async def run(self) -> str:
        self.role.fill()
        return "filled"


class Filler(Clerk):
    fill: Callable[[], None]


def filling_team(folder: Path, fill: Callable[[], None], *actions: type[Action]) -> Team:
    how: dict[str, Any] = {"effects": folder / "effects", "fill": fill}
    return Team(
        [
            Filler(name=name, actions=[action], **how)
            for name, action in zip(("Ann", "Bob"), actions, strict=True)
        ],
        journal=folder / JOURNAL,
    )


@pytest.mark.parametrize("order", [(Break, Look), (Look, Break)])
@pytest.mark.parametrize("names", [(JOURNAL,), (JOURNAL, f"{JOURNAL}.pending")])
async def test_a_full_disk_does_not_hide_what_an_action_raised(
    tmp_path: Path, disk: Disk, names: tuple[str, ...], order: tuple[type[Action], ...]
) -> None:
    """An action failed in a round whose commit then found the disk full.

    The error of the journal came out, the one of the action was lost, and the environment thought
    for ever that it was in a round.
    """

    def fill() -> None:
        disk.full = tuple(tmp_path / name for name in names)

    team = filling_team(tmp_path, fill, *order)
    with pytest.raises(ValueError, match="the error that matters") as caught:
        await team.run("go")
    assert any("No space left on device" in each for each in caught.value.__notes__)
    assert not team.env.in_round
    with pytest.raises(JournalError):
        await team.run("again")
    assert not team.env.in_round
    team.close()

    disk.full = ()
    team = filling_team(tmp_path, lambda: None, *order)
    with pytest.raises(ValueError, match="the error that matters"):
        await team.recover(tmp_path / JOURNAL)
    team.close()
    record = Trajectory.load(tmp_path / JOURNAL)
    assert (record.stop_reason, record.problems) == ("error", [])
    if len(names) == 1:  # the pending file has what was complete
        assert len(lines(tmp_path / "effects")) == 1


async def test_a_full_disk_at_the_end_of_a_round_is_the_error_if_there_is_no_other(
    tmp_path: Path, disk: Disk
) -> None:
    """Afterwards the environment is in no round, and with room again the run goes on."""

    def fill() -> None:
        disk.full = (tmp_path / JOURNAL,)

    team = filling_team(tmp_path, fill, Fill, Look)
    with pytest.raises(JournalError, match="No space left on device"):
        await team.run("go")
    assert not team.env.in_round
    team.close()
    disk.full = ()
    team = filling_team(tmp_path, fill, Fill, Look)
    run = await team.recover(tmp_path / JOURNAL)
    team.close()
    assert (run.stop, said(run, "Ann")) == ("idle", ["filled"])
    assert len(lines(tmp_path / "effects")) == 1


# --- a team that grows -----------------------------------------------------------------------


def growing(folder: Path, *names: str) -> list[Role]:
    return [Clerk(name=name, actions=[Look], effects=folder / "effects") for name in names]


async def test_a_team_that_hired_between_two_runs_is_followed_as_it_is_now(
    tmp_path: Path,
) -> None:
    """Zoe was hired after the first run. Nothing could follow the record any more.

    A team without her differed from it where she first spoke, and one with her was refused,
    because she is not in the header.
    """
    path = tmp_path / JOURNAL
    team = Team(growing(tmp_path, "Ann"), journal=path)
    await team.run("one")
    team.hire(growing(tmp_path, "Zoe"))
    run = await team.run("two")
    team.close()
    assert (len(said(run, "Ann")), len(said(run, "Zoe"))) == (2, 1)
    (hired,) = (event for event in run.trajectory.events if event.kind == "hire")
    assert b"Zoe" in encode_event(hired)
    journal, effects = path.read_bytes(), lines(tmp_path / "effects")

    assert written(await team.replay(run)) == written(run)
    now = Team(growing(tmp_path, "Ann", "Zoe"))
    assert written(await now.replay(run)) == written(run)
    assert written(await now.replay(path)) == written(run)
    assert written(await now.recover(run)) == written(run)
    now.close()
    branch = await Team(growing(tmp_path, "Ann", "Zoe")).fork(run, len(run.trajectory.events) - 1)
    assert written(branch)[: len(run.trajectory.events)] == written(run)
    now = Team(growing(tmp_path, "Ann", "Zoe"), journal=path)
    await now.recover(path)
    now.close()
    assert path.read_bytes() == journal

    for cut in range(hired.seq + 1, len(run.trajectory.events)):  # killed in the second run
        record = Trajectory("run", run.trajectory.about, run.trajectory.events[:cut])
        again = tmp_path / f"killed-{cut}"
        again.mkdir()
        back = Team(growing(again, "Ann", "Zoe"))
        if any(event.content == "two" for event in record.of("message")):
            assert written(await back.recover(record)) == written(run), f"cut at {cut}"
    assert lines(tmp_path / "effects") == effects


async def test_a_team_that_hired_before_its_first_run_is_one_that_was_made_so(
    tmp_path: Path,
) -> None:
    """A hire is an event only where there is a record already."""
    whole = await Team(growing(tmp_path, "Ann", "Zoe")).run("go")
    team = Team(growing(tmp_path, "Ann"))
    team.hire(growing(tmp_path, "Zoe"))
    run = await team.run("go")
    assert written(run) == written(whole)
    assert run.trajectory.header() == whole.trajectory.header()


# --- what cannot be followed says so ---------------------------------------------------------


def as_version_1(path: Path) -> None:
    """Make a journal what an earlier Rolecraft would have written."""
    header, *events = map(json.loads, path.read_text().splitlines())
    assert header["schema_version"] > 1
    header["schema_version"] = 1
    for event in events:
        for later in ("run", "ends"):
            event.get("data", {}).pop(later, None)
    path.write_text("".join(json.dumps(line) + "\n" for line in (header, *events)))


@pytest.mark.parametrize("ended", [True, False])
async def test_a_journal_of_an_earlier_rolecraft_is_shown_and_not_gone_on_with(
    tmp_path: Path, ended: bool
) -> None:
    """Its runs of actions have no numbers, so it was followed as if nothing in it had been done.

    Every action was done a second time, and then, often, the run was said to have diverged.
    """
    path = tmp_path / JOURNAL

    def team() -> Team:
        return Team(growing(tmp_path, "Ann", "Bob"))

    first = Team(growing(tmp_path, "Ann", "Bob"), journal=path)
    run = await first.run("go")
    first.close()
    effects = lines(tmp_path / "effects")
    as_version_1(path)
    if not ended:
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    before = files(tmp_path)
    for follow in (
        lambda: team().recover(path),
        lambda: team().recover(path, rounds=1),
        lambda: team().replay(path),
        lambda: team().fork(path, at=1),
    ):
        with pytest.raises((UsageError, TraceError), match="earlier Rolecraft") as caught:
            await follow()
        assert "show" in str(caught.value)
        assert files(tmp_path) == before
    assert said(Trajectory.load(path), "Ann") == said(run, "Ann")
    assert lines(tmp_path / "effects") == effects


class Open(Action):
    async def run(self) -> object:
        return object()


class Opener(Role):
    actions = [Open]

    async def _act(self):
        await self.rc.todo.run()
        return Message("opened")


class Step(Action):
    tool: Any


class Plan(Action):
    async def run(self) -> str:
        self.role.set_actions([_Step(tool=object())])
        return "planned"


class _Step(Step):
    async def run(self) -> str:
        return "done"


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("what", ["result", "swap"])
async def test_what_cannot_be_had_back_is_named_also_in_a_recovery(
    tmp_path: Path, what: str, beside: bool
) -> None:
    """The record held no such thing. Where another role acted beside, a `Diverged` came out: the
    failure to serve the action had been recorded, and differed from what the role then said."""

    def team() -> Team:
        first = Opener(name="Ann") if what == "result" else Role(name="Ann", actions=[Plan])
        return Team([first, *(growing(tmp_path, "Bob") if beside else ())])

    run = await team().run("go")
    assert run.stop == "idle"
    with pytest.raises(NotRestorable, match="`Open`" if what == "result" else "`Plan`"):
        await team().replay(run)
    with pytest.raises(NotRestorable, match="`Open`" if what == "result" else "`Plan`"):
        await team().recover(run, rounds=1)
