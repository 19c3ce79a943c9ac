"""Reports: pure functions from runs to one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rolecraft.failure_taxonomy.modes import MODES
from rolecraft.failure_taxonomy.remedies import remedy_for
from rolecraft.trajectories import FailureFinding, Trajectory, state_machines
from rolecraft.trajectories.in_words import UNKNOWN, count, one_line
from rolecraft.viewer.changes import changes, results
from rolecraft.viewer.charts import Level, Series, bar_pairs, line_chart
from rolecraft.viewer.ending import ending
from rolecraft.viewer.markup import Child, Markup, element, join, table
from rolecraft.viewer.page import page
from rolecraft.viewer.reading import described_roles, ordered, task_of
from rolecraft.viewer.result import failure_sentences, measured_sentences
from rolecraft.viewer.sequence import anchor, sequence_diagram
from rolecraft.viewer.states import state_figure

_MACHINES_AT_ONCE = 8
_LONG_TASK = 600
"""In characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One run to show: a heading, a sentence on what to look at, the run itself."""

    heading: str
    remark: str
    trajectory: Trajectory
    findings: Sequence[FailureFinding] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingReport:
    """What a page about one training says.

    `success_*` are shares of `tasks` test tasks, in [0, 1]. `curve` has the mean reward of each
    step, `curves` further lines (one role's own success, say). `failures_*` count the tasks in
    which a mode is present; `judged` are the modes that were looked for.
    """

    title: str
    summary: str
    tasks: int
    success_before: float
    success_after: float
    curve: Sequence[tuple[float, float]]
    curves: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    levels: Sequence[Level] = ()
    failures_before: Mapping[str, int]
    failures_after: Mapping[str, int]
    failure_names: Mapping[str, str] = field(default_factory=dict)
    """From a mode's id to its name in words."""
    judged: str = ""
    """How many of the modes were looked for, and by what: one sentence."""
    facts: Sequence[tuple[str, str]] = ()
    """Figures for the top of the page: what, and its value with unit."""
    examples: Sequence[Example] = ()
    made_by: str = ""
    """The command that makes this page again."""


def training_page(report: TrainingReport) -> Markup:
    """Success before and after, the learning curve, failures before and after, example runs."""
    lines = [Series("mean reward of the team", list(report.curve))]
    lines += [Series(name, list(points), muted=True) for name, points in report.curves.items()]
    modes = ordered([*report.failures_before, *report.failures_after], list(report.failure_names))
    rows = [
        (
            _mode(mode, report.failure_names),
            float(report.failures_before.get(mode, 0)),
            float(report.failures_after.get(mode, 0)),
        )
        for mode in modes
    ]
    facts = [
        (f"success before, {report.tasks} tasks", f"{report.success_before:.1%}"),
        (f"success after, {report.tasks} unseen tasks", f"{report.success_after:.1%}"),
        *report.facts,
    ]
    return page(
        report.title,
        element(
            "main",
            element("h1", report.title),
            element("p", report.summary, class_="lead"),
            _facts(facts),
            element("h2", "Learning"),
            line_chart(
                lines,
                title="Mean reward of each training step",
                x_label="training step",
                y_label="reward",
                levels=report.levels,
            ),
            element("h2", "Failures"),
            element("p", report.judged) if report.judged else None,
            bar_pairs(rows, names=("before", "after"), head="tasks in which the mode is present")
            if rows
            else element("p", "No failure was found in either set of runs.", class_="quiet"),
            element("h2", "Runs to read") if report.examples else None,
            *(_example(example) for example in report.examples),
            _footer(report.made_by),
        ),
    )


def trajectory_page(
    trajectory: Trajectory,
    findings: Sequence[FailureFinding] | None = None,
    *,
    judged: str = "",
    made_by: str = "",
    journal: Path | None = None,
) -> Markup:
    """One run: what was asked, who took part, what came of it, what failed, and every event.

    `journal` is the file that it is in: a run that is not over says how to go on with it.
    `findings` None means that nobody looked for failures, which the page then says.
    """
    usage, costs = trajectory.usage, trajectory.role_table()
    unknown = "model calls" in costs.unrecorded
    end = ending(trajectory, journal)
    facts = [
        ("ended", end.word),
        ("events", f"{len(trajectory.events):,}"),
        ("model calls", UNKNOWN if unknown else f"{usage.calls:,}"),
        (
            "tokens",
            UNKNOWN if unknown else f"{usage.prompt_tokens + usage.completion_tokens:,}",
        ),
        ("price", UNKNOWN if unknown else costs.total.price),
    ]
    task = task_of(trajectory)
    return page(
        trajectory.id,
        element(
            "main",
            element("h1", trajectory.id),
            _task(task) if task else None,
            _facts(facts),
            *(element("p", why, class_="why") for why in failure_sentences(trajectory)),
            *(element("p", said) for said in (*end.sentences, *measured_sentences(trajectory))),
            *_problems(trajectory),
            element("h2", "Who took part"),
            _roles(trajectory),
            *changes(trajectory),
            *results(trajectory),
            *_signals(trajectory),
            element("h2", "Failures"),
            element("p", judged) if judged else None,
            _findings(findings, linked=True)
            if findings is not None
            else element("p", "Nobody looked for failures.", class_="quiet"),
            *_states(trajectory),
            element("h2", "What happened"),
            sequence_diagram(trajectory, findings or (), anchors=True),
            _footer(made_by),
        ),
    )


def _facts(facts: Iterable[tuple[str, str]]) -> Markup:
    return element(
        "dl",
        *(element("div", element("dt", what), element("dd", value)) for what, value in facts),
        class_="facts",
    )


def _task(task: str) -> Markup:
    """The task as it is; a long one folds away behind its beginning."""
    if len(task) <= _LONG_TASK:
        return element("p", task, class_="lead text")
    return element(
        "details",
        element("summary", f"{one_line(task, 200)} ({len(task):,} characters)", class_="lead"),
        element("p", task, class_="text"),
    )


def _example(example: Example) -> Markup:
    return element(
        "section",
        element("h3", example.heading),
        element("p", example.remark) if example.remark else None,
        _findings(example.findings) if _present(example.findings) else None,
        sequence_diagram(example.trajectory, example.findings),
    )


def _roles(trajectory: Trajectory) -> Markup:
    """What each role is, did and cost; the last row is the sum."""
    profiles = {str(role.get("name")): role.get("profile") for role in described_roles(trajectory)}
    table_of_roles = trajectory.role_table()
    rows: list[list[Child]] = []
    for cells in table_of_roles.cells:
        profile = profiles.get(cells[0]) if len(rows) < len(table_of_roles) else None
        rows.append(
            [
                join(
                    [
                        element("b", cells[0]),
                        element("div", str(profile), class_="quiet") if profile else None,
                    ]
                ),
                *cells[1:],
            ]
        )
    return table(table_of_roles.HEAD, rows, numeric=1)


def _states(trajectory: Trajectory) -> list[Markup]:
    """A drawing of each role that did anything; folded away where they are many."""
    figures = [
        state_figure(machine)
        for machine in state_machines(trajectory).values()
        if machine.transitions
    ]
    if not figures:
        return []
    drawings = element("div", *figures, class_="machines")
    if len(figures) > _MACHINES_AT_ONCE:
        drawings = element(
            "details", element("summary", f"The states of {len(figures)} roles"), drawings
        )
    return [element("h2", "What each role did"), drawings]


def _signals(trajectory: Trajectory) -> list[Markup]:
    signals = trajectory.signals
    if not signals:
        return []
    rows = [
        [signal.name, signal.role or "team", signal.source, f"{signal.value:g} {signal.unit}"]
        for signal in signals
    ]
    return [
        element("h2", "What was measured"),
        table(["signal", "of", "by", "value"], rows, numeric=3),
    ]


def _present(findings: Iterable[FailureFinding]) -> list[FailureFinding]:
    return [finding for finding in findings if finding.verdict == "present"]


def _findings(findings: Sequence[FailureFinding], *, linked: bool = False) -> Markup:
    """A table of the failures that are present; `linked` to the events that the page shows."""
    present = _present(findings)
    if not present:
        return element("p", "No failure was found.", class_="quiet")
    rows = [
        [
            element("mark", finding.mode),
            finding.role,
            join((_event(seq, linked=linked) for seq in finding.events), ", "),
            join(
                [
                    element("q", finding.quote) if finding.quote else None,
                    element("div", finding.reason, class_="quiet") if finding.reason else None,
                    _remedy(finding.mode),
                ]
            ),
            finding.source,
        ]
        for finding in present
    ]
    return table(["failure", "role", "events", "evidence", "found by"], rows)


def _remedy(mode: str) -> Markup | None:
    """What to do about a failure; None for a mode that nobody knows here."""
    if mode not in MODES:
        return None
    remedy = remedy_for(mode)
    return element("div", f"Edit the {', '.join(remedy.edit)}. {remedy.tactical}", class_="quiet")


def _event(seq: int, *, linked: bool) -> Child:
    return element("a", f"{seq}", href=f"#{anchor(seq)}") if linked else seq


def _problems(trajectory: Trajectory) -> list[Markup]:
    if not trajectory.problems:
        return []
    return [
        element("h2", f"{count(len(trajectory.problems), 'line')} could not be read"),
        element("ul", *(element("li", problem) for problem in trajectory.problems)),
    ]


def _mode(mode: str, names: Mapping[str, str]) -> str:
    return f"{names[mode]} ({mode})" if mode in names else mode


def _footer(made_by: str) -> Markup | None:
    return element("footer", "Made by ", element("code", made_by)) if made_by else None
