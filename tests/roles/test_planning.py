"""Plans: order, checks, planning anew, and who has a say in it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft import Action, Environment, Message, Role, ScriptedModel, Team, Trajectory
from rolecraft.actions.failed import failed
from rolecraft.errors import InvalidAnswer, PlanAbandoned, UsageError
from rolecraft.models import FunctionModel, ModelCall
from rolecraft.models.human import HumanModel, Question
from rolecraft.roles.planning import Plan, PlannedStep, Planning, Step, _planned
from rolecraft.trajectories.codec import encode_event


class Search(Action):
    """Look things up."""

    async def run(self, history: Any) -> str:
        return f"found {history[-1].content}"


class Write(Action):
    """Put it into words."""

    async def run(self, history: Any) -> str:
        return f"wrote {history[-1].content}"


class Fetch(Action):
    """Fetch a page; the first time it is not there."""

    tries: int = 0

    async def run(self) -> str | Message:
        self.tries += 1
        return failed("no such page") if self.tries == 1 else "the page"


def plan(*steps: dict[str, Any] | str) -> str:
    """A plan as a model writes it; a str is the action of a step."""
    return json.dumps({"steps": [{"action": s} if isinstance(s, str) else s for s in steps]})


def step(action: str, id: str = "", *after: str, do: str = "") -> dict[str, Any]:  # noqa: A002
    return {"id": id, "action": action, "instruction": do, "depends_on": list(after)}


def planner(*replies: str, **fields: Any) -> Role:
    fields.setdefault("actions", [Search, Write, Fetch])
    fields.setdefault("model", ScriptedModel(replies))
    return Role(name="Ann", react_mode="plan_and_act", **fields)


def done(role: Role) -> list[str]:
    return [
        event.data["action"]
        for event in role.trajectory.of("action")
        if event.data["action"] != "ReviewPlan"
    ]


def asked(role: Role) -> list[str]:
    assert isinstance(role.model, FunctionModel)
    return [call.messages[-1].content for call in role.model.calls]


# --- order -----------------------------------------------------------------------------------


async def test_a_step_waits_for_those_it_depends_on_and_else_keeps_its_place() -> None:
    role = planner(
        plan(
            step("Write", "summary", "a", "b"),
            step("Search", "b", "a"),
            step("Fetch", "free"),
            step("Search", "a"),
        ),
        plan(step("Write", "summary", "a", "b"), step("Search", "b", "a"), step("Search", "a")),
    )
    await role.run("go")
    assert done(role) == ["Fetch", "Search", "Search", "Write"]


@given(st.data())
def test_every_order_respects_dependencies_and_is_the_written_one_where_it_can_be(
    data: st.DataObject,
) -> None:
    names = data.draw(st.permutations("abcdef"))
    after = {
        name: data.draw(st.lists(st.sampled_from(names[:index]), unique=True)) if index else []
        for index, name in enumerate(names)
    }
    written = data.draw(st.permutations(names))
    steps = [Step(id=name, action="Search", depends_on=after[name]) for name in written]
    worked = Plan(session=None, steps=_planned(steps, ["Search"], {}))  # type: ignore[arg-type]
    order = []
    while (now := worked.next) is not None:
        ready = [name for name in written if name not in order and set(after[name]) <= set(order)]
        assert now.id == ready[0]
        now.status = "finished"
        order.append(now.id)
    assert sorted(order) == sorted(names)


async def test_steps_without_ids_have_numbers() -> None:
    role = planner(plan("Search", {"action": "Write", "depends_on": [1]}))
    await role.run("go")
    assert done(role) == ["Search", "Write"]


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([step("Search", "a", "b"), step("Write", "b", "a")], "wait for each other for ever: "),
        ([step("Search", "a", "a")], "wait for each other for ever: 'a' -> 'a'"),
        ([step("Search", "a"), step("Write", "a")], "two steps have the id 'a'"),
        ([step("Search", "a", "z")], "'a' depends on 'z', which is none of the steps 'a'"),
    ],
)
async def test_a_plan_that_cannot_be_worked_off_is_asked_again_with_the_reason(
    steps: list[dict[str, Any]], reason: str
) -> None:
    role = planner(plan(*steps), plan("Write"))
    await role.run("go")
    assert done(role) == ["Write"]
    assert reason in asked(role)[1]


async def test_a_model_that_never_writes_one_is_an_invalid_answer() -> None:
    role = planner(*[plan(step("Search", "a", "a"))] * 3)
    with pytest.raises(InvalidAnswer, match="wait for each other"):
        await role.run("go")


# --- planning anew ---------------------------------------------------------------------------


async def test_a_failed_step_has_the_plan_written_anew_and_keeps_what_is_finished() -> None:
    role = planner(
        plan(step("Search", "a", do="x"), step("Fetch", "b"), step("Write", "c", "b")),
        plan(step("Fetch", "b"), step("Write", "c", "a", "b", do="y")),
    )
    last = await role.run("go")
    assert done(role) == ["Search", "Fetch", "Fetch", "Write"]
    assert last is not None
    assert last.content == "wrote y"
    again = asked(role)[1]
    assert "The plan must change: step 'b' failed: no such page" in again
    assert "not to be done again:\n- a Search: x [finished]: found x\n\n" in again
    assert len(role.model.calls[1].messages) == 3  # type: ignore[union-attr] # one conversation


async def test_a_finished_step_that_is_written_again_as_it_was_is_not_done_again() -> None:
    role = planner(
        plan(step("Search", "a"), step("Fetch", "b")),
        plan(step("Search", "a"), step("Fetch", "c", "a")),
    )
    await role.run("go")
    assert done(role) == ["Search", "Fetch", "Fetch"]


async def test_the_id_of_a_finished_step_cannot_be_given_to_another() -> None:
    role = planner(
        plan(step("Search", "a"), step("Fetch", "b")),
        plan(step("Write", "a")),
        plan(step("Write", "b")),
    )
    await role.run("go")
    assert "step 'a' is finished; give another step another id" in asked(role)[2]
    assert done(role) == ["Search", "Fetch", "Write"]


async def test_new_steps_without_ids_get_numbers_that_are_free() -> None:
    role = planner(plan("Search", "Fetch"), plan("Write", "Search"))
    await role.run("go")
    assert done(role) == ["Search", "Fetch", "Write", "Search"]


async def test_nothing_may_remain_to_be_done() -> None:
    role = planner(plan("Search", "Fetch", "Write"), plan())
    await role.run("go")
    assert done(role) == ["Search", "Fetch"]


async def test_role_code_can_have_the_plan_written_anew() -> None:
    class Hasty(Role):
        async def _act(self) -> Message | None:
            message = await super()._act()
            assert self.rc.plan is not None
            if not self.rc.plan.changes:
                self.rc.plan.replan("time is short")
            return message

    role = Hasty(
        name="Ann",
        react_mode="plan_and_act",
        actions=[Search, Write],
        model=ScriptedModel([plan("Search", "Search", "Write"), plan("Write")]),
    )
    await role.run("go")
    assert done(role) == ["Search", "Write"]
    assert "The plan must change: time is short" in asked(role)[1]


async def test_a_plan_is_not_changed_for_ever() -> None:
    class Lost(Action):
        async def run(self) -> Message:
            return failed("nothing there")

    role = planner(*[plan("Lost")] * 3, actions=[Lost], planning=Planning(changes=2))
    with pytest.raises(PlanAbandoned, match=r"2 times, and again: step '1' failed: nothing there"):
        await role.run("go")
    assert done(role) == ["Lost"] * 3


async def test_a_failure_outside_of_a_plan_is_a_message_like_any_other() -> None:
    role = Role(name="Ann", actions=[Fetch, Write])
    await role.run("go")
    assert [message.content for message in role.rc.memory.get()][1:] == [
        "no such page",
        "wrote no such page",
    ]


async def test_each_run_plans_for_itself() -> None:
    role = planner(plan("Fetch"), plan("Search"), plan("Write"))
    await role.run("go")
    await role.run("go")
    assert done(role) == ["Fetch", "Search", "Write"]
    assert role.rc.plan is None


# --- review ----------------------------------------------------------------------------------


async def test_a_function_accepts_a_plan_or_says_what_must_change() -> None:
    seen: list[str] = []

    def review(plan: Plan) -> str | None:
        seen.append(str(plan))
        return "search first" if plan.steps[0].action == "Write" else None

    role = planner(plan("Write"), plan("Search", "Write"), planning=Planning(review=review))
    await role.run("go")
    assert seen == ["- 1 Write [waiting]", "- 1 Search [waiting]\n- 2 Write [waiting]"]
    assert "The plan must change: search first" in asked(role)[1]
    assert done(role) == ["Search", "Write"]


async def test_a_review_is_an_action_and_so_in_the_record() -> None:
    async def review(plan: Plan) -> str:
        return ""

    role = planner(plan("Search"), planning=Planning(review=review))
    await role.run("go")
    (event,) = [e for e in role.trajectory.of("action") if e.data["action"] == "ReviewPlan"]
    assert event.data["index"] == -1
    assert "user: go\n\nThe plan:\n- 1 Search [waiting]" in event.data["fields"]["plan"]


async def test_after_each_step_the_reviewer_sees_what_came_of_it() -> None:
    def review(plan: Plan) -> str | None:
        written = any(step.action == "Write" for step in plan.steps)
        return f"{plan.finished[0].result} is enough" if plan.finished and written else None

    role = planner(
        plan(step("Search", do="x"), "Write", "Write"),
        plan("Fetch"),
        plan(),
        planning=Planning(review=review, each_step=True),
    )
    await role.run("go")
    assert done(role) == ["Search", "Fetch"]
    assert "The plan must change: found x is enough" in asked(role)[1]


async def test_another_model_may_review_the_plan() -> None:
    critic = ScriptedModel(
        ['{"verdict": "change", "comment": "too short"}', '{"verdict": "accept"}']
    )
    role = planner(plan("Write"), plan("Search", "Write"), planning=Planning(review=critic))
    await role.run("go")
    assert "The plan must change: too short" in asked(role)[1]
    critic.assert_complete()


async def test_a_person_reviews_in_words() -> None:
    questions: list[str] = []
    lines = iter(["change", "search first", "accept", ""])

    def person(question: Question) -> str:
        questions.append(question.text)
        return next(lines)

    role = planner(
        plan("Write"), plan("Search", "Write"), planning=Planning(review=HumanModel(person))
    )
    await role.run("go")
    assert done(role) == ["Search", "Write"]
    assert questions[0].endswith("The plan:\n- 1 Write [waiting]\nverdict")
    assert questions[1] == "comment, what must change, and why: text []"


async def test_a_reviewer_who_is_never_content_ends_the_run() -> None:
    role = planner(*[plan("Write")] * 6, planning=Planning(review=lambda plan: "no"))
    with pytest.raises(PlanAbandoned, match="changed its plan 5 times, and again: no"):
        await role.run("go")
    assert done(role) == []


async def test_what_cannot_review_is_told_so() -> None:
    with pytest.raises(UsageError, match="wants a model or a function of a `Plan`, got 7"):
        Planning(review=7)  # type: ignore[arg-type]
    role = planner(plan("Write"), planning=Planning(review=lambda plan: True))  # type: ignore
    with pytest.raises(UsageError, match="reviews plans returned True"):
        await role.run("go")


# --- what else changes while a plan is worked off -----------------------------------------------


async def test_a_swapped_list_takes_the_place_of_the_plan() -> None:
    class Swapping(Role):
        async def _act(self) -> Message | None:
            message = await super()._act()
            if isinstance(self.rc.todo, Search):
                self.set_actions([Write])
            return message

    role = Swapping(
        react_mode="plan_and_act",
        actions=[Search, Fetch],
        model=ScriptedModel([plan("Search", "Fetch", "Fetch")]),
    )
    await role.run("go")
    assert done(role) == ["Search", "Write"]


async def test_added_actions_are_in_the_menu_of_the_next_plan() -> None:
    class Learning(Role):
        async def _act(self) -> Message | None:
            if len(self.rc.cursor.actions) == 1:
                self.add_actions(Write)
            return await super()._act()

    role = Learning(
        react_mode="plan_and_act",
        actions=[Fetch],
        model=ScriptedModel([plan("Fetch"), plan("Write")]),
    )
    await role.run("go")
    assert done(role) == ["Fetch", "Write"]


def test_a_plan_can_be_read() -> None:
    finished = PlannedStep("a", 0, "Search", "x", (), "finished", "found x")
    waiting = PlannedStep("b", 1, "Write", "", ("a",))
    shown = str(Plan(session=None, steps=[finished, waiting]))  # type: ignore[arg-type]
    assert shown == "- a Search: x [finished]: found x\n- b Write (after a) [waiting]"


async def test_the_same_plan_gives_the_same_record() -> None:
    def record() -> Environment:
        role = planner(
            plan(step("Search", "a", do="x"), step("Fetch", "b")),
            plan(step("Fetch", "b")),
            planning=Planning(review=lambda plan: None),
        )
        env = Environment([role])
        env.publish_message(Message("go"))
        return env

    first, second = record(), record()
    await first.run()
    await second.run()
    assert first.trajectory.events == second.trajectory.events


async def test_a_planned_run_is_replayed_and_recovered_without_asking_anybody_again() -> None:
    """Role code runs again; what the model wrote and the reviewer said comes from the record."""
    reviews: list[str] = []

    def review(plan: Plan) -> None:
        reviews.append(str(plan))

    def team(*replies: str) -> Team:
        return Team(
            [planner(planning=Planning(review=review, each_step=True), model=None)],
            model=ScriptedModel(replies),
        )

    first = team(
        plan(step("Search", "a", do="x"), step("Fetch", "b"), step("Write", "c", "b")),
        plan(step("Fetch", "b"), step("Write", "c", "a", "b")),
    )
    run = await first.run("go")
    before = len(reviews)
    again = await first.replay(run)
    assert again.trajectory.events == run.trajectory.events
    assert len(reviews) == before
    for at, event in enumerate(run.trajectory.events):
        if event.kind == "message":
            cut = Trajectory(run.trajectory.id, run.trajectory.about)
            cut.write(run.trajectory.events[: at + 1])
            replies = [e.content for e in run.trajectory.events[at:] if e.kind == "model_call"]
            recovered = team(*replies)
            done_again = await recovered.recover(cut)
            assert encoded(done_again.trajectory) == encoded(run.trajectory)


def encoded(trajectory: Trajectory) -> list[bytes]:
    return [encode_event(event) for event in trajectory.events if event.kind != "resume"]


class Work(Action):
    """Do something, unless it cannot be done."""

    async def run(self, history: Any) -> str | Message:
        doing = history[-1].content
        return failed("not today") if doing.endswith("!") else f"did {doing}"


@given(st.data())
def test_whatever_the_model_plans_anew_nothing_finished_is_done_again(
    data: st.DataObject,
) -> None:
    """Failing steps (`!`), repeated steps, new ones: in any order, with any dependencies."""
    finished: list[str] = []
    names = iter(f"step{number}" for number in range(1000))

    def write(call: ModelCall) -> str:
        new = [next(names) for _ in range(data.draw(st.integers(1, 4)))]
        steps = []
        for index, name in enumerate(new):
            before = [*finished, *new[:index]]
            after = data.draw(st.lists(st.sampled_from(before), unique=True)) if before else []
            fails = data.draw(st.sampled_from(["", "", "", "!"]))
            steps.append(step("Work", name, *after, do=f"{name}{fails}"))
        again = [step("Work", name, do=name) for name in finished if data.draw(st.booleans())]
        return plan(*data.draw(st.permutations([*steps, *again])))

    class Watched(Role):
        async def _act(self) -> Message | None:
            message = await super()._act()
            assert message is not None
            if message.content.startswith("did "):
                finished.append(message.content.removeprefix("did "))
            return message

    role = Watched(
        actions=[Work],
        react_mode="plan_and_act",
        model=FunctionModel(write),
        planning=Planning(changes=3),
    )
    with contextlib.suppress(PlanAbandoned):
        asyncio.run(role.run("go"))
    assert len(finished) == len(set(finished))
