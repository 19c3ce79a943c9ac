"""How far the annotator agrees with people: scores on labelled data, beside trivial baselines.

    python benchmarks/annotation_quality.py                        # detectors only
    python benchmarks/annotation_quality.py --judge openai/o3      # and a judge for the rest
    python benchmarks/annotation_quality.py --json quality.json

The data is not part of the project: `--data` names a folder with `mad/`, `mast_lint/` and
`who_and_when/` in it. Tables go to stdout as Markdown. No threshold of a detector was chosen on
this data; nothing here may be tuned to it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rolecraft import __version__
from rolecraft.errors import TraceError
from rolecraft.failure_taxonomy import annotate_many
from rolecraft.failure_taxonomy.agreement import Agreement, Counts, Row, Share, agreement
from rolecraft.failure_taxonomy.agreement.counts import SCORES
from rolecraft.failure_taxonomy.formats import Imported, read_all, trace_files
from rolecraft.failure_taxonomy.labels import Labels


@dataclass(frozen=True)
class DataSet:
    """Labelled traces, and whose labels they are."""

    name: str
    files: tuple[str, ...]
    """Below the data folder, as patterns."""
    about: str


SETS = (
    DataSet(
        "MAST-Data, human labels",
        ("mad/mad_human_sample.json",),
        "a sample of 4 traces, 3 annotators each; gold is their majority",
    ),
    DataSet(
        "mast-lint, batches 1 to 3",
        tuple(f"mast_lint/raw_ag2_records{batch}.json" for batch in ("", "_batch2", "_batch3")),
        "AG2 group chats, labelled by one annotator with a model's help: silver",
    ),
    DataSet(
        "mast-lint, batches 4 and 5",
        tuple(f"mast_lint/raw_ag2_records_batch{batch}.json" for batch in (4, 5)),
        "the same with contexts cut to six messages; its authors ask not to pool them",
    ),
    DataSet(
        "Who&When, algorithm-generated",
        ("who_and_when/Algorithm-Generated",),
        "failed runs: who made the decisive mistake, and at which step",
    ),
)


async def measured(
    data: DataSet, folder: Path, judge: str | None, resamples: int
) -> tuple[Agreement, dict[str, float | None]]:
    """The agreement on a data set, and what trivial answers get of its blame."""
    paths = [folder / name for name in data.files]
    traces = [each for path in paths for file in trace_files(path) for each in read_all(file)]
    gold = [row for trace in traces for row in trace.labels]
    predicted: list[Labels] = []
    async for report in annotate_many(traces, judge=judge):
        if isinstance(report, TraceError):
            raise report
        predicted.append(Labels.from_dict(report.to_dict()))
    return agreement(gold, predicted, resamples=resamples), dict(blame_baselines(traces))


def blame_baselines(traces: list[Imported]) -> Iterator[tuple[str, float | None]]:
    """The share of right agents and steps of answers that look at nothing of what was said."""
    told = [(t.trajectory.events, row.decisive) for t in traces for row in t.labels if row.decisive]
    if not told:
        return
    agents, steps = Counter[str](), Counter[str]()
    for events, blame in told:
        spoke = Counter(event.role for event in events if event.role)
        loudest = max(spoke, key=spoke.__getitem__, default="")
        agents["a random one of those who speak"] += _share(blame.role in spoke, len(spoke))
        agents["who speaks most often"] += blame.role == loudest
        agents["who speaks first"] += blame.role == next(iter(spoke), "")
        steps["a random step"] += _share(True, len(events))
        steps["the first step"] += blame.step == events[0].seq
        steps["the last step"] += blame.step == events[-1].seq
    yield from ((f"agent: {name}", hits / len(told)) for name, hits in agents.items())
    yield from ((f"step: {name}", hits / len(told)) for name, hits in steps.items())


def _share(right: bool, of: int) -> Any:
    return right / of if of else 0.0


# --- as Markdown -----------------------------------------------------------------------------


def page(data: DataSet, found: Agreement, baselines: dict[str, float | None]) -> str:
    lines = [f"### {data.name}", "", f"{found.traces} traces: {data.about}.", ""]
    if found.rows:
        lines += [*modes(found), ""]
    if found.raters is not None:
        pairs = "; ".join(f"{a} and {b} {number(k)}" for (a, b), k in found.raters.pairs.items())
        lines += [
            f"People among themselves: Fleiss' kappa {number(found.raters.fleiss)} ({pairs}).",
            "",
        ]
    if found.same_rows:
        counts = ", ".join(str(len(group)) for group in found.same_rows)
        lines += [f"The same label row with a failure in it in several traces: {counts}.", ""]
    if found.attribution is not None:
        lines += [*blame(found, baselines), ""]
    return "\n".join(lines)


def modes(found: Agreement) -> Iterator[str]:
    yield "| mode | present in gold | decided | TP | FP | FN | precision | recall | F1 | kappa |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    silent = []
    for mode, row in found.rows.items():
        if row.counts.present or row.counts.tp or row.counts.fp:
            yield line(f"`{mode}`", row)
        else:
            silent.append(f"`{mode}`")
    if found.verification is not None:
        yield line("any verification failure", found.verification)
    yield line("**all modes, pooled**", found.micro)
    for name, counts in found.micro.baselines.items():
        scores = " | ".join(number(score(counts)) for score in SCORES.values())
        yield f"| {name.replace('_', '-')} | | | | | | {scores} |"
    if silent:
        yield ""
        yield f"Neither labelled nor found: {', '.join(silent)}."


def line(name: str, row: Row) -> str:
    """A row with what was left open read as no."""
    c: Counts = row.counts.open_as_no()
    precision, recall, f1, kappa = (score(c) for score in SCORES.values())
    low_high = row.intervals_open_as_no["kappa"]
    interval = f" [{low_high[0]:.2f}, {low_high[1]:.2f}]" if low_high and kappa is not None else ""
    cells = [
        f"{c.present:.0f} of {c.n:.0f}",
        f"{row.counts.decided:.0f}",
        *(f"{count:.0f}" for count in (c.tp, c.fp, c.fn)),
        *map(number, (precision, recall, f1)),
        number(kappa) + interval,
    ]
    return f"| {name} | {' | '.join(cells)} |"


def blame(found: Agreement, baselines: dict[str, float | None]) -> Iterator[str]:
    said = found.attribution
    assert said is not None
    yield "| | right | share |"
    yield "|---|---|---|"
    for name, share in (
        ("agent", said.agent),
        ("step", said.step),
        ("step, give or take one", said.near),
        ("agent and step", said.both),
        ("step, if ours counted from 1", said.other_base),
    ):
        yield f"| {name} | {share.hits} of {share.n} | {with_interval(share)} |"
    for name, value in baselines.items():
        yield f"| {name} | | {number(value)} |"
    yield ""
    blamed = said.agent.n - said.unsaid
    yield (
        f"Nobody was blamed in {said.unsaid} of {said.agent.n} runs, which counts as wrong. Of the "
        f"{blamed} others, the agent was right in {number(said.agent.hits / max(blamed, 1))}."
    )


def with_interval(share: Share) -> str:
    if share.interval is None:
        return number(share.value)
    return f"{number(share.value)} [{share.interval[0]:.2f}, {share.interval[1]:.2f}]"


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the data folder")
    parser.add_argument("--judge", metavar="MODEL", help="asked about what detectors leave open")
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything as JSON too")
    options = parser.parse_args()
    results = []
    for data in SETS:
        if not all((options.data / name).exists() for name in data.files):
            print(f"{data.name}: not in {options.data}, left out.", file=sys.stderr)
            continue
        found, baselines = asyncio.run(
            measured(data, options.data, options.judge, options.resamples)
        )
        print(page(data, found, baselines))
        results.append({"name": data.name, **found.to_dict(), "blame_baselines": baselines})
    if options.json is not None:
        record = {"rolecraft": __version__, "judge": options.judge, "sets": results}
        options.json.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    if not results:
        raise SystemExit(f"There is no labelled data in {options.data}.")


if __name__ == "__main__":
    main()
