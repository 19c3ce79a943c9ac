"""`rolecraft feedback`: say which runs you like better; a reward is fitted to what you said."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer

from rolecraft.cli._exits import CommandLineError, ExitCode
from rolecraft.cli._feedback_runs import StoredRun, answers_in, figures, stored_runs
from rolecraft.cli._options import Debug, Json, Out, Seed
from rolecraft.cli._output import Output

if TYPE_CHECKING:
    from rolecraft.rewards.learned import FeedbackFolder, FitReport, Label, Observation
    from rolecraft.rewards.learned.feedback import Answer


def feedback(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="PATH...", help="Journals, or folders of them, to ask about."),
    ] = None,
    out: Out = Path("feedback"),
    count: Annotated[int, typer.Option("--count", min=0, help="Questions at most.")] = 10,
    rate: Annotated[
        bool, typer.Option("--rate", help="Ask how good single runs are, 1 to 5, and not of pairs.")
    ] = False,
    goal: Annotated[
        str | None,
        typer.Option("--goal", metavar="TEXT", help="What you want, in words; weights follow it."),
    ] = None,
    by: Annotated[str, typer.Option("--by", metavar="NAME", help="Who answers.")] = "",
    take: Annotated[
        Path | None,
        typer.Option(
            "--import",
            metavar="FILE",
            dir_okay=False,
            help="Take answers from a JSONL file (-: stdin), and do not ask.",
        ),
    ] = None,
    only_list: Annotated[
        bool, typer.Option("--list", help="Only say what would be asked, and end.")
    ] = False,
    fit: Annotated[bool, typer.Option("--fit", help="Fit the reward to all answers.")] = False,
    higher: Annotated[
        list[str] | None,
        typer.Option(
            "--higher",
            metavar="SIGNAL",
            help="More of it is never worse, whatever answers say. Can be given several times, as "
            "--lower and --either. Features such as run.tokens count only if they are named.",
        ),
    ] = None,
    lower: Annotated[
        list[str] | None,
        typer.Option("--lower", metavar="SIGNAL", help="Less of it is never worse, likewise."),
    ] = None,
    either: Annotated[
        list[str] | None,
        typer.Option("--either", metavar="SIGNAL", help="Answers decide, as for any other."),
    ] = None,
    seed: Seed = 0,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Say which of two runs is better, or how good one is; --fit makes a reward of it."""
    from rolecraft.rewards.learned import FeedbackFolder, Wishes

    if not (paths or take or fit):
        raise CommandLineError("Name runs to ask about, answers to --import, or --fit.")
    if (higher or lower or either) and not fit:
        raise CommandLineError("--higher, --lower and --either say how to fit: add --fit.")
    with Output(json=json, makes=True) as output:
        folder = FeedbackFolder(out)
        runs = stored_runs(paths or [], goal, output)
        if only_list:
            _list(_questions(folder, runs, count, rate, seed), output)
            return
        if take is not None:
            labels = answers_in(take, runs, by)
            folder.add(*labels)
            for label in labels:
                output.result(_answered(label))
            output.say(f"{_counted(len(labels), 'answer')} taken into `{folder.feedback}`.")
        elif runs and count:
            questions = _questions(folder, runs, count, rate, seed)
            if not questions:
                output.note("Nothing is left to ask: these runs were compared, or look the same.")
            _ask(questions, runs, folder, by, output)
        if fit:
            wishes = Wishes(higher or (), lower or (), either or ())
            seen = [run.seen for run in runs.values()]
            report = folder.fit(seen, goal=goal, wishes=wishes, seed=seed)
            for problem in folder.problems:
                output.warn(problem)
            _told(report, folder, output)
            if report.decision.outcome == "rolled back":
                raise typer.Exit(ExitCode.INCOMPLETE)


Question = tuple["Observation", ...]
"""Two runs to compare, or one to rate."""


def _questions(
    folder: FeedbackFolder, runs: dict[str, StoredRun], count: int, rate: bool, seed: int
) -> Sequence[Question]:
    seen = [run.seen for run in runs.values()]
    if rate:
        return [(run,) for run in folder.to_rate(seen, count)]
    return folder.pairs(seen, count, seed=seed)


def _list(questions: Sequence[Question], output: Output) -> None:
    for question in questions:
        names = [run.run for run in question]
        if len(names) == 2:
            output.result({"a": names[0], "b": names[1]})
        else:
            output.result({"run": names[0]})
        output.say("  ".join(names))


# --- asking ----------------------------------------------------------------------------------


def _ask(
    questions: Sequence[Question],
    runs: dict[str, StoredRun],
    folder: FeedbackFolder,
    by: str,
    output: Output,
) -> None:
    """Put the questions one by one; each answer is in the file before the next is asked."""
    answered = 0
    for number, question in enumerate(questions, 1):
        _show(question, runs, f"Question {number} of {len(questions)}", output)
        label = (_compare if len(question) == 2 else _rate)(question, by, output)
        if label is None:
            break
        folder.add(label)
        output.result(_answered(label))
        answered += 1
    output.say(f"{_counted(answered, 'answer')} kept in `{folder.feedback}`.")


def _compare(question: Question, by: str, output: Output) -> Label | None:
    from rolecraft.rewards.learned import Preference
    from rolecraft.rewards.learned.feedback import Answer

    said = _line("Which is better? a, b, equal or skip (q ends)", get_args(Answer), output)
    if said is None:
        return None
    return Preference(question[0], question[1], cast("Answer", said), by)


def _rate(question: Question, by: str, output: Output) -> Label | None:
    from rolecraft.rewards.learned import Rating

    said = _line("How good is it? 1 (not at all) to 5 (q ends)", "12345", output)
    return Rating(question[0], int(said), by) if said else None


def _line(prompt: str, known: Sequence[str], output: Output) -> str | None:
    """One of `known`, or None for the end: `q`, or no more input."""
    while True:
        output.say(prompt)
        line = sys.stdin.readline()
        said = line.strip().lower()
        if not line or said in ("q", "quit"):
            return None
        if said in known:
            return said
        output.warn(f"{said!r} is none of: {', '.join(known)}, q.")


def _show(question: Question, runs: dict[str, StoredRun], title: str, output: Output) -> None:
    known = [runs[run.run] for run in question]
    letters = ["a", "b"] if len(known) == 2 else ["this run"]
    output.say()
    goal = question[0].goal
    output.say(f"{title}{f'. What you want: {goal}' if goal else ''}", style="bold")
    for letter, run in zip(letters, known, strict=True):
        output.say(f"  {letter}: {run.seen.run}")
        if run.task:
            output.say(f"     task: {run.task}")
        if run.said:
            output.say(f"     {run.said}")
    output.table("", ["signal", *letters], figures(question), numeric=1, whole=1)


# --- telling ---------------------------------------------------------------------------------


def _answered(label: Label) -> dict[str, Any]:
    """An answer as a JSON line: what was asked, without the numbers."""
    record = label.record()
    return {key: part["run"] if isinstance(part, dict) else part for key, part in record.items()}


def _told(report: FitReport, folder: FeedbackFolder, output: Output) -> None:
    """What changed: how well it predicts, what signals weigh, and whether it is in force."""
    decision, reward, before = report.decision, report.reward, report.before
    weighs = reward.weigh()
    weighed = before.weigh() if before else {}
    output.result(
        {
            **decision.record(),
            "reward": str(folder.rewards),
            "anew": report.anew,
            "goal": reward.goal,
            "weighs": weighs,
        }
    )
    kept = decision.after.labels
    output.say(f"Fitted to {_counted(decision.fitted, 'answer')}; {kept} kept to examine it.")
    if kept:
        was, now = decision.before, decision.after
        agreed = "" if now.agreement is None else f"agreement {now.agreement:.2f}, "
        earlier = "" if was.agreement is None else f"{was.agreement:.2f}, "
        output.say(
            f"On those: {agreed}{now.nats:.2f} nats an answer (before: {earlier}{was.nats:.2f})."
        )
    rows = []
    for each in reward.settings.directions:
        past = f"{weighed[each.name]:.2f}" if each.name in weighed else "-"
        rows.append([each.name, each.better, past, f"{weighs[each.name]:.2f}"])
    title = "What one standard deviation towards the better is worth, in log-odds"
    if reward.goal:
        title += f", for the goal: {reward.goal}"
    output.table(title, ["signal", "better", "before", "now"], rows, numeric=2, whole=1)
    for warning in _warnings(report):
        output.warn(warning)
    if decision.outcome == "rolled back":
        output.warn(f"Rolled back: it predicts worse. `{folder.rewards}` is as it was.")
    else:
        output.say(f"The reward is in `{folder.rewards}`.")


def _warnings(report: FitReport) -> list[str]:
    decision, told = report.decision, list[str]()
    if report.unseen:
        names = ", ".join(f"`{name}`" for name in report.unseen)
        told.append(
            f"Measured, and not looked at: {names}. Add them with --higher, --lower or --either."
        )
    if report.anew and report.before is not None:
        told.append(
            "It looks at other signals than before, so it was made anew: no trust region bound it."
        )
    if decision.outcome == "shortened":
        told.append(
            f"The trust region let it go {decision.share:.0%} of the way; --fit again goes on."
        )
    return told


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
