"""`rolecraft agreement`: how far labels agree with gold labels of the same traces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rolecraft.cli._options import Debug, Json, Mapping, Modes, Seed
from rolecraft.cli._output import Output
from rolecraft.cli.labels import passed_over

if TYPE_CHECKING:
    from rolecraft.errors import TraceError
    from rolecraft.failure_taxonomy.agreement import Agreement, Counts, Share
    from rolecraft.failure_taxonomy.labels import Labels


def agreement(
    gold: Annotated[
        Path,
        typer.Argument(metavar="GOLD", help="What people say: a labels file, data set or folder."),
    ],
    predicted: Annotated[
        Path,
        typer.Argument(metavar="PRED", help="What is measured, as `rolecraft annotate --json`."),
    ],
    annotator: Annotated[
        str | None,
        typer.Option(
            "--annotator", metavar="NAME", help="Gold is what NAME says, not the majority."
        ),
    ] = None,
    predictor: Annotated[
        str | None,
        typer.Option("--predictor", metavar="NAME", help="Of several in PRED, measure NAME."),
    ] = None,
    index_base: Annotated[
        int,
        typer.Option("--index-base", min=0, max=1, help="Number from which PRED counts steps."),
    ] = 0,
    distinct: Annotated[
        bool,
        typer.Option("--distinct", help="Leave out traces with the label row of an earlier one."),
    ] = False,
    resamples: Annotated[
        int, typer.Option("--resamples", min=0, help="Bootstrap draws for the intervals.")
    ] = 1000,
    seed: Seed = 0,
    mapping: Mapping = None,
    modes: Modes = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Compare labels with those of people: scores, kappa, intervals, trivial baselines, blame."""
    from rolecraft.failure_taxonomy.agreement import agreement as compare

    with Output(json=json) as output:
        result = compare(
            _labels(gold, output),
            _labels(predicted, output),
            annotator=annotator,
            predictor=predictor,
            index_base=index_base,
            distinct=distinct,
            resamples=resamples,
            seed=seed,
        )
        output.result(result.to_dict())
        _names(result, output)
        if not json:
            _show(result, output)


def _labels(path: Path, output: Output) -> list[Labels]:
    from rolecraft.failure_taxonomy.labels import read_labels

    def warn(error: TraceError) -> None:
        passed_over(error, output)

    return read_labels(path, on_error=warn, on_warning=output.warn)


def _names(found: Agreement, output: Output) -> None:
    """What was not compared, and which labels look copied: on stderr in any case."""
    for names, what in (
        (found.gold_only, "gold {} has no prediction"),
        (found.predicted_only, "predicted {} is no gold trace, or could be several"),
    ):
        if names:
            traces = what.format("trace" if len(names) == 1 else f"traces ({len(names)}): each")
            output.warn(f"Not compared, {traces}: {_some(names)}")
    if found.by_last_part:
        one, other = found.by_last_part[0]
        output.warn(
            f"Matched by the last part of their names only: {len(found.by_last_part)} of "
            f"{found.traces + found.left_out}, such as gold {one} and predicted {other}"
        )
    if found.labelled_twice:
        twice = _some(found.labelled_twice)
        output.warn(f"Labelled more than once by the same annotator, and counted once: {twice}")
    for group in found.same_rows[:5]:
        output.warn(f"The same gold labels in {len(group)} traces: {_some(group)}")
    if len(found.same_rows) > 5:
        output.warn(f"And {len(found.same_rows) - 5} more groups of traces with the same labels.")


def _show(found: Agreement, output: Output) -> None:
    from rolecraft.trajectories.in_words import count

    output.say(
        f"{count(found.traces, 'trace')}; gold: {found.gold or 'unnamed'}; "
        f"predicted: {found.predicted or 'unnamed'}"
    )
    if found.left_out:
        output.say(f"{found.left_out} left out, with the label row of an earlier one.")
    if found.rows:
        _modes(found, output)
        _baselines(found, output)
    _people(found, output)
    _blame(found, output)
    _calibration(found, output)
    output.say(
        f"In brackets: 95 % intervals, {found.resamples} bootstrap draws of traces "
        f"(seed {found.seed}). `-`: not defined by the counts.",
        style="dim",
    )


def _modes(found: Agreement, output: Output) -> None:
    rows = [*found.rows.values(), replace(found.micro, name="all modes, pooled")]
    if found.verification is not None:
        rows.append(replace(found.verification, name="any verification"))
    counted = [[row.name, *(str(int(n)) for n in row.counts[:4]), str(row.open)] for row in rows]
    head = ["mode", "TP", "FP", "FN", "TN", "open"]
    output.table("Cells: both decide, or the prediction leaves open", head, counted, numeric=1)
    scored = [_scored(row.name, row.counts, row.intervals["kappa"]) for row in rows]
    mean = [_number(found.macro[name]) for name in ("precision", "recall", "f1")]
    mean.append(_with(found.macro["kappa"], found.macro_intervals["kappa"]))
    scored.insert(len(found.rows) + 1, ["mean of the modes", *mean])
    head = ["mode", "precision", "recall", "F1", "kappa"]
    output.table("Scores of what both decide", head, scored, numeric=1)
    if found.micro.open:
        as_no = [
            _scored(row.name, row.counts.open_as_no(), row.intervals_open_as_no["kappa"])
            for row in rows
        ]
        output.table("Scores if what is open is read as no", head, as_no, numeric=1)


def _scored(name: str, counts: Counts, interval: tuple[float, float] | None) -> list[str]:
    from rolecraft.failure_taxonomy.agreement import f1, kappa, precision, recall

    scores = [_number(score(counts)) for score in (precision, recall, f1)]
    return [name, *scores, _with(kappa(counts), interval)]


def _baselines(found: Agreement, output: Output) -> None:
    """What costs nothing beside what was measured, over all modes pooled."""
    micro = found.micro
    named = {
        "what the prediction decides": micro.counts,
        "the same, open read as no": micro.counts.open_as_no(),
        "the same, open as wrong": micro.counts.open_as_wrong(),
        "always no": micro.baselines["always_no"],
        "always yes": micro.baselines["always_yes"],
        "a guess by prevalence": micro.baselines["prevalence"],
    }
    rows = [[name, *_scores(counts)] for name, counts in named.items()]
    head = ["all modes, pooled", "accuracy", "precision", "recall", "F1", "kappa"]
    output.table("Beside trivial annotators", head, rows, numeric=1)
    output.say(
        f"{micro.open} of {int(micro.counts.n)} cells were left open, {micro.unasked} of them "
        "never asked about."
    )


def _scores(counts: Counts) -> list[str]:
    from rolecraft.failure_taxonomy.agreement.counts import SCORES, accuracy

    return [_number(score(counts)) for score in (accuracy, *SCORES.values())]


def _people(found: Agreement, output: Output) -> None:
    raters = found.raters
    if raters is None:
        return
    pairs = "; ".join(f"{a} and {b} {_number(k)}" for (a, b), k in raters.pairs.items())
    output.say(
        f"Gold annotators among themselves, {raters.traces} traces: Fleiss' kappa "
        f"{_number(raters.fleiss)}; Cohen's kappa: {pairs}."
    )


def _blame(found: Agreement, output: Output) -> None:
    said, people = found.attribution, found.ceiling
    if said is None:
        return
    other = 1 - said.index_base
    rows = [
        ["agent", *_share(said.agent), _pairs(people.agent if people else None)],
        ["step", *_share(said.step), _pairs(people.step if people else None)],
        ["step, give or take 1", *_share(said.near), _pairs(people.near if people else None)],
        ["agent and step", *_share(said.both), ""],
        [f"step, counted from {other}", *_share(said.other_base), ""],
    ]
    title = f"The decisive failure; steps of PRED count from {said.index_base}"
    head = ["", "right", "share", "people agree"]
    output.table(title, head, rows, numeric=1)
    if said.unsaid:
        output.say(f"For {said.unsaid} traces nothing was predicted; that counts as wrong.")


def _share(share: Share) -> list[str]:
    return [f"{share.hits}/{share.n}", _with(share.value, share.interval)]


def _pairs(share: Share | None) -> str:
    """How many pairs of people agree."""
    return "" if share is None or not share.n else f"{_number(share.value)} of {share.n}"


def _calibration(found: Agreement, output: Output) -> None:
    from rolecraft.failure_taxonomy.agreement.calibration import BINS

    sure = found.calibration
    if sure is None:
        return
    without = f", {sure.without} without one left out" if sure.without else ""
    output.say(
        f"Confidence of {sure.n} verdicts{without}: expected calibration error {sure.ece:.3f} "
        f"({BINS} bins). Wrong among the surest: {', '.join(_risks(sure.curve))}."
    )


def _risks(curve: Sequence[tuple[float, float]]) -> Iterator[str]:
    """The risk at the first thresholds that keep a quarter, a half, three quarters and all."""
    said = set()
    for least in (0.25, 0.5, 0.75, 1.0):
        coverage, risk = next(point for point in curve if point[0] >= least - 1e-9)
        if coverage not in said:
            said.add(coverage)
            yield f"{risk:.1%} of {coverage:.0%}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _with(value: float | None, interval: tuple[float, float] | None) -> str:
    if value is None or interval is None:
        return _number(value)
    return f"{value:.2f} [{interval[0]:.2f}, {interval[1]:.2f}]"


def _some(names: list[str]) -> str:
    listed = ", ".join(names[:3])
    return f"{listed} and {len(names) - 3} more" if len(names) > 3 else listed
