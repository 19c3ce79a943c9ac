"""What is appended to a ledger can always be read again, whatever text it has.

A test whose message had half of a character (of a file name, by `surrogateescape`) closed a folder
for good: its line could be written and not be read, not even to begin anew.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft.errors import JournalError
from rolecraft.rollouts.batch.ledger import Entry
from rolecraft.rollouts.batch.ledger import Ledger as BatchLedger
from rolecraft.rollouts.batch.ledger import entries as batch_entries
from rolecraft.synthesis.difficulty.attempts import Attempt
from rolecraft.synthesis.gathering.gather import gather
from rolecraft.synthesis.gathering.tasks import gathered_tasks
from rolecraft.synthesis.ledger import Ledger, read_ledger
from rolecraft.synthesis.texts.describe import describe
from rolecraft.synthesis.texts.text import IssueText
from rolecraft.synthesis.verdicts import Verdict

HALF = "too long: caf\udce9"


# Two halves in a row mean their character, in JSON as elsewhere: see the test of these.
TEXT = st.text(st.characters(exclude_categories=()) | st.characters(categories=["Cs"])).filter(
    lambda text: not re.search("[\ud800-\udbff][\udc00-\udfff]", text)
)


@given(TEXT)
def test_any_text_survives_append_and_reading(text: str) -> None:
    verdict = Verdict(candidate=f"c{text}", status="flaky", why=text, messages={text: text})
    said = IssueText(task=text, text=text, source="model", why=text)
    with tempfile.TemporaryDirectory() as place:
        verdicts, texts = Path(place, "verdicts.jsonl"), Path(place, "texts.jsonl")
        for _ in range(2):  # the second time it is read, and then written behind
            with Ledger(verdicts, Verdict, key=lambda each: each.candidate) as ledger:
                ledger.append(verdict)
                assert ledger[verdict.candidate] == verdict
            with Ledger(texts, IssueText, key=lambda each: each.task) as ledger:
                ledger.append(said)
        assert [*read_ledger(verdicts, Verdict, key=lambda each: each.candidate)] == [verdict]
        assert [*read_ledger(texts, IssueText, key=lambda each: each.task)] == [said]


@given(TEXT)
def test_any_text_survives_in_the_ledger_of_a_batch(text: str) -> None:
    entry = Entry(row="0" * 64, error=text, ended=text, invented=(text,))
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "ledger.jsonl")
        with BatchLedger(path) as ledger:
            ledger.append(entry)
        with BatchLedger(path) as ledger:
            assert (len(ledger), ledger.repairs.broken) == (1, [])
        assert [*batch_entries(path)] == [entry]


def test_two_halves_in_a_row_come_back_as_their_character(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.jsonl"
    verdict = Verdict(candidate="c", status="flaky", why="\ud83d\ude00")
    with Ledger(path, Verdict, key=lambda each: each.candidate) as ledger:
        ledger.append(verdict)
        assert ledger["c"] == replace(verdict, why="\U0001f600")


def test_a_line_that_is_none_is_named_with_the_way_out_and_that_way_leads_out(
    tmp_path: Path,
) -> None:
    path = tmp_path / "pass_rates.jsonl"
    attempts = [Attempt(task=name, solver="s", number=1, resolved=True) for name in "ab"]
    with Ledger(path, Attempt, key=lambda each: each.key) as ledger:
        for each in attempts:
            ledger.append(each)
    first, second = path.read_bytes().splitlines(keepends=True)
    for broken in (b"\n", b"{}\n", b"[1]\n", b'{"task": \xff}\n', b"[" * 100_000 + b"\n"):
        path.write_bytes(first + broken + second)
        with pytest.raises(JournalError, match=r"line 2 is none of its lines: .+ Take that line"):
            Ledger(path, Attempt, key=lambda each: each.key)
    path.write_bytes(first + second)
    with Ledger(path, Attempt, key=lambda each: each.key) as ledger:
        assert [*ledger] == attempts


def test_a_line_that_lacks_something_is_told_what_it_lacks(tmp_path: Path) -> None:
    """ "Field required" was all that somebody heard whose own text had no `text`."""
    path = tmp_path / "texts.jsonl"
    path.write_text('{"task": "a", "source": "given"}\n')
    with pytest.raises(JournalError, match="line 1 is none of its lines: `text`: Field required"):
        list(read_ledger(path, IssueText, key=lambda each: each.task))


def test_a_new_ledger_does_not_look_at_what_it_forgets(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.jsonl"
    path.write_text("not one line of a ledger\n")
    with Ledger(path, Verdict, key=lambda each: each.candidate, new=True) as ledger:
        assert len(ledger) == 0
        ledger.append(Verdict(candidate="c", status="valid"))
    (found,) = read_ledger(path, Verdict, key=lambda each: each.candidate)
    assert found.candidate == "c"


async def test_half_a_character_in_a_failure_or_a_text_goes_through_all_later_steps(
    three_bugs: Any, needs_program: Any
) -> None:
    needs_program("git", package="git")
    made = three_bugs()
    first, second, third = made.ids
    with Ledger(made.folder.verdicts, Verdict, key=lambda each: each.candidate) as ledger:
        fails = ledger[first].fail_to_pass
        ledger.append(replace(ledger[first], messages={fails[0]: f"E   ValueError: {HALF}"}))
        parameter = f"{ledger[third].fail_to_pass[0]}[{HALF}]"
        ledger.append(replace(ledger[third], fail_to_pass=(parameter,)))
    made.say(second, f"It says {HALF}.", source="model")
    await describe(made.folder, again=False)
    assert gather(made.folder).tasks == 3
    tasks = gathered_tasks(made.folder).instances
    assert tasks[second].problem == "It says too long: caf\\udce9."
    assert tasks[third].fail_to_pass == (parameter,)
