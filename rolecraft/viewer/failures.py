"""The report on many traces as a web page: what fails, where, what goes together, what to do.

Invariant: the page says first how many traces were judged and by what; a verdict that nobody gave
is shown as such, in numbers and plots.
"""

from __future__ import annotations

from collections.abc import Iterable

from rolecraft.failure_taxonomy.codes import MAST_V3
from rolecraft.failure_taxonomy.distribution import Distribution
from rolecraft.failure_taxonomy.distribution_input import UNSTATED
from rolecraft.failure_taxonomy.modes import MODES, Category
from rolecraft.failure_taxonomy.remedies import CATEGORIES, remedy_for
from rolecraft.trajectories.in_words import count
from rolecraft.viewer.failures_charts import groups, heat, share_of, stages
from rolecraft.viewer.markup import Markup, element, join, table
from rolecraft.viewer.page import page
from rolecraft.viewer.reading import percent


def failures_page(
    found: Distribution, *, title: str = "Failures", notes: Iterable[str] = ()
) -> str:
    """A self-contained HTML page. `notes` are said under the facts: files that were left out."""
    body = [
        element("h1", title),
        element("p", judged_sentence(found), class_="lead"),
        _facts(found),
        *(element("p", note, class_="quiet") for note in notes),
        *_modes(found),
        _definitions(found),
        *_stages(found),
        *_groups(found),
        *_correlations(found),
        *_remedies(found),
        element(
            "footer",
            "Modes are named by concept id; codes are those of "
            f"{MAST_V3.name}. Shares are of the traces in which a mode was decided. How far these "
            "labels agree with people is not known unless it was measured: `rolecraft agreement`.",
        ),
    ]
    return page(title, element("main", *body))


def judged_sentence(found: Distribution) -> str:
    """How many traces were judged, by what, and how much was left open."""
    by = ", ".join(f"{name} ({traces})" for name, traces in found.judges.items())
    decided = sum(bool(each.judged) for each in found.whole.modes.values())
    return (
        f"{count(found.whole.traces, 'trace')}, labelled by {by}. {decided} of "
        f"{count(len(found.whole.modes), 'mode')} were decided in at least one trace; "
        f"{percent(found.whole.unknown_share)} of all verdicts are unknown."
    )


ADDED = (
    "+n: found n times more by annotators that never deny it; that says nothing of the other "
    "traces, so it is in no rate."
)


def _facts(found: Distribution) -> Markup:
    whole = found.whole
    per_trace = whole.failures / whole.traces if whole.traces else 0.0
    facts = [
        ("traces", str(whole.traces)),
        ("failures", str(whole.failures)),
        ("failures a trace", f"{per_trace:.2f}"),
        ("verdicts unknown", percent(whole.unknown_share)),
    ]
    pairs = (element("div", element("dt", name), element("dd", value)) for name, value in facts)
    return element("dl", *pairs, class_="facts")


def _modes(found: Distribution) -> list[Markup]:
    rows = []
    for mode, counted in found.whole.modes.items():
        rate = "not judged" if counted.rate is None else percent(counted.rate)
        if counted.one_sided:
            rate = "never denied"
        share = found.whole.share(mode)
        rows.append(
            [
                element(
                    "span",
                    element("strong", MODES[mode].name),
                    element("br"),
                    element("code", mode),
                    title=MODES[mode].definition,
                ),
                MAST_V3.code(mode),
                share_of(counted) or "-",
                rate,
                percent(counted.found) if counted.judged else "-",
                f"{share:.1%}" if share is not None and counted.judged else "-",
                percent(counted.unknown_share),
            ]
        )
    head = ["mode", "code", "present", "rate", "found", "share of failures", "unknown"]
    sources = ", ".join(f"{name} {n}" for name, n in list(found.sources.items())[:8])
    return [
        element("h2", "Modes"),
        element(
            "p",
            "Rate: share of the traces in which the mode was decided. Found: share of all traces; "
            "the true rate is at least that. Never denied: whoever looked could only find it, so "
            "there is no rate. Unknown: share of the traces in which nobody decided it.",
        ),
        table(head, rows, numeric=1),
        element("p", ADDED, class_="quiet")
        if any(c.added for c in found.whole.modes.values())
        else Markup(""),
        element("p", f"Verdicts by: {sources or 'nobody'}.", class_="quiet"),
    ]


def _definitions(found: Distribution) -> Markup:
    """What each mode means, your own ones too: a table of names says it to nobody else."""
    rows = [
        [
            join([element("strong", mode.name), element("br"), element("code", mode.id)]),
            mode.definition,
            mode.positive,
            mode.near_miss,
        ]
        for mode in (MODES[each] for each in found.whole.modes)
    ]
    return element(
        "details",
        element("summary", f"What the {count(len(rows), 'mode')} mean"),
        table(["mode", "definition", "an example", "looks like it and is none"], rows),
    )


def _stages(found: Distribution) -> list[Markup]:
    if not found.whole.failures:
        return []
    return [
        element("h2", "Stages"),
        element(
            "p",
            "Each mode over the stages of a run in which it can arise: its share of all failures, "
            "and in how many of the traces where it was decided it is present. In brackets: "
            "failures of modes that can arise in that stage.",
        ),
        stages(found.whole),
    ]


def _groups(found: Distribution) -> list[Markup]:
    names = [group.name for group in found.groups]
    if names == [UNSTATED]:
        return [element("p", f"The traces do not state their {found.by}.", class_="quiet")]
    rows = [
        [
            element("code", mode),
            *(share_of(group.modes[mode]) or "-" for group in found.groups),
        ]
        for mode in found.whole.modes
    ]
    totals = [f"{group.name} ({group.traces})" for group in found.groups]
    return [
        element("h2", f"By {found.by}"),
        groups(found),
        element(
            "p", "Present, of the traces in which it was decided; a dash where it was in none."
        ),
        table(["mode", *totals], rows, numeric=1) if len(names) <= 12 else Markup(""),
    ]


def _correlations(found: Distribution) -> list[Markup]:
    parts: list[Markup] = []
    if found.modes is not None and any(
        value is not None for (one, other), value in found.modes.values.items() if one != other
    ):
        parts += [
            element("h2", "What goes together"),
            element(
                "p",
                "Phi coefficients over traces in which both modes were decided. A dash: fewer than "
                "three such traces, or one of the two never varies.",
            ),
            heat(found.modes, title="Correlation of the modes"),
        ]
    if parts and found.categories is not None:
        parts += [
            element("h3", "Categories"),
            heat(found.categories, title="Correlation of the categories", wide=True),
        ]
    return parts


def _remedies(found: Distribution) -> list[Markup]:
    present = sorted(
        (mode for mode, each in found.whole.modes.items() if each.present),
        key=lambda mode: -found.whole.modes[mode].present,
    )
    if not present:
        return []
    rows = []
    for mode in present:
        remedy = remedy_for(mode)
        parts = [element("code", part) for part in remedy.parts]
        rows.append(
            [
                join([element("code", mode), f" {found.whole.modes[mode].present}"]),
                join(list(remedy.edit), ", "),
                remedy.tactical,
                join([remedy.structural, *([" ", join(parts, ", ")] if parts else [])]),
            ]
        )
    used = {MODES[mode].category for mode in present}
    study = [
        element(
            "li",
            element("strong", f"{category}. "),
            f"Tactical: {', '.join(CATEGORIES[category].tactical)}. "
            f"Structural: {', '.join(CATEGORIES[category].structural)}.",
        )
        for category in Category
        if category in used
    ]
    return [
        element("h2", "What to do"),
        element(
            "p",
            "The most frequent first. This is advice: play the same tasks with and without it, and "
            "let rolecraft compare say whether it helped. Names in code are parts in "
            "rolecraft.roles.remedies.",
        ),
        table(["mode", "edit", "tactical", "structural"], rows),
        element("p", "What the study (arXiv 2503.13657) names for the categories:"),
        element("ul", *study),
    ]
