"""The comparison of two sets of labels: gold and prediction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from rolecraft.errors import UsageError
from rolecraft.failure_taxonomy.agreement import raters
from rolecraft.failure_taxonomy.agreement.blame import attribution, ceiling
from rolecraft.failure_taxonomy.agreement.bootstrap import Interval, interval, resampled
from rolecraft.failure_taxonomy.agreement.calibration import calibration
from rolecraft.failure_taxonomy.agreement.counts import BASELINES, SCORES, Counts, add, mean
from rolecraft.failure_taxonomy.agreement.duplicates import distinct as distinct_rows
from rolecraft.failure_taxonomy.agreement.duplicates import labelled_twice, same_rows
from rolecraft.failure_taxonomy.agreement.matching import match, same_traces
from rolecraft.failure_taxonomy.agreement.result import Agreement, Row
from rolecraft.failure_taxonomy.labels import Labels
from rolecraft.failure_taxonomy.modes import MODES
from rolecraft.trajectories.events import FindingVerdict

VERIFICATION = ("verification.absent", "verification.weak")
"""Modes that code systems confuse; one row takes them together, as any verification failure."""


def agreement(
    gold: Iterable[Labels],
    predicted: Iterable[Labels],
    *,
    annotator: str | None = None,
    predictor: str | None = None,
    index_base: int = 0,
    distinct: bool = False,
    resamples: int = 1000,
    seed: int = 0,
) -> Agreement:
    """How far predicted labels agree with gold labels of the same traces.

    Traces are matched by name (see `match`), those of several gold annotators first (see
    `same_traces`). Of several gold annotators the majority is taken, or the one named `annotator`;
    of several predictors one must be named. `index_base` says from which number predicted steps
    count. `distinct` leaves out gold traces whose label rows an earlier one has. Intervals come
    from `resamples` bootstrap draws of traces with `seed`.

    Raises `UsageError` if nothing matches, a name is not there, or one annotator contradicts
    itself.
    """
    if index_base not in (0, 1):
        raise UsageError(f"`index_base` is 0 or 1, got {index_base!r}.")
    gold = list(gold)
    named = same_traces((row.annotator, row.trace) for row in gold)
    gold = [replace(row, trace=named[row.trace]) for row in gold]
    people = raters.by_trace(gold)
    golds = _of(people, annotator, "gold", "annotator")
    preds = _of(raters.by_trace(predicted), predictor, "predicted", "predictor")
    _only_one(preds)
    matches = match(golds, preds)
    if not matches.pairs:
        raise UsageError(
            "No predicted trace is a gold trace, by the names: gold has "
            f"{_some(golds)}, the prediction {_some(preds)}."
        )
    everybody = {name: people[name] for name in sorted(matches.pairs)}
    repeated = same_rows(everybody)
    if distinct:
        everybody = {name: everybody[name] for name in distinct_rows(everybody)}
    used = {name: golds[name] for name in everybody}
    pairs = [
        (raters.majority(list(rows.values())), next(iter(preds[matches.pairs[name]].values())))
        for name, rows in used.items()
    ]
    table = _Table(pairs, resamples=resamples, seed=seed)
    return Agreement(
        gold=_who(used),
        predicted=_who({name: preds[matches.pairs[name]] for name in used}),
        traces=len(pairs),
        gold_only=matches.gold_only,
        predicted_only=matches.predicted_only,
        by_last_part=[(name, matches.pairs[name]) for name in matches.by_last_part],
        rows=table.rows,
        verification=table.verification,
        micro=table.micro,
        macro=table.macro,
        macro_intervals=table.macro_intervals,
        same_rows=repeated,
        labelled_twice=labelled_twice(gold),
        left_out=len(matches.pairs) - len(used) if distinct else 0,
        raters=raters.rater_agreement(everybody),
        attribution=attribution(pairs, index_base=index_base, resamples=resamples, seed=seed),
        ceiling=ceiling(everybody, resamples=resamples, seed=seed),
        calibration=calibration(pairs),
        resamples=resamples,
        seed=seed,
    )


class _Table:
    """Counts, scores and intervals of all modes, of the merged row and of all pooled."""

    def __init__(
        self, pairs: Sequence[tuple[Labels, Labels]], *, resamples: int, seed: int
    ) -> None:
        # One list of counts for each trace: the modes that gold decides somewhere, then the merged.
        modes = [m for m in MODES if any(_decided(gold.verdict(m)) for gold, _ in pairs)]
        cells = [
            [raters.compared(gold, said, mode) for mode in modes]
            + [raters.cell(_any(gold), _any(said))]
            for gold, said in pairs
        ]
        totals = [add(column) for column in zip(*cells, strict=True)]
        drawn = [
            [Counts(*sums[at : at + _WIDTH]) for at in range(0, len(sums), _WIDTH)]
            for sums in resampled(
                [[int(n) for n in chain.from_iterable(row)] for row in cells],
                resamples=resamples,
                seed=seed,
            )
        ]
        unasked = {mode: sum(_unasked(gold, said, mode) for gold, said in pairs) for mode in modes}
        self.rows = {
            mode: _row(mode, [totals[at]], [[draw[at]] for draw in drawn], unasked[mode])
            for at, mode in enumerate(modes)
        }
        self.verification = (
            _row("any verification failure", totals[-1:], [draw[-1:] for draw in drawn], 0)
            if any(mode in modes for mode in VERIFICATION)
            else None
        )
        self.micro = _row(
            "all modes", totals[:-1], [draw[:-1] for draw in drawn], sum(unasked.values())
        )
        self.macro = _macro(totals[:-1])
        by_draw = [_macro(draw[:-1]) for draw in drawn]
        self.macro_intervals = {
            name: interval([scores[name] for scores in by_draw]) for name in SCORES
        }


_WIDTH = len(Counts._fields)


def _row(name: str, parts: list[Counts], drawn: list[list[Counts]], unasked: int) -> Row:
    """The row of one mode, or of several whose counts add up."""
    sums = [draw[0] if len(draw) == 1 else add(draw) for draw in drawn]
    baselines = {base: add(map(make, parts)) for base, make in BASELINES.items()}
    as_no = _intervals([total.open_as_no() for total in sums])
    return Row(name, add(parts), unasked, _intervals(sums), as_no, baselines)


def _intervals(drawn: list[Counts]) -> dict[str, Interval | None]:
    return {name: interval([score(counts) for counts in drawn]) for name, score in SCORES.items()}


def _macro(counts: Sequence[Counts]) -> dict[str, float | None]:
    return {name: mean(map(score, counts)) for name, score in SCORES.items()}


def _any(labels: Labels) -> FindingVerdict | None:
    """Whether there is any verification failure; decided if both are, or one is present."""
    said = [labels.verdict(mode) for mode in VERIFICATION]
    if "present" in said:
        return "present"
    return "absent" if set(said) == {"absent"} else "unknown"


def _decided(verdict: FindingVerdict | None) -> bool:
    return verdict in ("present", "absent")


def _unasked(gold: Labels, said: Labels, mode: str) -> bool:
    return _decided(gold.verdict(mode)) and said.verdict(mode) is None


def _of(
    traces: Mapping[str, Mapping[str, Labels]], name: str | None, side: str, option: str
) -> dict[str, dict[str, Labels]]:
    """The labels of one annotator, or of all of them."""
    everybody = dict.fromkeys(who for rows in traces.values() for who in rows)
    if not traces:
        raise UsageError(f"There are no {side} labels.")
    if name is None:
        return {trace: dict(rows) for trace, rows in traces.items()}
    if name not in everybody:
        raise UsageError(
            f"No {side} labels are by `{option}` {name!r}; there are those of "
            f"{', '.join(map(repr, everybody))}."
        )
    return {trace: {name: rows[name]} for trace, rows in traces.items() if name in rows}


def _only_one(preds: Mapping[str, Mapping[str, Labels]]) -> None:
    for trace, rows in preds.items():
        if len(rows) > 1:
            raise UsageError(
                f"The trace {trace!r} has predictions by {', '.join(map(repr, rows))}. Score one "
                "at a time: name it as `predictor` (`--predictor` on the command line)."
            )


def _who(traces: Mapping[str, Mapping[str, Labels]]) -> str:
    everybody = list(dict.fromkeys(who or "unnamed" for rows in traces.values() for who in rows))
    listed = ", ".join(everybody[:6]) + (" …" if len(everybody) > 6 else "")
    several = any(len(rows) > 1 for rows in traces.values())
    return f"majority of {listed}" if several else listed


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - 2} more" if len(listed) > 2 else ""
    return ", ".join(map(repr, listed[:2])) + more
