"""Whether a reward can be trained on: it is a number, always the same one, and pays for the task.

And whether a group of attempts at one task would say anything: where all have the same reward,
every advantage is 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rolecraft.rewards.breakdown import RewardBreakdown
from rolecraft.rewards.reward import Reward
from rolecraft.rewards.safety import SafetyReport, examine
from rolecraft.training.doctor.finding import Finding, Verdict, number, passed, skipped
from rolecraft.trajectories.trajectory import Trajectory

REWARD, SAFETY, GROUPS = "reward", "reward safety", "groups"

_EXAMINED = 8
"""So many runs are manipulated."""


def check_values(reward: Reward, runs: Sequence[Trajectory]) -> Finding:
    """Score each run twice: the same finite number, of which the shares are the sum."""
    if not runs:
        return skipped(REWARD, "There is no run to score: give `--scenario` or `--run`.")
    values = []
    for run in runs:
        try:
            first, second = reward(run), reward(run)
        except Exception as error:  # of the user's code: that is the finding
            return _bad(f"It raises {type(error).__name__} for `{run.id}`: {error}", "")
        trouble = _trouble(first, second)
        if trouble:
            return _bad(f"For `{run.id}` {trouble}", number(first.value))
        values.append(first.value)
    low, high = min(values), max(values)
    return passed(
        REWARD,
        value=f"{number(low)} to {number(high)}",
        limit="finite, repeatable",
        found=f"{len(runs)} runs, scored twice: the same finite number, the sum of its shares",
        numbers={"lowest": low, "highest": high, "runs": len(runs)},
    )


def _trouble(first: RewardBreakdown, second: RewardBreakdown) -> str:
    """What is wrong with two scorings of one run; empty if nothing is."""
    numbers = {"the reward": first.value}
    numbers |= {f"the share `{name}`": value for name, value in first.shares.items()}
    numbers |= {f"the reward of `{name}`": value for name, value in first.roles.items()}
    for name, value in numbers.items():
        if not math.isfinite(value):
            return f"{name} is {value}"
    if first != second:
        return f"it gives {first.value!r}, and scored again {second.value!r}"
    sums = [("the reward", first.value, first.shares)]
    sums += [(f"that of `{r}`", first.roles.get(r, 0.0), s) for r, s in first.role_shares.items()]
    for name, value, shares in sums:
        total = sum(shares.values())
        if shares and not math.isclose(total, value, rel_tol=1e-9, abs_tol=1e-12):
            return f"{name} is {value!r}, and its shares add up to {total!r}"
    return ""


def _bad(found: str, value: str) -> Finding:
    return Finding(
        check=REWARD,
        verdict="fail",
        value=value,
        limit="finite, repeatable",
        found=found,
        advice="Make it a pure function of its signals, with a value for every run that is scored.",
    )


def check_safety(reward: Reward, runs: Sequence[Trajectory]) -> Finding:
    """What a team could do instead of its task must not pay: see `rewards/safety.py`."""
    if not runs:
        return skipped(SAFETY, "There is no run to manipulate: give `--scenario` or `--run`.")
    report = SafetyReport()
    for run in _different(reward, runs):
        report += examine(reward, run)
    paid = report.raised
    numbers = {"tried": len(report.tried), "raised": len(paid)}
    if not paid:
        return passed(
            SAFETY,
            value=f"0 of {len(report.tried)} pay",
            limit="0",
            found=f"None of {len(report.tried)} manipulations raises the reward",
            numbers=numbers,
        )
    names = ", ".join(dict.fromkeys(each.manipulation for each in paid))
    return Finding(
        check=SAFETY,
        verdict="fail",
        value=f"{len(paid)} of {len(report.tried)} pay",
        limit="0",
        found=f"It pays to {names}. Most: {paid[0]}",
        advice="Pay for success that the environment measured, and let costs count only then "
        "(`Gate`).",
        numbers=numbers,
    )


def _different(reward: Reward, runs: Sequence[Trajectory]) -> list[Trajectory]:
    """A few runs, of different rewards first: failures are hacked otherwise than successes."""
    by_value: dict[float, list[Trajectory]] = {}
    for run in runs:
        by_value.setdefault(reward(run).value, []).append(run)
    first = [each[0] for each in by_value.values()]
    return [*first, *(run for each in by_value.values() for run in each[1:])][:_EXAMINED]


def check_groups(groups: Mapping[str, Sequence[float]], size: int) -> Finding:
    """`groups` are rewards of attempts by task. It fails where no group says anything."""
    several = {task: values for task, values in groups.items() if len(values) > 1}
    if not several:
        return skipped(GROUPS, "No task was tried more than once: give `--scenario`.")
    says = sum(1 for values in several.values() if max(values) > min(values))
    share = says / len(several)
    verdict: Verdict = "ok" if share >= 0.5 else "warn" if says else "fail"
    every = [value for values in several.values() for value in values]
    mean = sum(every) / len(every)
    return Finding(
        check=GROUPS,
        verdict=verdict,
        value=f"{says} of {len(several)} groups differ, mean reward {number(mean)}",
        limit="half of them",
        found=f"Groups of {size} attempts have rewards that differ"
        if verdict == "ok"
        else f"In {len(several) - says} of {len(several)} groups of {size} attempts all rewards "
        f"are equal, so that their advantages are 0",
        advice=""
        if verdict == "ok"
        else "Take tasks that succeed now and then (`rolecraft sft` first, an easier curriculum), "
        "a reward with parts, larger groups, or `dynamic_sampling`.",
        numbers={"groups": len(several), "differ": says, "mean": mean},
    )
