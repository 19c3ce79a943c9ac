"""Repetitions and resets planted in the logs of other frameworks, and what only looks like them.

Each family is a script, written as a log of one format and read through its importer. What the
runtime's own records say outright (a step is finished, a tool only looks) is not in these logs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rolecraft.failure_taxonomy import formats
from rolecraft.failure_taxonomy.detectors import Repetition, Reset
from rolecraft.failure_taxonomy.planted_logs import RENDERINGS, SET_UP, THINKS
from rolecraft.failure_taxonomy.planting import Score, Script, Turn, Use
from rolecraft.messages import USER

SEEDS = 6
Family = Callable[[Any], list[Turn]]


def paragraph(draw: Any) -> str:
    """A text that nobody says twice by custom."""
    return " ".join(draw.say() for _ in range(7))


def thinks(draw: Any) -> dict[str, str]:
    return {THINKS: paragraph(draw)}


def subgoal(draw: Any, to: str = "Navigator") -> Turn:
    says = f"Find where {draw.file()} is read, and say why. {draw.say()}"
    return Turn("Planner", says=says, to=to, fields=thinks(draw))


def search(draw: Any) -> Use:
    return Use(draw.one_of("code_search", "open_file", "go_to_def"), {"name": draw.file()})


def answer(draw: Any, role: str = "Navigator", *calls: Use) -> Turn:
    return Turn(role, does=calls or [search(draw)], says=draw.say(), fields=thinks(draw))


def edit(draw: Any) -> Turn:
    change = Use("editor", {"path": draw.file(), "patch": draw.say()})
    return Turn("Editor", does=[change], says=draw.say(), fields=thinks(draw))


def lap(draw: Any) -> list[Turn]:
    """A subgoal and its answer."""
    return [subgoal(draw), answer(draw)]


# --- HyperAgent: a step is repeated -----------------------------------------------------------


def same_search_in_a_row(draw: Any) -> list[Turn]:
    call = search(draw)
    return [*lap(draw), subgoal(draw), answer(draw, "Navigator", call, call), *lap(draw)]


def same_search_after_another(draw: Any) -> list[Turn]:
    call = search(draw)
    return [subgoal(draw), answer(draw, "Navigator", call, search(draw), call), *lap(draw)]


def same_subgoal_after_its_answer(draw: Any) -> list[Turn]:
    again = subgoal(draw)
    return [again, answer(draw), *lap(draw), again, answer(draw)]


def nearly_the_same_subgoal(draw: Any) -> list[Turn]:
    first = subgoal(draw)
    said = f"Please find the place in {draw.file()} where the total is made, and tell me how."
    first = Turn("Planner", says=said, to="Navigator", fields=thinks(draw))
    again = Turn("Planner", says=f"{said} Thanks.", to="Navigator", fields=thinks(draw))
    return [first, answer(draw), *lap(draw), again, answer(draw)]


def same_thought_twice(draw: Any) -> list[Turn]:
    thought = thinks(draw)
    first, second = (
        Turn("Planner", says=subgoal(draw).says, to="Navigator", fields=thought) for _ in "12"
    )
    return [*lap(draw), first, answer(draw), second, answer(draw)]


def begun_again(draw: Any) -> list[Turn]:
    """Set up again, and the first turns are taken once more, although a file was edited."""
    begin = lap(draw)
    return [*begin, subgoal(draw, "Editor"), edit(draw), Turn(SET_UP), *begin]


def stuck_in_one_response(draw: Any) -> list[Turn]:
    """Half of the log is one response, word for word: no logger does that."""
    thought = {THINKS: paragraph(draw)}
    again = [Turn("Navigator", fields=thought)] * 8
    return [*lap(draw), *lap(draw), subgoal(draw), *again, answer(draw)]


def same_search_after_a_reset(draw: Any) -> list[Turn]:
    """Other words lead to the same search, which was done before the system was set up again."""
    call = search(draw)
    first = [subgoal(draw), answer(draw, "Navigator", call), *lap(draw)]
    return [*first, Turn(SET_UP), subgoal(draw), answer(draw, "Navigator", call)]


REPEATED = [
    stuck_in_one_response,
    same_search_after_a_reset,
    same_search_in_a_row,
    same_search_after_another,
    same_subgoal_after_its_answer,
    nearly_the_same_subgoal,
    same_thought_twice,
    begun_again,
]

# --- HyperAgent: none is ----------------------------------------------------------------------


def plain_work(draw: Any) -> list[Turn]:
    turns = lap(draw)
    for _ in range(draw.number(1, 4)):
        turns += draw.one_of(lap(draw), [subgoal(draw, "Editor"), edit(draw)])
    return turns


def same_tests_after_an_edit(draw: Any) -> list[Turn]:
    run = Use("bash", {"command": "pytest -q tests"})
    ask = Turn("Planner", says="Run all the tests in the folder tests again.", to="Executor")
    return [
        Turn("Planner", says=ask.says, to="Executor", fields=thinks(draw)),
        answer(draw, "Executor", run),
        subgoal(draw, "Editor"),
        edit(draw),
        Turn("Planner", says=ask.says, to="Executor", fields=thinks(draw)),
        answer(draw, "Executor", run),
    ]


def one_page_after_the_other(draw: Any) -> list[Turn]:
    turns: list[Turn] = []
    for page in range(1, 4):
        says = f"Open page {page} of the report about the parser and sum up what it says."
        turns.append(Turn("Planner", says=says, to="Navigator", fields=thinks(draw)))
        turns.append(answer(draw, "Navigator", Use("open_file", {"page": page})))
    return turns


def same_search_for_another_subgoal(draw: Any) -> list[Turn]:
    call = search(draw)
    return [
        subgoal(draw),
        answer(draw, "Navigator", call),
        subgoal(draw),
        answer(draw, "Navigator", call, search(draw)),
    ]


def same_search_by_another(draw: Any) -> list[Turn]:
    call = search(draw)
    return [
        subgoal(draw),
        answer(draw, "Navigator", call),
        subgoal(draw, "Executor"),
        answer(draw, "Executor", call),
    ]


def thanks(draw: Any) -> list[Turn]:
    """The same short words, and other work each time."""
    return [
        turn
        for _ in range(3)
        for turn in (
            Turn("Planner", says=subgoal(draw).says, to="Navigator", fields={THINKS: "Good work."}),
            Turn("Navigator", does=[search(draw)], says="Done.", fields={THINKS: "Let me look."}),
        )
    ]


CLEAN = [
    plain_work,
    same_tests_after_an_edit,
    one_page_after_the_other,
    same_search_for_another_subgoal,
    same_search_by_another,
    thanks,
]

# --- chats ------------------------------------------------------------------------------------


def ask(draw: Any) -> Turn:
    return Turn(USER, says=paragraph(draw))


def code(draw: Any) -> Use:
    return Use("compute", {"what": draw.say(), "limit": draw.number(1, 99)})


def talk(draw: Any, *roles: str) -> list[Turn]:
    return [Turn(role, says=f"{draw.say()} {draw.say()}") for role in roles]


def paragraph_again(draw: Any) -> list[Turn]:
    said = Turn("solver", says=paragraph(draw))
    return [ask(draw), *talk(draw, "checker"), said, *talk(draw, "checker"), said]


def nearly_the_same_paragraph(draw: Any) -> list[Turn]:
    """A model says the same again, with a word more or less."""
    words = paragraph(draw)
    before, _, after = words.rpartition(" the ")
    again = f"{before} that {after}"
    said = [Turn("solver", says=text) for text in (words, again)]
    return [ask(draw), *talk(draw, "checker"), said[0], *talk(draw, "checker"), said[1]]


def code_again(draw: Any) -> list[Turn]:
    wrote = Turn("coder", does=[code(draw)], says=draw.say())
    again = Turn("coder", does=wrote.does, says=draw.say())
    return [ask(draw), wrote, *talk(draw, "reviewer"), again, *talk(draw, "reviewer")]


def two_in_a_loop(draw: Any) -> list[Turn]:
    one, two = Turn("solver", says=paragraph(draw)), Turn("checker", says=paragraph(draw))
    return [ask(draw), *[one, two] * 3]


def chat(draw: Any) -> list[Turn]:
    turns = [ask(draw)]
    for _ in range(draw.number(2, 5)):
        turns += [Turn("solver", does=[code(draw)], says=paragraph(draw))]
        turns += talk(draw, "checker", "solver")
    return turns


def go_on(draw: Any) -> list[Turn]:
    turns = [ask(draw)]
    for _ in range(draw.number(2, 4)):
        turns += [Turn("solver", says=paragraph(draw))]
        turns += [Turn("checker", says="Continue. Please keep solving the problem until the end.")]
    return turns


def automatic_answers(draw: Any) -> list[Turn]:
    """A program that has one long answer for everything, from the first turn on."""
    always = Turn("terminal", says=paragraph(draw))
    return [ask(draw), *(turn for _ in range(3) for turn in (always, *talk(draw, *"abc")))]


def reports_of_one_form(draw: Any) -> list[Turn]:
    """The same report each time, with another number or name in it."""
    form = (
        "Here is the report of this round, in the form that we have agreed upon at the beginning "
        "of the work, so that everybody can compare it with the reports of the rounds before it: "
        "the file is {file}, {count} of its checks have passed, and nothing else has changed since."
    )
    turns = [ask(draw)]
    for count in range(3):
        said = form.format(file=draw.file(), count=count)
        turns += [Turn("solver", says=said), *talk(draw, "checker")]
    return turns


def code_by_another(draw: Any) -> list[Turn]:
    same = [code(draw)]
    said = [Turn(role, does=same, says=draw.say()) for role in ("coder", "tester")]
    return [ask(draw), *said, *talk(draw, "coder")]


def code_quoted(draw: Any) -> list[Turn]:
    """Code of the task, and of another, is quoted again and again."""
    task = Turn(USER, does=[code(draw)], says=paragraph(draw))
    wrote = Turn("coder", does=[code(draw)], says=draw.say())
    quoting = [
        Turn("reviewer", does=[*task.does, *wrote.does], says=f"{draw.say()} {draw.say()}")
        for _ in range(3)
    ]
    return [task, wrote, quoting[0], *talk(draw, "coder"), quoting[1], quoting[2]]


def another_version(draw: Any) -> list[Turn]:
    turns = [ask(draw)]
    for version in range(3):
        call = Use("compute", {"what": "the total of all rows", "limit": version})
        turns += [Turn("coder", does=[call], says="Here is the code."), *talk(draw, "reviewer")]
    return turns


CHATS_REPEATED = [paragraph_again, nearly_the_same_paragraph, code_again, two_in_a_loop]
CHATS_CLEAN = [
    chat,
    go_on,
    automatic_answers,
    reports_of_one_form,
    code_by_another,
    code_quoted,
    another_version,
]

# --- resets -----------------------------------------------------------------------------------


def set_up_again(draw: Any) -> list[Turn]:
    return [*lap(draw), *lap(draw), Turn(SET_UP), *lap(draw)]


def begun_again_without_a_line(draw: Any) -> list[Turn]:
    begin = lap(draw)
    return [*begin, *lap(draw), *lap(draw), *begin]


def same_subgoal_in_the_middle(draw: Any) -> list[Turn]:
    """The second lap comes again: repetition, and no new beginning."""
    again = lap(draw)
    return [*lap(draw), *again, *lap(draw), *again]


def set_up_once(draw: Any) -> list[Turn]:
    return [Turn(SET_UP), *plain_work(draw)]


def chat_begun_again(draw: Any) -> list[Turn]:
    begin = [ask(draw), Turn("solver", says=paragraph(draw))]
    return [*begin, *talk(draw, "checker", "solver", "checker", "solver"), *begin[1:]]


def chat_started_over_for_a_reason(draw: Any) -> list[Turn]:
    begin = [ask(draw), Turn("solver", says=paragraph(draw))]
    why = Turn("checker", says="This is refuted by the second row. Start over, please.")
    return [*begin, *talk(draw, "checker", "solver", "checker", "solver"), why, begin[1]]


@pytest.fixture
def score(draw_of: Callable[[str], Any], tmp_path: Path) -> Callable[..., Score]:
    """Score a detector on logs of one format."""

    def run(detector: Any, kind: str, positive: list[Family], negative: list[Family]) -> Score:
        result = Score()
        render, ending = RENDERINGS[kind]
        path = tmp_path / f"run{ending}"
        for planted, families in ((True, positive), (False, negative)):
            for family in families:
                for seed in range(SEEDS):
                    name = f"{kind}/{family.__name__}/{seed}"
                    path.write_text(render(Script(family(draw_of(name)))))
                    trajectory = formats.read(path)
                    mode = detector.modes[0]
                    result.add(detector, mode, trajectory, planted=planted, name=name)
        return result

    return run


def holds(score: Score) -> None:
    assert score.recall >= 0.95, score.missed
    assert score.false_positives <= 0.02, score.invented


def test_repetitions_are_found_in_hyperagent_logs(score: Callable[..., Score]) -> None:
    holds(score(Repetition(), "hyperagent", REPEATED, CLEAN))


@pytest.mark.parametrize("kind", ["ag2", "metagpt"])
def test_repetitions_are_found_in_chats(score: Callable[..., Score], kind: str) -> None:
    holds(score(Repetition(), kind, CHATS_REPEATED, CHATS_CLEAN))


def test_resets_are_found_in_hyperagent_logs(score: Callable[..., Score]) -> None:
    positive = [set_up_again, begun_again_without_a_line, begun_again]
    negative = [set_up_once, *CLEAN, same_search_in_a_row, same_subgoal_in_the_middle]
    holds(score(Reset(), "hyperagent", positive, negative))


@pytest.mark.parametrize("kind", ["ag2", "metagpt"])
def test_resets_are_found_in_chats(score: Callable[..., Score], kind: str) -> None:
    negative = [chat_started_over_for_a_reason, *CHATS_CLEAN, *CHATS_REPEATED]
    holds(score(Reset(), kind, [chat_begun_again], negative))


def test_a_logger_with_two_handlers_repeats_nothing(
    draw_of: Callable[[str], Any], tmp_path: Path
) -> None:
    """Every record stands in the log twice: that is the logger's doing."""
    render, ending = RENDERINGS["hyperagent"]
    for seed in range(SEEDS):
        text = render(Script(plain_work(draw_of(f"twice {seed}"))))
        records = text.replace("HyperAgent_", "\0HyperAgent_").split("\0")
        path = tmp_path / f"run{ending}"
        path.write_text("".join(record * 2 for record in records))
        (finding,) = Repetition().judge(formats.read(path))
        assert finding.verdict == "absent", finding
