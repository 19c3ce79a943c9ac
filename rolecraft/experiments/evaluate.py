"""An evaluation: scenarios on held-out tasks under one setting, and what can be said of them.

It is an experiment whose variants are scenarios with models. What is known of it is read from the
journals, so that one that was killed goes on where it was and nothing that is over is paid again.

Equal cost: first the team and the single agent play their attempts. What a run of each cost on
average says how many runs of the agent cost as much as one of the team; so many times as often it
then plays, and each block of n runs is one attempt of best-of-n, or of the vote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rolecraft.environments.task import Split, Task
from rolecraft.errors import UnknownName, UsageError
from rolecraft.experiments.cost import EqualCost, Unit, equal_cost
from rolecraft.experiments.entries import Entry, Form
from rolecraft.experiments.evaluation import Evaluation
from rolecraft.experiments.experiment import play
from rolecraft.experiments.held_out import HeldOut, OnSeen, Seen, draw
from rolecraft.experiments.plan import Plan
from rolecraft.experiments.players import Player, players_of
from rolecraft.experiments.results import Results
from rolecraft.experiments.runs import Played, read
from rolecraft.experiments.setting import Setting
from rolecraft.experiments.variant import Variant
from rolecraft.models.limits import Limits
from rolecraft.scenarios.scenario import Scenario

if TYPE_CHECKING:
    from rolecraft.models.base import Model

Baseline = Literal["single", "best-of-n", "vote"]
Bar = Callable[[str, int], AbstractContextManager[Callable[[str], None]]]
"""From what is counted and how many to a progress that is called for each."""


async def evaluate(
    scenarios: Scenario | Sequence[Scenario],
    *,
    folder: str | Path,
    models: Mapping[str, Model | str] | Sequence[Model | str] | Model | str | None = None,
    role_models: Mapping[str, Model | str] | None = None,
    tasks: int = 50,
    setting: Setting | None = None,
    ks: Sequence[int] | None = None,
    baselines: Sequence[Baseline] = (),
    single: Scenario | None = None,
    cost: Unit | None = None,
    split: Split = "test",
    seen: Seen | None = None,
    on_seen: OnSeen = "refuse",
    seed: int = 0,
    concurrency: int = 8,
    limits: Limits | None = None,
    identities: Mapping[str, str] | None = None,
    on_run: Callable[[Played], None] | None = None,
    bar: Bar | None = None,
) -> Evaluation:
    """Play `scenarios` on `tasks` held-out tasks each, with each of `models`, and compare.

    `models` have labels, or are called by their names; the first is what the others are compared
    with. They take the place of models that roles have; `role_models` override them by the name of
    a role. Without any, roles ask whom their scenario says. `ks` are those of pass@k: 1 and
    `setting.attempts` unless given.

    `baselines` are what a team has to beat: the agent `single` (its scenario's `alone` unless
    given), the best of n runs of it, or the answer that most of n runs give, where n runs cost as
    much as one of the team, in `cost`; see `EqualCost`.

    `seen` is what was in training and `on_seen` what becomes of such tasks: see `draw`. `limits`
    (`usd`, `tokens`, `calls`) are for everything in the folder together. `identities` say more of a
    model than its name does, by label: which adapter it has. Called again with the same arguments
    it goes on. Raises `UsageError` for what cannot be meant, `NotHeldOut` for tasks that were seen,
    and for a folder that holds something else.
    """
    setting = setting or Setting()
    listed = [scenarios] if isinstance(scenarios, Scenario) else list(scenarios)
    ks = _checked_ks(ks, setting.attempts)
    _check(listed, baselines)
    held = {
        each.name: draw(each, tasks, seed=seed, split=split, seen=seen, on_seen=on_seen)
        for each in listed
    }
    async with players_of(listed, models, role_models, seed, identities or {}) as players:
        begun = _Evaluating(listed, players, held, setting, baselines, single)
        plan = Plan(begun.variants(), (), setting.attempts, seed, "", Path(folder))
        bar = bar or (lambda what, total: nullcontext(lambda state: None))
        known: dict[Path, Played] = {}

        async def go(plan: Plan, what: str) -> Results:
            for variant in plan.variants:
                for run in plan.runs(variant):
                    known[run.journal] = known.get(run.journal) or read(run, variant)
            to_play = sum(run.to_play for run in known.values())
            with bar(what, max(1, to_play)) as step:

                def done(run: Played) -> None:
                    step("" if run.over else "a run broke off")
                    if on_run is not None:
                        on_run(run)

                results = await play(
                    plan, concurrency=concurrency, limits=limits, on_run=done, known=known
                )
            known.update((run.run.journal, run) for runs in results.played.values() for run in runs)
            return results

        results = await go(plan, "runs")
        entries, equal = begun.entries(), list[EqualCost]()
        if {"best-of-n", "vote"} & set(baselines) and results.complete:
            equal = begun.equal_costs(results.played, cost)
            often = begun.repetitions(equal)
            more = [replace(each, repetitions=often.get(each.name)) for each in plan.variants]
            if any(number > setting.attempts for number in often.values()):
                results = await go(replace(plan, variants=more), "runs for equal cost")
            entries += begun.several(equal)
    evaluation = Evaluation(
        entries=entries,
        played=results.played,
        setting=setting,
        ks=ks,
        held_out=held,
        seed=seed,
        concurrency=concurrency,
        folder=Path(folder),
        wanted=baselines,
        equal_cost=equal,
        pairs=begun.pairs(equal),
        settings_in_words=setting.in_words(listed),
        errors=results.errors,
        not_begun=results.not_begun,
        complete=results.complete,
    )
    await evaluation.find_failures()
    evaluation.write()
    return evaluation


def _checked_ks(ks: Sequence[int] | None, attempts: int) -> list[int]:
    for k in ks or ():
        if k < 1 or k > attempts:
            raise UsageError(
                f"pass@{k} wants at least {max(k, 1)} attempts at each task, and there are "
                f"{attempts}: raise `attempts`, or ask for k from 1 to {attempts}."
            )
    return sorted({1, attempts} if ks is None else set(ks))


def _check(scenarios: Sequence[Scenario], baselines: Sequence[str]) -> None:
    if not scenarios:
        raise UsageError("An evaluation wants at least one scenario.")
    names = [each.name for each in scenarios]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f"Two scenarios are named {name!r}; results are told apart by name. Give one "
                f"another: `dataclasses.replace(scenario, name=...)`."
            )
    known = ("single", "best-of-n", "vote")
    for each in baselines:
        if each not in known:
            raise UnknownName("Baseline", each, known)


@dataclass(slots=True)
class _Evaluating:
    """Who plays what, and who is compared with whom."""

    scenarios: Sequence[Scenario]
    players: Sequence[Player]
    held: Mapping[str, HeldOut]
    setting: Setting
    baselines: Sequence[Baseline]
    single: Scenario | None
    made: dict[str, Variant] = field(default_factory=dict)

    def variants(self) -> list[Variant]:
        """Everything that is played, each once."""
        for entry in self.entries():
            self.made.setdefault(entry.variant.name, entry.variant)
        return list(self.made.values())

    def entries(self) -> list[Entry]:
        """The teams, each with its single agent behind it; an agent of two teams comes once."""
        found: dict[str, Entry] = {}
        for team, single in self._paired():
            found.setdefault(team.name, team)
            if single is not None:
                found.setdefault(single.name, single)
        return list(found.values())

    def _paired(self) -> Iterator[tuple[Entry, Entry | None]]:
        for scenario in self.scenarios:
            tasks = self.held[scenario.name].tasks
            alone = self._alone(scenario) if self.baselines else None
            for player in self.players:
                team = self._entry(scenario, scenario, player, "team", tasks)
                if alone is None:
                    yield team, None
                else:
                    yield team, self._entry(alone, scenario, player, "single", tasks)

    def _alone(self, scenario: Scenario) -> Scenario | None:
        """The single agent; None for a scenario that is one itself."""
        found = self.single or scenario.alone
        if found is not None:
            return None if found.name == scenario.name else found
        if any(
            each.alone is not None and each.alone.name == scenario.name for each in self.scenarios
        ):
            return None
        raise UsageError(
            f"Scenario `{scenario.name}` does not say what one agent alone would do on its tasks: "
            f"give it `alone=Scenario(...)`, or name one as `single`."
        )

    def _entry(
        self, scenario: Scenario, of: Scenario, player: Player, form: Form, tasks: Sequence[Task]
    ) -> Entry:
        name = _name(scenario, player)
        evaluated = self.held.get(scenario.name)
        if scenario is not of and evaluated is not None and evaluated.tasks != tasks:
            name += f" on {of.name}"
        variant = self.made.get(name) or Variant(
            name=name,
            scenario=scenario,
            tasks=tasks,
            options=player.options(scenario, self.setting),
            identity=player.identity(scenario, self.setting),
        )
        return Entry(name, of.name, player.label, form, variant, tasks)

    def equal_costs(
        self, played: Mapping[str, Sequence[Played]], unit: Unit | None
    ) -> list[EqualCost]:
        """For each team how many runs of its agent cost as much, by each one's first attempts."""
        found = []
        for team, single in self._paired():
            if single is not None:
                first = [
                    [
                        run
                        for run in played[each.variant.name]
                        if run.run.repetition <= self.setting.attempts
                    ]
                    for each in (team, single)
                ]
                found.append(equal_cost(team.name, single.name, first[0], first[1], unit))
        return found

    def repetitions(self, equal: Sequence[EqualCost]) -> dict[str, int]:
        """How often agents have to play, by their names."""
        often: dict[str, int] = {}
        for each in equal:
            often[each.single] = max(often.get(each.single, 0), each.n * self.setting.attempts)
        return often

    def several(self, equal: Sequence[EqualCost]) -> list[Entry]:
        """Best-of-n and votes of the agents."""
        by_name = {entry.name: entry for entry in self.entries()}
        found: dict[str, Entry] = {}
        for each in equal:
            for form in self._forms():
                name = _several(form, each)
                found[name] = replace(by_name[each.single], name=name, form=form, n=each.n)
        return list(found.values())

    def _forms(self) -> list[Form]:
        forms: tuple[Form, ...] = ("best-of-n", "vote")
        return [form for form in forms if form in self.baselines]

    def pairs(self, equal: Sequence[EqualCost]) -> list[tuple[str, str]]:
        """Who is compared with whom: each pair as what is compared with, and what is compared."""
        found: dict[tuple[str, str], None] = {}
        for team, single in self._paired():
            if single is not None:
                found[single.name, team.name] = None
        for each in equal:
            found |= {(_several(form, each), each.team): None for form in self._forms()}
        for scenario in self.scenarios:
            first, *others = (_name(scenario, player) for player in self.players)
            found |= {(first, other): None for other in others}
        for player in self.players:
            first_of: dict[tuple[str, ...], str] = {}
            for scenario in self.scenarios:
                name = _name(scenario, player)
                tasks = tuple(task.id for task in self.held[scenario.name].tasks)
                first = first_of.setdefault(tasks, name)
                if first != name and (name, first) not in found:
                    found[first, name] = None
        return list(found)


def _name(scenario: Scenario, player: Player) -> str:
    return f"{scenario.name}@{player.label}"


def _several(form: Form, equal: EqualCost) -> str:
    return f"{'best of' if form == 'best-of-n' else 'vote of'} {equal.n} {equal.single}"
