"""R16: several samples of a row, each with its seed, within what they may cost together."""

from __future__ import annotations

from typing import Any

from rolecraft import Action, FunctionModel, Role, Team
from rolecraft.models import Completion, Limits
from rolecraft.rollouts.batch.ledger import RETRYABLE
from rolecraft.trajectories.events import Usage


async def test_r16_each_sample_has_its_own_seed_which_a_later_run_repeats(bench: Any) -> None:
    seeds: list[int] = []

    class Note(Action):
        async def run(self, history: Any) -> str:
            seeds.append(self.role.rc.env.seed)
            return "done"

    bench.write(["a", "b", "a"])
    await bench.run(Team([Role(name="R", actions=[Note])]), samples=4)
    assert len(set(seeds)) == 12
    first, seeds[:] = sorted(seeds), []
    bench.write(["b", "a", "a"])
    await bench.run(Team([Role(name="R", actions=[Note])]), samples=4, new=True)
    assert sorted(seeds) == first


class Costing(FunctionModel):
    """Each answer costs the same, and that is known before."""

    estimates_hold = True

    def __init__(self, usd: float, tokens: int = 10) -> None:
        super().__init__(lambda call: self.given, name="costing")
        self.given = Completion(text="yes", reasoning="why", usage=Usage(tokens, 0, usd))

    def estimate_usd(self, *of: Any) -> float | None:
        return self.given.usage.usd

    def estimate_tokens(self, *of: Any) -> int:
        return self.given.usage.prompt_tokens


async def test_r16_the_budget_is_a_hard_stop_and_counts_earlier_calls(bench: Any) -> None:
    bench.write([f"p{n}" for n in range(10)])
    report = await bench.run(model=Costing(0.25), usd=1.0)
    assert report.statistics.usd == 1.0
    assert "1" in report.budget_spent
    assert (report.ran, report.left, report.complete) == (4, 6, False)
    assert [event.what for event in bench.events].count("budget") == 1
    report = await bench.run(model=Costing(0.25), usd=1.0)
    assert (report.ran, report.statistics.usd) == (0, 1.0)
    report = await bench.run(model=Costing(0.25), usd=10.0)
    assert (report.ran, report.left, report.statistics.usd) == (6, 0, 2.5)
    assert len(bench.samples()) == 10


async def test_r16_tokens_are_limited_too_and_what_was_cut_off_is_counted(bench: Any) -> None:
    class Twice(Action):
        async def run(self, history: Any) -> str:
            await self.ask("one")
            return await self.ask("two")

    bench.write([f"p{n}" for n in range(4)])
    team = Team([Role(name="R", actions=[Twice])])
    report = await bench.run(team, model=Costing(0.0, 10), tokens=50, concurrency=1)
    assert report.statistics.tokens == 50
    assert (report.ran, report.left) == (2, 2)
    cut = [entry for entry in bench.entries if entry.status == RETRYABLE]
    assert [(entry.calls, entry.prompt_tokens) for entry in cut] == [(1, 10)]
    report = await bench.run(
        Team([Role(name="R", actions=[Twice])]), model=Costing(0.0, 10), concurrency=1
    )
    assert (report.left, report.statistics.tokens, report.statistics.calls) == (0, 90, 9)


async def test_r16_limits_of_the_team_itself_end_a_sample_and_not_the_run(bench: Any) -> None:
    bench.write(["find a", "find b"])
    team = Team(
        [Role(name="R", tools=list(bench.team().roles["Finder"].tools))], limits=Limits(calls=1)
    )
    report = await bench.run(team)
    assert report.complete
    assert report.budget_spent == ""
    assert {entry.ended for entry in bench.entries} == {"turns"}
    assert [row["partial"] for row in bench.lines("openai.jsonl")] == [True, True]
