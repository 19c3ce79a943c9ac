"""Advantages of single actions: what followed them, alone or against a critic, for one or all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rolecraft.errors import UsageError
from rolecraft.training import Algorithm, TrainingSequence
from rolecraft.training.algorithms.presets import algorithm
from rolecraft.training.algorithms.returns import gae
from rolecraft.training.algorithms.terms import Critic, Kl, Overlong
from rolecraft.training.credit import Credit, TeamTurn, assign, credit
from rolecraft.trajectories.events import Event, Signal, TokenSpan
from rolecraft.trajectories.trajectory import Trajectory

Credited = Callable[[TrainingSequence], list[float]]
RETURNS = Algorithm(advantage="returns", group=1)
PPO = Algorithm(advantage="gae", group=1, critic=Critic(gamma=0.9, lam=0.8))


def actions(sequence: TrainingSequence, values: Sequence[float]) -> list[float]:
    """Those at actions; at other tokens there must be none."""
    pairs = list(zip(values, sequence.action_mask, strict=True))
    assert not any(value for value, action in pairs if not action)
    return [value for value, action in pairs if action]


def counting(sequences: Sequence[TrainingSequence]) -> None:
    """A critic by hand; what it says at tokens that are no actions is not to matter."""
    for sequence in sequences:
        sequence.values = [
            0.1 * at if action else 99.0 for at, action in enumerate(sequence.action_mask)
        ]


def test_the_reward_is_at_the_last_action_of_the_roles_last_turn(by_hand: Any) -> None:
    scored = assign([by_hand("aab", 1.0)], Algorithm(advantage="returns", group=1, gamma=0.5))
    a, b = scored.sequences
    assert actions(a, a.advantages) == [0.125, 0.25, 0.5, 1.0]
    assert actions(b, b.advantages) == [0.5, 1.0]


def test_a_role_with_several_sessions_has_one_line_of_actions(by_hand: Any) -> None:
    """Its sessions take turns: 0 and 2 in one, 1 in the other."""
    episode = by_hand("abac", 1.0, signals=[Signal("found", 1.0, role="a", step=2)])
    for event in episode.trajectory.events:
        event.role = "a" if event.role == "b" else event.role
    how = Algorithm(advantage="returns", group=1, gamma=0.5)
    scored = assign([episode], how, credit=Credit(steps={"found": 0.5}))
    one, other = (sequence for sequence in scored.sequences if sequence.role == "a")
    assert actions(one, one.advantages) == [0.078125, 0.15625, 0.25, 0.5]
    assert actions(other, other.advantages) == [0.25 + 0.0625, 0.5 + 0.125]


def test_gae_is_the_pure_functions_over_actions_only_and_says_what_the_critic_missed(
    by_hand: Any,
) -> None:
    """SkyRL: only the critic's values at tool tokens moved the advantages of actions."""
    scored = assign([by_hand("aa", 1.0, given=3)], PPO, critic=counting)
    (a,) = scored.sequences
    values = actions(a, [v if m else 0.0 for v, m in zip(a.values, a.action_mask, strict=True)])
    expected = gae([0, 0, 0, 1.0], values, [True] * 4, gamma=0.9, lam=0.8)
    assert actions(a, a.advantages) == pytest.approx(expected.advantages)
    assert actions(a, a.returns) == pytest.approx(expected.returns)


def test_on_the_teams_timeline_the_next_state_is_whoevers_turn_is_next(by_hand: Any) -> None:
    """MAPPO: one stream of rewards, one line of states, values of the whole team's state."""
    seen: list[tuple[str, Sequence[TeamTurn]]] = []

    class Central:
        def team_values(self, trajectory: Trajectory, turns: Sequence[TeamTurn]) -> Sequence[float]:
            seen.append((trajectory.id, turns))
            return [0.2, 0.5, 0.7]

    scored = assign([by_hand("aba", 1.0)], PPO, credit=credit("mappo"), critic=Central())
    a, b = scored.sequences
    rewards, values = [0, 0, 0, 0, 0, 1.0], [0.2, 0.2, 0.5, 0.5, 0.7, 0.7]
    expected = gae(rewards, values, [True] * 6, gamma=0.9, lam=0.8)
    first, second, third = [expected.advantages[at : at + 2] for at in (0, 2, 4)]
    assert actions(a, a.advantages) == pytest.approx([*first, *third])
    assert actions(b, b.advantages) == pytest.approx(second)
    ((name, turns),) = seen
    assert name == "task"
    assert [(t.role, t.event, t.given, t.sampled) for t in turns] == [
        ("a", 0, (100, 100), (0, 0)),
        ("b", 2, (101, 101), (1, 1)),
        ("a", 4, (102, 102), (2, 2)),
    ]


def test_the_teams_reward_is_earned_once_however_many_roles_there_are(by_hand: Any) -> None:
    episode = by_hand("abc", 1.0, signals=[Signal("found", 1.0, step=3)])
    how = Credit(reward="team", timeline="team", steps={"found": 0.25})
    scored = assign([episode], RETURNS, credit=how)
    assert [actions(s, s.advantages) for s in scored.sequences] == [[1, 1], [1, 1], [0.75, 0.75]]


def test_a_critic_that_is_missing_or_says_too_little_is_an_error(by_hand: Any) -> None:
    with pytest.raises(UsageError, match=r"critic=trainer\.value"):
        assign([by_hand("a", 1.0)], PPO)
    with pytest.raises(UsageError, match="has 0 for 4"):
        assign([by_hand("a", 1.0)], PPO, critic=lambda sequences: None)

    class Silent:
        def team_values(self, trajectory: Trajectory, turns: Sequence[TeamTurn]) -> list[float]:
            return [float("nan")]

    with pytest.raises(UsageError, match="one finite number a turn"):
        assign([by_hand("a", 1.0)], PPO, critic=Silent())


@pytest.mark.parametrize(
    ("bootstrap", "stop", "limit", "after"),
    [
        (True, "limit", "tokens", 0.8),
        (True, "rounds", None, 0.8),
        (True, "finished", None, 0.0),
        (True, "error", None, 0.0),
        (False, "limit", "tokens", 0.0),
    ],
)
def test_an_episode_that_a_limit_cut_off_can_be_worth_what_the_critic_expects_at_its_end(
    bootstrap: bool, stop: str, limit: str | None, after: float, by_hand: Any
) -> None:
    """One step: A = r + gamma V(end) - V, only where a limit ended it and it was asked for."""
    more = [Event("limit", data={"limit": limit})] if limit else []
    how = Algorithm(
        advantage="gae", group=1, critic=Critic(gamma=0.9, lam=0.8, bootstrap=bootstrap)
    )

    def hopeful(sequences: Sequence[TrainingSequence]) -> None:
        for sequence in sequences:
            sequence.values = [0.5 * action for action in sequence.action_mask]
            sequence.after = 0.8 * sequence.cut_off

    episode = by_hand("a", 0.25, tokens=1, stop=stop, more=more)
    (a,) = assign([episode], how, critic=hopeful).sequences
    assert actions(a, a.advantages) == pytest.approx([0.25 + 0.9 * after - 0.5])
    assert actions(a, a.returns) == pytest.approx([0.25 + 0.9 * after])


def test_an_episode_is_cut_off_at_its_last_turn_also_where_nothing_was_chosen_there(
    by_hand: Any,
) -> None:
    """The turn had a session of its own, and the value of its end was lost once."""
    episode = by_hand("ab", 0.25, tokens=1, stop="rounds")
    for event in episode.trajectory.events:
        event.role = "a" if event.role == "b" else event.role
    forced = episode.trajectory.events[2].tokens
    assert isinstance(forced, TokenSpan)
    forced.support = [[7]]
    how = Algorithm(advantage="gae", group=1, critic=Critic(gamma=0.9, lam=0.8, bootstrap=True))

    def hopeful(sequences: Sequence[TrainingSequence]) -> None:
        assert [sequence.cut_off for sequence in sequences] == [False, True]
        for sequence in sequences:
            sequence.values = [0.5 * action for action in sequence.action_mask]
            sequence.after = 0.8 * sequence.cut_off

    chosen, last = assign([episode], how, critic=hopeful).sequences
    assert actions(chosen, chosen.advantages) == pytest.approx([0.25 + 0.9 * 0.8 - 0.5])
    assert not any(last.advantages)


def test_turns_without_any_choice_lose_no_reward(by_hand: Any) -> None:
    """The last turn was sampled at temperature 0: its reward counts for the action before it."""
    episode = by_hand("aa", 1.0)
    last = episode.trajectory.events[2].tokens
    assert isinstance(last, TokenSpan)
    last.temperature = 0.0
    (a,) = assign([episode], RETURNS).sequences
    assert actions(a, a.advantages) == [1.0, 1.0]
    first = by_hand("aa", 1.0, signals=[Signal("found", 1.0, step=1)])
    span = first.trajectory.events[0].tokens
    assert isinstance(span, TokenSpan)
    span.temperature = 0.0
    (a,) = assign([first], RETURNS, credit=Credit(steps={"found": 0.5})).sequences
    assert actions(a, a.advantages) == [1.0, 0.5]


def test_an_episode_without_any_choice_is_no_error(by_hand: Any) -> None:
    episode = by_hand("a", 1.0)
    span = episode.trajectory.events[0].tokens
    assert isinstance(span, TokenSpan)
    span.temperature = 0.0
    for how in (RETURNS, Algorithm(advantage="dr_grpo"), algorithm("gigpo")):
        (a,) = assign([episode], how).sequences
        assert not any(a.advantages)


def test_the_k1_penalty_is_taken_off_each_actions_reward(by_hand: Any) -> None:
    """Recorded log-probabilities are -0.5: the reference finds these tokens unlikelier, at -1."""
    how = Algorithm(advantage="returns", group=1, kl=Kl(0.1, "k1"))
    given: list[int] = []

    def reference(sequences: Sequence[TrainingSequence]) -> list[list[float]]:
        given.extend(len(sequence.ids) for sequence in sequences)
        return [[-1.0] * len(sequence.ids) for sequence in sequences]

    (a,) = assign([by_hand("a", 1.0)], how, reference=reference).sequences
    assert given == [4]
    assert actions(a, a.advantages) == pytest.approx([1 - 0.1, 1 - 0.05])
    group = Algorithm(advantage="dr_grpo", kl=Kl(0.1, "k1"))
    scored = assign([by_hand("a", 1.0), by_hand("aa", 1.0)], group, reference=reference)
    short, long = (actions(s, s.advantages) for s in scored.sequences)
    assert short == pytest.approx([0.05] * 2)
    assert long == pytest.approx([-0.05] * 4)
    with pytest.raises(UsageError, match="'k2' or 'k3'"):
        assign([by_hand("a", 1.0)], how)


def test_numbers_that_are_not_finite_cost_their_attempt_only_which_is_named(by_hand: Any) -> None:
    """Whitened or compared with others they would spoil the batch."""
    nan = float("nan")
    found = [by_hand("ab", 1.0), by_hand("ab", 0.0), by_hand("ab", 0.5)]

    def critic(sequences: Sequence[TrainingSequence]) -> None:
        counting(sequences)
        sequences[0].values[2] = nan

    white = Algorithm(advantage="gae", group=1, critic=Critic(), whiten=True)
    scored = assign(found, white, critic=critic)
    assert scored.unscored == ["task#0:a"]
    assert len(scored.sequences) == 5
    others = assign(found, white, critic=counting).sequences
    assert all(abs(value) < 9 for s in scored.sequences for value in s.advantages)
    assert len(others) == 6

    def reference(sequences: Sequence[TrainingSequence]) -> list[list[float]]:
        first, *rest = [[-1.0] * len(sequence.ids) for sequence in sequences]
        return [[nan] * len(first), *rest]

    how = Algorithm(advantage="dr_grpo", kl=Kl(0.1, "k1"))
    scored = assign(found, how, reference=reference)
    assert scored.unscored == ["task#0:a"]
    a = [actions(s, s.advantages)[0] for s in scored.sequences if s.role == "a"]
    assert a == pytest.approx([-0.25, 0.25])


def test_long_answers_lose_reward_softly(by_hand: Any, credited: Credited) -> None:
    """DAPO: of 4 action tokens, 2 are over 2: two thirds of the way to -1."""
    how = Algorithm(advantage="dr_grpo", overlong=Overlong(length=5, cache=3))
    scored = assign([by_hand("aa", 1.0), by_hand("a", 1.0)], how)
    assert [credited(s)[0] for s in scored.sequences] == pytest.approx([-1 / 3, 1 / 3])


def test_returns_are_whitened_over_the_actions_of_the_batch(by_hand: Any) -> None:
    """REINFORCE++; by role, where each role has a scale of its own."""
    found = [by_hand("ab", r, roles={"a": r, "b": 100 * r}) for r in (0.0, 1.0, 1.0)]
    batch = assign(found, algorithm("reinforce++", kl=None)).sequences
    values = [value for s in batch for value in actions(s, s.advantages)]
    assert sum(values) == pytest.approx(0.0, abs=1e-9)
    role = assign(found, Algorithm(advantage="returns", group=1), credit=Credit(whiten="role"))
    by_role = {
        name: [actions(s, s.advantages)[0] for s in role.sequences if s.role == name]
        for name in "ab"
    }
    assert by_role["a"] == pytest.approx(by_role["b"], rel=1e-6)
    assert sum(by_role["a"]) == pytest.approx(0.0, abs=1e-9)


def test_events_of_no_role_change_nothing(by_hand: Any) -> None:
    more = [Event("tool_result", role="tool", content="x"), Event("verify", role="environment")]
    plain, with_more = [
        assign([by_hand("ab", 1.0, more=its_more)], RETURNS).sequences for its_more in ([], more)
    ]
    assert plain == with_more
