"""An evaluation in words and tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rolecraft.experiments.broke_off import broke_off
from rolecraft.experiments.intervals import FEWEST, Mean
from rolecraft.experiments.markdown import table
from rolecraft.failure_taxonomy.distribution import Count

if TYPE_CHECKING:
    from rolecraft.experiments.evaluation import Contrast, Evaluation, Measured


def head(evaluation: Evaluation) -> list[str]:
    """The head of the table of results."""
    measure = "success, %" if evaluation.binary else "reward"
    passes = [f"pass@{k}, %" for k in evaluation.ks] if evaluation.binary else []
    return ["who", "tasks", "runs", f"{measure} [95 %]", *passes, "calls", "tokens", "$", "seconds"]


def cells(row: Measured, evaluation: Evaluation) -> list[str]:
    """A row of it as text; `unknown` is what was not measured, empty what there is none of."""
    scale = 100.0 if evaluation.binary else 1.0
    runs = f"{row.attempts * row.n}" + (f" ({row.unfinished} open)" if row.unfinished else "")
    passes = [_percent(mean, 100.0) for mean in row.pass_at.values()]
    return [
        row.name,
        str(row.success.tasks),
        runs,
        _percent(row.success, scale),
        *passes,
        _figure(row.calls, ".1f", row),
        _figure(row.tokens, ".0f", row),
        _figure(row.usd, ".4f", row),
        _figure(row.seconds, ".2f", row),
    ]


CONTRASTS = ("compared", "with", "tasks", "change", "95 %", "better", "worse", "p", "Holm")


def contrast_cells(each: Contrast, evaluation: Evaluation) -> list[str]:
    """A row of the comparisons as text."""
    scale = 100.0 if evaluation.binary else 1.0
    found = each.difference
    bounds = ""
    if found.low is not None and found.high is not None:
        bounds = f"{found.low * scale:+.1f} to {found.high * scale:+.1f}"
    return [
        each.second,
        each.first,
        str(found.pairs),
        "" if found.value is None else f"{found.value * scale:+.1f}",
        bounds,
        str(found.only_second),
        str(found.only_first),
        "" if found.test is None else f"{found.test.p:.3g}",
        "" if each.adjusted is None else f"{each.adjusted:.3g}",
    ]


def failure_head(evaluation: Evaluation) -> list[str]:
    return ["mode", *evaluation.failures]


def failure_rows(evaluation: Evaluation) -> list[list[str]]:
    """The modes that are present somewhere: in how many runs, of those in which it is decided."""
    found = list(evaluation.failures.values())
    modes = dict.fromkeys(mode for each in found for mode in each.whole.modes)
    return [
        [mode, *(_share(each.whole.modes.get(mode)) for each in found)]
        for mode in modes
        if any(each.whole.modes[mode].present for each in found if mode in each.whole.modes)
    ]


def failures_how(evaluation: Evaluation) -> str:
    """What the table of failures rests on."""
    judges = dict.fromkeys(name for each in evaluation.failures.values() for name in each.judges)
    open_modes = [
        mode
        for mode in next(iter(evaluation.failures.values())).whole.modes
        if not any(each.whole.modes[mode].judged for each in evaluation.failures.values())
    ]
    said = (
        f"Runs in which a mode is present, of those in which it is decided; labelled by "
        f"{', '.join(judges)}. What nobody decided is not absent."
    )
    if open_modes:
        said += f" Not judged in any run: {', '.join(open_modes)}."
    return said


def stop_head(evaluation: Evaluation) -> list[str]:
    """The head of the table of how runs ended: every reason that one of them had."""
    return ["who", *dict.fromkeys(stop for row in evaluation.rows for stop in row.stops)]


def stop_rows(evaluation: Evaluation) -> list[list[str]]:
    """How many runs of each ended for which reason."""
    _, *reasons = stop_head(evaluation)
    return [
        [row.name, *(str(row.stops.get(reason, 0)) for reason in reasons)]
        for row in evaluation.rows
        if row.stops
    ]


def how(evaluation: Evaluation) -> list[str]:
    """How the figures were made, and what they rest on."""
    rows, contrasts = evaluation.rows, evaluation.contrasts
    held = "; ".join(
        f"{name}: {len(each.tasks)} of the split `{each.split}`, compared word for word with "
        + (f"{each.compared} tasks of `train` and " if each.split == "test" else "")
        + (f"{each.recorded} tasks on record" if each.recorded else "no record of a training")
        for name, each in evaluation.held_out.items()
    )
    said = [
        f"Setting: {'; '.join(evaluation.settings_in_words)}; seed {evaluation.seed}; "
        f"{evaluation.concurrency} runs at the same time.",
        f"Tasks: {held}.",
    ]
    what = "Success" if evaluation.binary else "Reward"
    said.append(
        f"{what}: the mean over tasks of each task's mean over its attempts. The interval is "
        f"{_methods([row.success for row in rows])}."
    )
    if evaluation.binary:
        said.append(
            "pass@k: the chance that one of k attempts succeeds, by the unbiased estimate of Chen "
            "et al. 2021, over the tasks with at least k attempts that are over."
        )
    else:
        said.append("There is no pass@k: attempts have rewards between success and failure.")
    said.append(
        "Calls, tokens, dollars and seconds are of one attempt on average (best of n and votes: of "
        "their n runs together). Seconds are wall time with that many runs at the same time; a run "
        "that was interrupted has none."
    )
    untimed = sum(row.attempts - row.timed for row in rows)
    if untimed:
        said.append(f"Without a wall time: {untimed} attempts.")
    if any(row.attempts and row.usd is None for row in rows):
        said.append("$ unknown: the model's price is not known; it is not 0.")
    if any(row.form == "best-of-n" for row in rows):
        said.append(
            "Best of n takes the best run by the hidden measure, which nobody has who needs the "
            "answer: it is the most that any way to choose can reach."
        )
    if any(row.form == "vote" for row in rows):
        said.append("Vote of n takes the answer that most of the n runs give; of equals the first.")
    said += [each.in_words() for each in evaluation.equal_cost]
    tests = dict.fromkeys(each.difference.test.test for each in contrasts if each.difference.test)
    if contrasts:
        tested = sum(each.adjusted is not None for each in contrasts)
        said.append(
            f"Change: over the tasks that both have; better and worse count tasks. Two-sided, "
            f"paired by task: {', '.join(tests) or 'nothing to test'}; Holm corrects for {tested} "
            f"of them. The interval is a bootstrap of pairs, from {FEWEST} tasks on."
        )
    return said


def page(evaluation: Evaluation) -> str:
    """The whole page."""
    parts = ["# Evaluation"]
    parts += [f"**{text}**" for text in evaluation.warnings]
    parts.append(table(head(evaluation), [cells(row, evaluation) for row in evaluation.rows]))
    if contrasts := evaluation.contrasts:
        parts.append("## Differences")
        parts.append(table(CONTRASTS, [contrast_cells(each, evaluation) for each in contrasts]))
    parts += ["## How it was measured", *how(evaluation)]
    if ended := stop_rows(evaluation):
        parts += ["## How runs ended", table(stop_head(evaluation), ended)]
    if evaluation.failures:
        parts.append("## Failures")
        if listed := failure_rows(evaluation):
            parts.append(table(failure_head(evaluation), listed))
        else:
            parts.append("No failure mode was found in any run.")
        parts.append(failures_how(evaluation))
    if evaluation.errors:
        parts.append("## Runs that broke off")
        parts.append("\n".join(f"- {each.in_words()}." for each in broke_off(evaluation.errors)))
    return "\n\n".join(parts) + "\n"


def _methods(means: Sequence[Mean]) -> str:
    words = {
        "wilson": "Wilson's, with one observation a task",
        "bootstrap": "a bootstrap's over tasks",
        "none": "missing where there is too little for one",
    }
    return ", ".join(words[method] for method in dict.fromkeys(mean.method for mean in means))


def _percent(mean: Mean, scale: float) -> str:
    if mean.value is None:
        return "unknown"
    value = f"{mean.value * scale:.1f}" if scale != 1.0 else f"{mean.value:.3f}"
    if mean.low is None or mean.high is None:
        return value
    if scale == 1.0:
        return f"{value} [{mean.low:.3f}, {mean.high:.3f}]"
    return f"{value} [{mean.low * scale:.1f}, {mean.high * scale:.1f}]"


def _figure(value: float | None, form: str, row: Measured) -> str:
    if not row.attempts:
        return ""
    return "unknown" if value is None else format(value, form)


def _share(count: Count | None) -> str:
    if count is None or not count.judged:
        return "not judged"
    return f"{count.present} of {count.judged}"
