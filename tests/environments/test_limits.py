"""Limits of teams and roles: what a crossing leads to, that the record says it, and replays it."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecraft import (
    Action,
    Environment,
    FunctionModel,
    Limits,
    Message,
    Role,
    Team,
    UserRequirement,
)
from rolecraft.environments import bound
from rolecraft.errors import EndlessRun, LimitReached, ModelError, UnknownName
from rolecraft.messages import NOBODY
from rolecraft.models import (
    Completion,
    Crossing,
    HandOver,
    Model,
    MoreRoom,
    ScriptedModel,
    UseModel,
)
from rolecraft.trajectories import Trajectory
from rolecraft.trajectories.codec import encode_event
from rolecraft.trajectories.events import Usage


class Draft(Action):
    async def run(self, history) -> str:
        return await self.ask(f"Draft {history[-1].content}")


class Check(Action):
    async def run(self, history) -> str:
        return f"checked: {history[-1].content}"


class Thinker(Role):
    """Asks its model in role code, which runs again when a record is followed."""

    actions = [Check]

    async def _think(self) -> bool | None:
        if self.rc.todo is None:
            self.thought = await self.ask("Shall I?")
        return await super()._think()


class Priced(FunctionModel):
    """Every answer costs a dollar, and is estimated at that."""

    def __init__(self, usd: float = 1.0, name: str = "priced") -> None:
        super().__init__(
            lambda call: Completion(text=f"{name} {len(self.calls)}", usage=Usage(5, 2, usd)),
            name=name,
        )
        self.usd = usd

    def estimate_usd(self, session, sampling, tools=()):
        return self.usd


class Fails(FunctionModel):
    """Raises `error`, and ends the process at the next call."""

    def __init__(self, error: Exception) -> None:
        super().__init__(lambda call: "")
        self.error = error

    async def _complete(self, session, tools, sampling):
        await super()._complete(session, tools, sampling)
        if len(self.calls) > 1:
            raise KeyboardInterrupt
        raise self.error


def writer(drafts: int = 3, **fields: object) -> Role:
    return Role(name="Writer", actions=[Draft] * drafts, **fields)


def written(run: object) -> list[bytes]:
    return [encode_event(event) for event in run.trajectory.events]


def limits_of(run: object) -> list[tuple[str, str]]:
    return [(e.role, e.data["decision"]) for e in run.trajectory.of("limit")]


async def test_a_stopped_run_raises_nothing_and_keeps_what_is_finished():
    team = Team([writer()], model=Priced(), limits=Limits(usd=2.5, on_limit="stop"))
    run = await team.run("rain")
    assert run.stop == "limit"
    assert run.message.content == "priced 2"
    assert limits_of(run) == [("Writer", "stop")]
    assert run.usage.usd == 2.0
    again = await team.replay(run)
    assert written(again) == written(run)
    assert again.stop == "limit"


async def test_a_fault_beside_a_stop_is_raised():
    class Fail(Action):
        async def run(self) -> None:
            raise ZeroDivisionError

    team = Team(
        [writer(), Role(name="Other", actions=[Fail])],
        model=Priced(),
        limits=Limits(usd=0.0, on_limit="stop"),
    )
    with pytest.raises(ZeroDivisionError):
        await team.run("rain")


@pytest.mark.parametrize("role", ["action", "role code"])
async def test_more_room_is_given_recorded_and_not_asked_for_again(role: str):
    asked: list[Crossing] = []

    async def ask(crossing: Crossing) -> MoreRoom:
        asked.append(crossing)
        await asyncio.sleep(0)
        return MoreRoom(usd=1.5)

    def team() -> Team:
        who = [writer(2)] if role == "action" else [Thinker(actions=[Check] * 2)]
        return Team(who, model=Priced(), limits=Limits(usd=0.5, on_limit=ask))

    run = await team().run("rain")
    assert run.stop == "idle"
    assert [crossing.used for crossing in asked] == [0.0]
    (event,) = run.trajectory.of("limit")
    assert event.data["more"] == {"usd": 1.5}
    assert event.data["decision"] == "more_room"
    asked.clear()
    again = await team().replay(run)
    assert written(again) == written(run)
    assert asked == []


async def test_a_run_that_was_killed_goes_on_with_what_was_granted_and_spent(tmp_path: Path):
    """The first process dies in its third call; the second may make that one and no more."""
    asked: list[Crossing] = []

    def ask(crossing: Crossing) -> MoreRoom | str:
        asked.append(crossing)
        return MoreRoom(usd=1.0) if len(asked) == 1 else "stop"

    class Dies(Priced):
        async def _complete(self, session, tools, sampling):
            if len(self.calls) == 2:
                raise KeyboardInterrupt
            return await super()._complete(session, tools, sampling)

    def team(model: Model, **options: object) -> Team:
        limits = Limits(usd=2.0, on_limit=ask)
        return Team([writer(5)], model=model, limits=limits, **options)

    path = tmp_path / "run.jsonl"
    killed = team(Dies(), journal=path)
    with pytest.raises(KeyboardInterrupt):
        await killed.run("rain")
    killed.env.close()
    assert [crossing.used for crossing in asked] == [2.0]
    model = Priced()
    run = await team(model).recover(path)
    assert run.stop == "limit"
    assert run.usage.usd == 3.0
    assert len(model.calls) == 1


async def test_a_role_hands_over_when_its_own_limit_is_reached():
    over = HandOver("Manager", "The writer has run out of calls: finish it.")

    def team() -> Team:
        return Team(
            [
                writer(3, limits=Limits(calls=1, on_limit=lambda crossing: over)),
                Role(name="Manager", actions=[Draft], watch=[]),
            ],
            model=Priced(),
            limits=Limits(calls=9),
        )

    run = await team().run("rain")
    assert run.stop == "idle"
    assert limits_of(run) == [("Writer", "hand_over")]
    said = [(e.role, e.content) for e in run.trajectory.of("message")]
    assert ("Writer", over.message) in said
    assert said[-1] == ("Manager", "priced 2")
    assert run.usage.calls == 2
    again = await team().replay(run)
    assert written(again) == written(run)


async def test_role_code_that_is_stopped_by_a_limit_is_replayed():
    over = HandOver("Manager", "Go on.")

    def team() -> Team:
        return Team(
            [
                Thinker(name="Ann", limits=Limits(calls=0, on_limit=lambda crossing: over)),
                Role(name="Manager", actions=[Check], watch=[]),
            ],
            model=Priced(),
        )

    run = await team().run("rain")
    assert limits_of(run) == [("Ann", "hand_over")]
    assert run.message.content == "checked: Go on."
    assert written(await team().replay(run)) == written(run)


async def test_a_turn_cannot_be_handed_to_a_role_that_does_not_exist():
    limits = Limits(calls=0, on_limit=lambda crossing: HandOver("Nobody", "Go on."))
    with pytest.raises(UnknownName, match="Nobody"):
        await Team([writer(limits=limits)], model=Priced()).run("rain")


async def test_a_role_goes_on_with_a_cheaper_model():
    cheap = Priced(0.1, "cheap")
    limits = Limits(usd=1.5, on_limit=lambda crossing: UseModel(cheap))

    def team() -> Team:
        return Team([writer(3)], model=Priced(), limits=limits)

    run = await team().run("rain")
    models = [e.data["model"] for e in run.trajectory.of("model_call")]
    assert models == ["priced", "cheap", "cheap"]
    assert limits_of(run) == [("Writer", "use_model")] * 2  # each draft is a conversation
    assert written(await team().replay(run)) == written(run)


@pytest.mark.parametrize("decision", ["more", "stop"])
async def test_an_answer_that_passes_a_limit_is_kept_decided_and_replayed(decision: str):
    asked: list[Crossing] = []

    def ask(crossing: Crossing) -> MoreRoom | str:
        asked.append(crossing)
        return MoreRoom(tokens=100) if decision == "more" else "stop"

    def team() -> Team:
        return Team(
            [Thinker(name="Ann")],
            model=ScriptedModel(["one two three four five six"] * 2),
            limits=Limits(tokens=4, on_limit=ask),
        )

    run = await team().run("rain")
    assert [crossing.when for crossing in asked] == ["after"]
    assert [e.content for e in run.trajectory.of("model_call")] == ["one two three four five six"]
    assert run.stop == ("idle" if decision == "more" else "limit")
    asked.clear()
    assert written(await team().replay(run)) == written(run)
    assert asked == []


async def test_limits_of_a_role_and_of_its_team_are_nested():
    team = Team(
        [writer(2, limits=Limits(calls=9)), Role(name="Other", actions=[Draft] * 2)],
        model=Priced(),
        limits=Limits(calls=3),
    )
    with pytest.raises(LimitReached, match="3 model calls is used up"):
        await team.run("rain")
    assert team.trajectory.usage.calls == 3


async def test_what_a_role_spent_alone_counts_in_its_own_limits_when_a_team_hires_it():
    role = writer(1, model=Priced(), limits=Limits(calls=2))
    await role.run("rain")
    team = Team([role], limits=Limits(usd=9.0))
    await team.run("snow")
    with pytest.raises(LimitReached, match="2 model calls for role 'Writer' is used up"):
        await team.run("hail")
    assert team.env.budget.spent.calls == 1


async def test_money_that_comes_later_binds_a_role_with_limits_of_its_own():
    role = writer(3, limits=Limits(calls=9))
    team = Team([role], model=Priced())
    await team.run("rain", rounds=1)
    team.invest(1.0)
    with pytest.raises(LimitReached, match=r"limit of \$1 does not cover"):
        await team.run("snow")
    assert role.rc.budget.spent.calls == 4
    assert team.env.budget.spent.calls == 1


async def test_an_investment_takes_back_no_room_that_was_given():
    limits = Limits(calls=1, on_limit=lambda crossing: MoreRoom(calls=2))
    team = Team([writer(3)], model=Priced(), limits=limits)
    await team.run("rain")
    team.invest(100.0)
    assert (team.env.budget.limits.calls, team.env.budget.limits.usd) == (3, 100.0)


async def test_after_a_reset_limits_are_whole_again():
    def roles() -> list[Role]:
        return [writer(2, limits=Limits(calls=2))]

    team = Team(roles(), model=Priced(), limits=Limits(calls=2))
    first = await team.run("rain")
    team.reset()
    assert written(await team.run("rain"))[:2] == written(first)[:2]
    assert team.env.budget.spent.calls == 2


async def test_a_failed_call_that_was_billed_counts_after_a_recovery(tmp_path: Path):
    """The first process pays two dollars for an answer that is none, and stops."""
    billed = ModelError("no answer", usage=Usage(5, 2, 2.0))

    def team(model: Model, **options: object) -> Team:
        class Tries(Role):
            actions = [Draft]

            async def _act(self):
                with contextlib.suppress(ModelError):
                    await super()._act()
                self.set_actions([Draft])
                return await super()._act()

        limits = Limits(usd=2.5, on_limit="stop")
        return Team([Tries(name="Ann")], model=model, limits=limits, **options)

    path = tmp_path / "run.jsonl"
    first = team(Fails(billed), journal=path)
    with pytest.raises(KeyboardInterrupt):
        await first.run("rain")
    first.env.close()
    (error,) = first.trajectory.of("error")
    assert error.usage == Usage(5, 2, 2.0)
    model = Priced()
    run = await team(model).recover(path)
    assert run.stop == "limit"
    assert model.calls == []


async def test_a_role_alone_is_stopped_too():
    role = writer(3, model=Priced(), limits=Limits(usd=1.5, on_limit="stop"))
    assert await role.run("rain") is None
    assert [m.content for m in role.rc.history] == ["rain", "priced 1"]
    assert [e.data["decision"] for e in role.trajectory.of("limit")] == ["stop"]


async def test_what_somebody_decided_is_logged(logged):
    limits = Limits(calls=2, on_limit=lambda crossing: MoreRoom(calls=1))
    await Team([writer(3)], model=Priced(), limits=limits).run("rain")
    (message,) = logged
    assert "used up. Decided: MoreRoom" in message
    assert message.record["extra"] == {"role": "Writer", "action": "Draft"}


# --- time ------------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_time_is_looked_at_before_each_action():
    clock = Clock()

    class Slow(Action):
        async def run(self) -> str:
            clock.now += 4.0
            return "done"

    team = Team([Role(name="Ann", actions=[Slow] * 5)], limits=Limits(seconds=10, on_limit="stop"))
    team.env.budget.clock = clock
    run = await team.run("go")
    assert run.stop == "limit"
    (event,) = run.trajectory.of("limit")
    assert event.content == (
        "The limit of 10 s is used up: 12 s have passed, and the action 'Slow' comes next."
    )
    assert len(list(run.trajectory.of("message"))) == 4
    assert written(await Team([Role(name="Ann", actions=[Slow] * 5)]).replay(run)) == written(run)


async def test_a_call_that_takes_too_long_is_interrupted_and_the_record_says_its_charge():
    async def never(call) -> str:
        await asyncio.Event().wait()
        return ""

    class Never(Priced):
        def __init__(self) -> None:
            FunctionModel.__init__(self, never, name="never")
            self.usd = 0.5

    team = Team(
        [Thinker(name="Ann")],
        model=Never(),
        limits=Limits(seconds=1, usd=9.0, on_limit="stop"),
    )
    run = await team.run("go")
    assert run.stop == "limit"
    (event,) = run.trajectory.of("limit")
    assert event.data["when"] == "during"
    assert event.usage == Usage(0, 0, 0.5, calls=1)
    assert run.usage == team.env.budget.spent
    assert written(await team.replay(run)) == written(run)


# --- rounds ------------------------------------------------------------------------------------


class Ping(Action):
    async def run(self, history) -> str:
        return "ping"


class Pong(Action):
    async def run(self, history) -> str:
        return "pong"


def for_ever(**options: object) -> Team:
    ann = Role(name="Ann", actions=[Ping], watch=[UserRequirement, Pong])
    bob = Role(name="Bob", actions=[Pong], watch=[Ping])
    return Team([ann, bob], **options)


@pytest.mark.parametrize("schedule", ["rounds", "sequential", "free"])
async def test_roles_that_watch_each_other_end_with_advice_if_nobody_bounded_them(
    monkeypatch: pytest.MonkeyPatch, schedule: str
):
    """A newcomer's two roles wrote 104 MB in a minute."""
    monkeypatch.setattr(bound, "DEFAULT_ROUNDS", 20)
    team = for_ever(schedule=schedule)
    with pytest.raises(
        EndlessRun,
        match=r"20 rounds were played and '(Ann|Bob)' still has.*messages\.NOBODY`.*bound",
    ) as caught:
        await team.run("go")
    assert isinstance(caught.value, LimitReached)
    assert team.env.rounds == 20
    assert [e.kind for e in team.trajectory.events][-2:] == ["limit", "stop"]


async def test_whoever_bounds_a_run_may_play_more_rounds_than_the_default(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(bound, "DEFAULT_ROUNDS", 20)
    assert (await for_ever().run("go", rounds=30)).stop == "rounds"
    assert (await for_ever(limits=Limits(rounds=30)).run("go")).stop == "rounds"


async def test_the_default_counts_the_rounds_of_one_run(monkeypatch: pytest.MonkeyPatch):
    """A team that is given ideas all day long plays any number of rounds."""
    monkeypatch.setattr(bound, "DEFAULT_ROUNDS", 2)
    env = Environment([Role(name="Ann", actions=[Check])])
    for _ in range(5):
        env.publish_message(Message("go"))
        assert await env.run() == "idle"
    assert env.rounds == 5


async def test_more_rounds_can_be_asked_for(tmp_path: Path):
    asked: list[Crossing] = []

    def ask(crossing: Crossing) -> MoreRoom | str:
        asked.append(crossing)
        return MoreRoom(rounds=3) if len(asked) == 1 else "stop"

    team = for_ever(limits=Limits(rounds=4, on_limit=ask))
    run = await team.run("go")
    assert (run.stop, team.env.rounds) == ("rounds", 7)
    assert asked[0].used == 4
    assert asked[0].doing == "'Ann' still has messages"
    assert limits_of(run) == [("", "more_room")]
    again = await for_ever(limits=Limits(rounds=4, on_limit=ask)).replay(run)
    assert written(again) == written(run)
    assert len(asked) == 2


async def test_a_default_bound_does_not_touch_a_run_that_ends_by_itself():
    run = await Team([Role(name="Ann", actions=[Check])]).run("go")
    assert run.stop == "idle"
    assert NOBODY not in run.message.send_to


# --- never more than one call over, in teams and over processes ----------------------------------


class Killed(BaseException):
    """Ends the process, as far as the run can tell."""


class Unforeseen(Model):
    """Costs what the list says, call by call; nobody knows before. Dies at call `dies`."""

    real = False
    estimates_hold = False
    name = "unforeseen"

    def __init__(self, costs: list[int], dies: int | None) -> None:
        self.costs, self.dies, self.asked = costs, dies, 0

    async def _complete(self, session, tools, sampling):
        if self.asked == self.dies:
            raise Killed
        cost = self.costs[self.asked % len(self.costs)]
        self.asked += 1
        for _ in range(cost % 3):
            await asyncio.sleep(0)
        return Completion(text="x", usage=Usage(cost, 0, cost / 100))


@settings(max_examples=60, deadline=None)
@given(
    costs=st.lists(st.integers(1, 30), min_size=1, max_size=6),
    dies=st.integers(0, 8),
    tokens=st.integers(1, 60),
    own=st.none() | st.integers(1, 40),
)
def test_a_team_that_is_killed_and_goes_on_passes_its_limits_by_one_call_at_most(
    costs: list[int], dies: int, tokens: int, own: int | None
):
    def team(model: Model, **options: object) -> Team:
        limits = Limits(tokens=own) if own is not None else None
        roles = [writer(3, limits=limits), Role(name="Other", actions=[Draft] * 3)]
        return Team(roles, model=model, limits=Limits(tokens=tokens, on_limit="stop"), **options)

    async def play(path: Path) -> Trajectory:
        first = team(Unforeseen(costs, dies), journal=path)
        try:
            await first.run("rain")
        except Killed:
            first.env.close()
            second = team(Unforeseen(costs, None))
            return (await second.recover(path)).trajectory
        return first.trajectory

    with tempfile.TemporaryDirectory() as folder:
        trajectory = asyncio.run(play(Path(folder) / "run.jsonl"))
    assert trajectory.usage.prompt_tokens <= tokens + max(costs)
    if own is not None:
        mine = sum(
            event.usage.prompt_tokens
            for event in trajectory.of("model_call")
            if event.role == "Writer" and event.usage is not None
        )
        assert mine <= own + max(costs)
