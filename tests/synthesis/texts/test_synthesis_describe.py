"""Texts are written once for each valid candidate, within a budget, and checked before that."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from rolecraft import FunctionModel
from rolecraft.errors import ModelUnavailable, UsageError
from rolecraft.models import Completion
from rolecraft.synthesis.candidates import Candidate
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.ledger import Ledger
from rolecraft.synthesis.texts.alike import alike, gist
from rolecraft.synthesis.texts.describe import describe
from rolecraft.synthesis.texts.telling import NOT_READ, SILENT, TELLS_TOO_MUCH
from rolecraft.synthesis.texts.text import IssueText
from rolecraft.trajectories.events import Usage

GOOD = "# Texts come out too short\n\nI shorten a text to 9 characters and one more is missing.\n"
LEAKY = "# Texts come out too short\n\nThe function cut in inner.py takes one character too many.\n"


class Writer(FunctionModel):
    """Answers with these texts, one after the other, at a price."""

    def __init__(self, *answers: str, usd: float = 0.01) -> None:
        super().__init__(self._next, name="writer")
        self.left, self.asked, self.usd = list(answers), [], usd

    def _next(self, call):
        self.asked.append("\n".join(message.content for message in call.messages))
        text = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        return Completion(text=text, usage=Usage(10, 10, self.usd, 1))

    def estimate_usd(self, session, sampling, tools=()):
        return self.usd


def _named(text: str, candidate: Candidate) -> set[str]:
    """What a text names of a bug's place, looked for as a reader would: not by the leak check."""
    path, _, qualified = candidate.entity.partition("::")
    module = path.removesuffix(".py").replace("/", ".")
    names = {*qualified.split("."), path.rpartition("/")[2], module}
    return {name for name in names if re.search(rf"\b{re.escape(name)}\b", text)}


async def test_no_shipped_text_of_the_small_project_has_a_name_of_what_was_changed(phrases):
    planted = [phrases.plant(name)[0] for name, traceback in phrases.said if traceback == "native"]
    found = await describe(phrases.folder)
    assert found.written["template"] == len(planted)
    for candidate in planted:
        assert _named(phrases.texts[candidate.id].text, candidate) == set()


def test_a_reader_finds_names_in_a_leaky_text(phrases):
    """The test above sees what it looks for."""
    inner, _ = phrases.plant("inner value")
    method, _ = phrases.plant("method")
    assert _named(LEAKY, inner) == {"cut", "inner.py"}
    assert _named(GOOD, inner) == set()
    assert _named("AttributeError: 'Tally' object", method) == {"Tally"}


async def test_a_text_that_is_there_is_kept_unless_it_is_to_be_written_again(phrases):
    candidate, _ = phrases.plant("inner value")
    with Ledger(phrases.folder.texts, IssueText, key=lambda each: each.task) as texts:
        texts.append(IssueText(task=candidate.id, text="Mine.", source="given"))
    found = await describe(phrases.folder)
    assert (found.total, found.kept) == (0, 1)
    assert phrases.texts[candidate.id].text == "Mine."
    await describe(phrases.folder, again=True)
    assert phrases.texts[candidate.id].source == "template"


async def test_a_model_is_told_the_symptom_and_not_the_patch(phrases):
    candidate, _ = phrases.plant("inner value")
    model = Writer(GOOD)
    found = await describe(phrases.folder, model=model)
    text = phrases.texts[candidate.id]
    assert (text.source, text.model, text.usd) == ("model", "writer", 0.01)
    assert text.text == GOOD
    assert found.usd == pytest.approx(0.01)
    (asked,) = model.asked
    assert "phrases.shorten" in asked
    assert "Phrases shortens texts" in asked
    assert "length - 1" not in asked
    assert "test_" not in asked
    assert "badge" not in asked


async def test_a_model_that_gives_the_solution_away_is_told_what_and_asked_once_more(phrases):
    candidate, _ = phrases.plant("inner value")
    model = Writer(LEAKY, GOOD)
    await describe(phrases.folder, model=model)
    text = phrases.texts[candidate.id]
    assert text.source == "model"
    assert text.usd == pytest.approx(0.02)
    assert {leak.kind for leak in text.leaks} == {"entity", "file"}
    assert "inner.py" in model.asked[1].rpartition("cannot be used")[2]


async def test_a_model_that_gives_it_away_twice_is_replaced_by_a_template(phrases):
    candidate, _ = phrases.plant("inner value")
    model = Writer(LEAKY)
    await describe(phrases.folder, model=model)
    text = phrases.texts[candidate.id]
    assert (text.source, text.model, len(model.asked)) == ("template", "writer", 2)
    assert "phrases.shorten" in text.text
    assert text.leaks
    assert "gives away" in text.why


@pytest.mark.parametrize("answer", ["No.", "x" * 7000])
async def test_an_answer_that_is_no_report_is_not_used(phrases, answer):
    candidate, _ = phrases.plant("inner value")
    await describe(phrases.folder, model=Writer(answer, GOOD))
    assert phrases.texts[candidate.id].text == GOOD


async def test_a_budget_ends_it_and_the_next_call_goes_on(phrases):
    for number in range(5):
        phrases.plant("inner value", number=number)
    found = await describe(phrases.folder, prove=False, model=Writer(GOOD), usd=0.025, at_once=1)
    assert found.written["model"] == 2
    assert found.stopped
    again = await describe(phrases.folder, prove=False, model=Writer(GOOD), usd=0.025, at_once=1)
    assert (again.total, again.kept) == (0, 2), "what was spent before counts"
    rest = await describe(phrases.folder, prove=False, model=Writer(GOOD), usd=1.0)
    assert (rest.total, rest.stopped) == (3, "")
    assert len(phrases.texts) == 5


async def test_a_model_that_does_not_answer_leaves_the_task_for_the_next_call(phrases):
    candidate, _ = phrases.plant("inner value")

    def refuses(call):
        raise ModelUnavailable("overloaded", model="m")

    found = await describe(phrases.folder, prove=False, model=FunctionModel(refuses))
    assert "overloaded" in found.failed[candidate.id]
    assert candidate.id not in phrases.texts
    assert (await describe(phrases.folder, prove=False, model=Writer(GOOD))).total == 1


async def test_a_task_of_which_nothing_can_be_said_is_counted_and_not_asked_again(phrases):
    candidate, _ = phrases.plant("inner value")
    _says(phrases, {})
    found = await describe(phrases.folder)
    assert found.without == {candidate.id: SILENT}
    assert not phrases.texts[candidate.id].has_text
    assert phrases.texts[candidate.id].why == SILENT
    assert (await describe(phrases.folder)).kept == 1
    model = Writer(GOOD)
    assert (await describe(phrases.folder, model=model)).without == {candidate.id: SILENT}
    assert not model.asked, "there is nothing to tell it"
    assert len(phrases.folder.texts.read_text().splitlines()) == 1


def _says(phrases, messages: dict[str, str]) -> None:
    """Have this be what the tests of the last verdict print."""
    *rest, line = phrases.folder.verdicts.read_text().splitlines()
    said = json.dumps({**json.loads(line), "messages": messages})
    phrases.folder.verdicts.write_text("\n".join([*rest, said]) + "\n")


def _plant_telling(phrases) -> str:
    """A bug whose test, as one of CTest, prints the name of what was changed."""
    candidate, _ = phrases.plant("method")
    _says(phrases, {"commonest": "most_common gives another word"})
    return candidate.id


async def test_a_task_whose_failure_cannot_be_read_is_not_said_to_give_something_away(phrases):
    """19 of 32 tasks of tabulate were told to name what was changed, and not one did."""
    candidate, verdict = phrases.plant("inner value")
    _says(phrases, dict.fromkeys((f"{test}_gone" for test in verdict.fail_to_pass), "It fails."))
    found = await describe(phrases.folder)
    assert found.without == {candidate.id: NOT_READ}
    assert phrases.texts[candidate.id].leaks == ()


async def test_a_model_is_asked_of_what_templates_could_not_tell_and_of_nothing_else(phrases):
    """It was asked of no task after templates, or with `again` of all of them."""
    telling = _plant_telling(phrases)
    found = await describe(phrases.folder)
    assert found.without == {telling: TELLS_TOO_MUCH}
    assert phrases.texts[telling].leaks
    phrases.plant("inner value")
    await describe(phrases.folder)
    model = Writer(GOOD)
    found = await describe(phrases.folder, model=model)
    assert (found.written["model"], found.kept, len(model.asked)) == (1, 1, 1)
    assert phrases.texts[telling].source == "model"
    await describe(phrases.folder, model=model)
    assert len(model.asked) == 1


async def test_a_model_that_could_not_tell_a_task_either_is_not_asked_again(phrases):
    telling = _plant_telling(phrases)
    model = Writer(GOOD + "It is most_common.")
    for _ in range(2):
        await describe(phrases.folder, model=model)
    assert len(model.asked) == 2, "once, and once more for its leak"
    assert TELLS_TOO_MUCH in phrases.texts[telling].why


async def test_what_replaced_texts_have_cost_counts_towards_the_budget(phrases):
    """Their lines were not read any more, so each `again` began with the whole budget."""
    candidate, _ = phrases.plant("inner value")
    await describe(phrases.folder, prove=False, model=Writer(GOOD))
    found = await describe(phrases.folder, prove=False, model=Writer(LEAKY, GOOD), again=True)
    assert found.usd == pytest.approx(0.02), "what this call took"
    await describe(phrases.folder, prove=False, again=True)
    text = phrases.texts[candidate.id]
    assert (text.source, text.usd) == ("template", None)
    assert text.spent_usd == pytest.approx(0.03)
    spent = await describe(phrases.folder, prove=False, model=Writer(GOOD), usd=0.035, again=True)
    assert (spent.total, bool(spent.stopped)) == (0, True)


async def test_templates_leave_the_event_loop_to_others(phrases):
    for number in range(3):
        phrases.plant("inner value", number=number)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    beside = asyncio.create_task(others())
    found = await describe(phrases.folder, prove=False)
    beside.cancel()
    assert found.total == 3
    assert turns >= 3


async def test_bugs_that_several_tests_tell_of_are_told_by_different_ones(phrases):
    """Their failing tests have three symptoms; the fourth bug has none of its own left."""
    planted = [phrases.plant("inner error", number=number) for number in range(4)]
    assert len(planted[0][1].messages) == 3
    found = await describe(phrases.folder)
    gists = [gist(phrases.texts[candidate.id].text) for candidate, _ in planted]
    assert (len(set(gists)), found.alike) == (3, 1)
    assert alike(phrases.texts[candidate.id].text for candidate, _ in planted) == found.alike


async def test_texts_come_out_the_same_when_it_was_interrupted_between_them(phrases):
    planted = [phrases.plant("inner error", number=number)[0].id for number in range(3)]
    await describe(phrases.folder)
    whole = phrases.texts
    lines = phrases.folder.texts.read_text().split("\n")
    phrases.folder.texts.write_text(lines[0] + "\n" + lines[1][:20])
    await describe(phrases.folder)
    assert phrases.texts == whole
    await describe(phrases.folder, again=True)
    assert [phrases.texts[name].text for name in planted] == [whole[name].text for name in planted]


async def test_without_verdicts_it_says_what_comes_first(phrases):
    with pytest.raises(UsageError, match="rolecraft synth validate"):
        await describe(phrases.folder)
    with pytest.raises(UsageError, match="no plan"):
        await describe(SynthesisFolder(phrases.folder.path / "none"))


MEASURE = """
import resource, subprocess, sys
done = subprocess.run([sys.executable, "-m", "rolecraft.cli", "synth", "describe", sys.argv[1]],
                      capture_output=True, text=True)
assert done.returncode == 0, done.stderr
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
"""
"""The peak memory of the command, in MiB: of a child that has no other."""


@pytest.mark.slow
def test_peak_memory_does_not_grow_with_the_number_of_tasks(phrases, tmp_path):
    """The issue asks for at most 300 MB, for any number of tasks."""
    candidate, verdict = phrases.plant("inner value")
    peaks: list[float] = []
    for count in (200, 2000):
        folder = SynthesisFolder(tmp_path / str(count))
        folder.path.mkdir()
        phrases.plan.save(folder)
        with folder.candidates.open("w") as candidates, folder.verdicts.open("w") as verdicts:
            for number in range(count):
                name = f"{candidate.id}-{number}"
                candidates.write(json.dumps({**asdict(candidate), "id": name}) + "\n")
                verdicts.write(json.dumps({**asdict(verdict), "candidate": name}) + "\n")
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, str(folder.path)],
            capture_output=True,
            text=True,
            timeout=580,
        )
        assert done.returncode == 0, done.stderr
        assert len(Path(folder.texts).read_text().splitlines()) == count
        peaks.append(float(done.stdout))
    assert max(peaks) < 300
    assert peaks[1] - peaks[0] < 20, "ten times the tasks"
