"""Talk costs something: turns that nobody took up, and turns that did again what was done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rolecraft.errors import UsageError
from rolecraft.scenarios.relay import relay
from rolecraft.training import Algorithm, TrainingSequence
from rolecraft.training.credit import Communication, Credit, Wasted, assign, wasted
from rolecraft.trajectories.events import Event
from rolecraft.trajectories.trajectory import Trajectory

Credited = Callable[[TrainingSequence], list[float]]
PLAIN = Algorithm(advantage="dr_grpo")
CAUSE = "app.Say"


def said(role: str, *to: str, cause: int | None = None, by: str = CAUSE) -> list[Event]:
    """An action and its message."""
    return [
        Event("action", role=role, data={"action": "Say"}, cause=cause),
        Event("message", role=role, content=f"{role} speaks", to=to, data={"cause_by": by}),
    ]


def run(*turns: list[Event], watch: dict[str, list[str]] | None = None) -> Trajectory:
    events = [event for turn in turns for event in turn]
    for seq, event in enumerate(events):
        event.seq = seq
    roles = [{"name": name, "watch": causes} for name, causes in (watch or {}).items()]
    return Trajectory("run", about={"roles": roles} if roles else {}, events=events)


def ignored(trajectory: Trajectory) -> list[int]:
    return [deed.event for deed in wasted(trajectory) if deed.why == "ignored"]


def test_a_message_to_all_that_nobody_watches_is_ignored() -> None:
    watch = {"a": [], "b": ["app.Other"], "c": []}
    trajectory = run(said("a", "<all>"), said("b", "<all>"), watch=watch)
    assert wasted(trajectory) == [Wasted(1, "a", "ignored")]
    watch["b"] = [CAUSE]
    assert wasted(run(said("a", "<all>"), said("b", "<all>"), watch=watch)) == []


def test_a_message_to_somebody_who_never_acts_again_is_ignored() -> None:
    assert ignored(run(said("a", "c"), said("b", "user"))) == [1]
    assert ignored(run(said("a", "b"), said("b", "user"))) == []


def test_what_led_to_something_was_taken_up_whoever_it_was_for() -> None:
    """A role that goes on from its own message, as `by_order` does."""
    assert ignored(run(said("a", "c"), said("a", "b", cause=1), said("b", "user"))) == []


def test_the_last_word_and_what_is_said_to_nobody_of_the_team_are_no_waste() -> None:
    assert ignored(run(said("a", "c"))) == []  # nobody could have taken it up
    assert ignored(run(said("a", "user"), said("b", "user"))) == []
    assert ignored(run(said("a", "<none>"), said("b", "user"))) == []
    assert ignored(run(said("user", "c"), said("b", "user"))) == []


def test_where_nothing_says_who_listens_everybody_does() -> None:
    assert ignored(run(said("a", "<all>"), said("b", "user"))) == []


def called(role: str, result: str) -> list[Event]:
    return [
        Event("tool_call", role=role, data={"tool": "search", "arguments": {"for": "x"}}),
        Event("tool_result", role=role, content=result, data={"ok": True}),
    ]


def with_calls(*results: str) -> Trajectory:
    trajectory = run(*(called("a", result) for result in results))
    for event in trajectory.events[1::2]:
        event.cause = event.seq - 1
    return trajectory


def test_a_call_with_the_same_result_again_is_repeated() -> None:
    assert wasted(with_calls("nothing", "nothing", "nothing")) == [
        Wasted(2, "a", "repeated"),
        Wasted(4, "a", "repeated"),
    ]
    assert wasted(with_calls("nothing", "something")) == []


async def test_a_run_of_a_ready_scenario_wastes_nothing() -> None:
    model = relay.untrained(0)  # type: ignore[misc]
    for task in relay.tasks.sample(8):
        assert wasted((await relay.play(task, model=model)).trajectory) == []


def ignoring(by_hand: Any, reward: float, *numbers: int, turns: str = "aab") -> Any:
    """An episode in which these turns speak to somebody who is not there."""
    episode = by_hand(turns, reward)
    for number in numbers:
        episode.trajectory.events[2 * number + 1].to = ("gone",)
    return episode


def test_wasted_turns_cost_the_role_that_took_them_and_only_it(
    by_hand: Any, credited: Credited
) -> None:
    """Two attempts that earned the same; one of them talked in vain."""
    found = [ignoring(by_hand, 1.0, 0), by_hand("aab", 1.0)]
    how = Credit(communication=Communication(turn=0.1, most=0.3))
    scored = assign(found, PLAIN, credit=how)
    assert [credited(s) for s in scored.sequences] == [
        pytest.approx([-0.05, -0.05]),
        [0.0],
        pytest.approx([0.05, 0.05]),
        [0.0],
    ]
    assert scored.wasted == {"a": 1, "b": 0}
    assert assign(found, PLAIN).silent_groups == 2


def test_the_cost_is_at_the_wasted_turn_where_turns_are_compared(
    by_hand: Any, credited: Credited
) -> None:
    how = Credit(group="role_turn", discount=0.0, communication=Communication(turn=0.1, most=0.3))
    scored = assign([ignoring(by_hand, 1.0, 0), by_hand("aab", 1.0)], PLAIN, credit=how)
    assert credited(scored.sequences[0]) == pytest.approx([-0.05, 0.0])


def test_all_waste_of_an_attempt_costs_no_more_than_the_bound(
    by_hand: Any, credited: Credited
) -> None:
    found = [ignoring(by_hand, 1.0, 0, 1, 2, 3, 4, turns="aaaaab"), by_hand("aaaaab", 0.75)]
    how = Credit(communication=Communication(turn=0.1, most=0.25))
    scored = assign(found, PLAIN, credit=how)
    assert credited(scored.sequences[0]) == pytest.approx([0.0] * 5)
    assert scored.wasted == {"a": 5, "b": 0}


@pytest.mark.parametrize("wrong", [{"turn": 0.0}, {"turn": 0.5}, {"most": float("inf")}])
def test_a_cost_without_a_bound_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="0 < turn <= most"):
        Communication(**wrong)
