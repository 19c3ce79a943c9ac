"""Attribution: how often the right agent and the right step are blamed.

Names are compared whole, without regard to capitals and to the number of spaces, so that `Expert`
is not `Data_Expert`. Steps are compared as integers, so that 10 is not 1: the published scorer
looked for one number within the other. Gold steps are positions of events, 0-based. A predictor
that counts from 1 is off by one everywhere, which looks like failure; so both readings are given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

from rolecraft.failure_taxonomy.agreement.bootstrap import Interval, mean_interval
from rolecraft.failure_taxonomy.labels import Blame, Labels

_Right: TypeAlias = Callable[[Blame, Blame], bool]
_Has: TypeAlias = Callable[[Blame], bool]


@dataclass(frozen=True, slots=True)
class Share:
    """How often something was right: `hits` of `n`, with its bootstrap interval."""

    hits: int
    n: int
    interval: Interval | None = None

    @property
    def value(self) -> float | None:
        """The share in [0, 1]; None if there was nothing to be right about."""
        return self.hits / self.n if self.n else None


@dataclass(frozen=True, slots=True)
class Attribution:
    """How often the blame is where gold puts it. What was not said counts as wrong."""

    index_base: int
    """From which number the predicted steps are taken to count, 0 or 1."""
    agent: Share
    step: Share
    near: Share
    """The step, give or take one."""
    both: Share
    """Agent and step."""
    other_base: Share
    """The step, if the predicted ones counted from the other number."""
    unsaid: int
    """Traces for which no decisive failure was predicted."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """How often two people who blame somebody for the same trace agree: what can be reached."""

    agent: Share
    step: Share
    near: Share


def attribution(
    pairs: Sequence[tuple[Labels, Labels]], *, index_base: int, resamples: int, seed: int
) -> Attribution | None:
    """Score the blame in `pairs` of gold and prediction; None if gold blames nobody."""
    told = [(gold.decisive, said.decisive or Blame()) for gold, said in pairs if gold.decisive]
    blamed = [(gold, said) for gold, said in told if _has_role(gold) or _has_step(gold)]
    if not blamed:
        return None

    def share(right: _Right, has: _Has, *, base: int = index_base) -> Share:
        rows = [(int(right(gold, _from(said, base))), 1) for gold, said in blamed if has(gold)]
        return _share(rows, resamples=resamples, seed=seed)

    return Attribution(
        index_base=index_base,
        agent=share(_same_role, _has_role),
        step=share(_same_step, _has_step),
        near=share(_near_step, _has_step),
        both=share(lambda a, b: _same_role(a, b) and _same_step(a, b), _has_all),
        other_base=share(_same_step, _has_step, base=1 - index_base),
        unsaid=sum(not _has_role(said) and not _has_step(said) for _, said in blamed),
    )


def ceiling(
    traces: Mapping[str, Mapping[str, Labels]], *, resamples: int, seed: int
) -> Ceiling | None:
    """How far people agree on whom to blame; None if no trace has two blames.

    Of more than two annotators, each pair counts.
    """
    agent: list[tuple[int, int]] = []
    step: list[tuple[int, int]] = []
    near: list[tuple[int, int]] = []
    for rows in traces.values():
        blames = [row.decisive for row in rows.values() if row.decisive is not None]
        for has, right, into in (
            (_has_role, _same_role, agent),
            (_has_step, _same_step, step),
            (_has_step, _near_step, near),
        ):
            pairs = list(combinations(filter(has, blames), 2))
            if pairs:
                into.append((sum(right(a, b) for a, b in pairs), len(pairs)))
    if not agent and not step:
        return None
    shares = [_share(rows, resamples=resamples, seed=seed) for rows in (agent, step, near)]
    return Ceiling(*shares)


def _share(rows: Sequence[tuple[int, int]], *, resamples: int, seed: int) -> Share:
    interval = mean_interval(
        rows, lambda sums: sums[0] / sums[1] if sums[1] else None, resamples=resamples, seed=seed
    )
    hits, n = (sum(column) for column in zip(*rows, strict=True)) if rows else (0, 0)
    return Share(hits, n, interval)


def _from(said: Blame, base: int) -> Blame:
    """A blame whose step counts from `base`, as one that counts from 0."""
    return Blame(said.role, None if said.step is None else said.step - base)


def _same_role(one: Blame, other: Blame) -> bool:
    return _folded(one.role) == _folded(other.role)


def _folded(name: str) -> str:
    """A name without what a labeller's spelling adds: capitals, and how many spaces there are."""
    return " ".join(name.casefold().split())


def _same_step(one: Blame, other: Blame) -> bool:
    return one.step == other.step


def _near_step(one: Blame, other: Blame) -> bool:
    return one.step is not None and other.step is not None and abs(one.step - other.step) <= 1


def _has_role(blame: Blame) -> bool:
    return bool(blame.role)


def _has_step(blame: Blame) -> bool:
    return blame.step is not None


def _has_all(blame: Blame) -> bool:
    return _has_role(blame) and _has_step(blame)
