"""Grading has the last word on what validation calls valid."""

from __future__ import annotations

import json
import tracemalloc
from contextlib import aclosing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rolecraft.cli.main import app
from rolecraft.synthesis.candidates import Candidate
from rolecraft.synthesis.ledger import Ledger
from rolecraft.synthesis.validation import valid_candidates
from rolecraft.synthesis.validation.checking import Checked, check
from rolecraft.synthesis.verdicts import Verdict


async def checked(small: Any, *tasks: Any, **options: Any) -> list[Checked]:
    async with aclosing(check(small.plan(), tasks, **{"again": 2, **options})) as found:
        return [each async for each in found]


async def test_what_is_valid_is_resolved_by_its_reference_alone(small: Any) -> None:
    bug = small.candidate("number * 2", "number * 3")
    (verdict,) = await small.verdicts(bug)
    (found,) = await checked(small, (bug, verdict), cheat=1)
    assert found.sound, found.problems
    assert (found.resolved, found.empty_resolved, found.flaky, found.cheats) == (2, 0, (), ())
    assert found.tried == 7


async def test_a_verdict_that_does_not_hold_is_told(small: Any) -> None:
    """One names a test that passes with the bug, one keeps a test that fails with it."""
    bug = small.candidate("number * 2", "number * 3")
    (verdict,) = await small.verdicts(bug)
    more = replace(verdict, fail_to_pass=(*verdict.fail_to_pass, small.tests[4]))
    less = replace(verdict, fail_to_pass=verdict.fail_to_pass[1:])
    first, second = await checked(small, (bug, more), (bug, less), again=1)
    assert first.problems == (f"with the bug these pass: {small.tests[4]}",)
    assert second.problems == (f"with the bug these fail as well: {small.tests[0]}",)


async def test_a_test_that_is_not_the_same_each_time_is_told(small: Any) -> None:
    bug = small.candidate("number * 2", "number * 3")
    (verdict,) = await small.verdicts(bug)
    small.write(
        {
            "tests/test_more.py": "import pytest, random\n"
            "@pytest.mark.parametrize('n', range(40))\n"
            "def test_it(n): assert random.random() < 0.5\n"
        }
    )
    small.tests = (*small.tests, *(f"tests/test_more.py::test_it[{n}]" for n in range(40)))
    (found,) = await checked(small, (bug, verdict))
    assert found.flaky
    assert not found.sound


def test_a_folder_without_a_plan_is_told_to_make_one(tmp_path: Path) -> None:
    """It was told to validate, which refused for want of a plan."""
    done = CliRunner().invoke(app, ["synth", "check", str(tmp_path)])
    assert done.exit_code == 2
    assert "There is no plan in" in done.output


def test_the_command_says_so_in_figures(small: Any) -> None:
    small.plan()
    bug = small.candidate("number * 2", "number * 3")
    with Ledger(small.folder.candidates, Candidate, key=lambda each: each.id) as candidates:
        candidates.append(bug)
    runner, out = CliRunner(), str(small.folder.path)
    nothing = runner.invoke(app, ["synth", "check", out])
    assert nothing.exit_code != 0
    assert "rolecraft synth validate" in nothing.output
    validated = runner.invoke(app, ["synth", "validate", out, "--cap", "0.5", "--workers", "1"])
    assert validated.exit_code == 0, validated.output
    assert "1 valid: of 17 tests a bug fails 4 in the middle" in validated.output
    done = runner.invoke(app, ["synth", "check", out, "--again", "1", "--cheats", "0"])
    assert done.exit_code == 0, done.output
    assert "1 of 1 task held: the reference resolves 100.0 % of 1 times" in done.output
    with Ledger(small.folder.verdicts, Verdict, key=lambda each: each.candidate) as verdicts:
        verdicts.append(replace(verdicts[bug.id], fail_to_pass=(small.tests[4],)))
    wrong = runner.invoke(app, ["synth", "check", out, "--again", "1", "--cheats", "0"])
    assert wrong.exit_code == 4
    assert "with the bug these pass" in wrong.output


def test_valid_candidates_are_read_one_at_a_time(small: Any) -> None:
    """All of their verdicts at once were held, with the tracebacks in them."""
    small.plan()
    bug = small.candidate("number * 2", "number * 3")
    line = json.dumps(asdict(Verdict(candidate="?", status="valid", messages={"t": "x" * 100_000})))
    names = [f"{bug.id}-{number}" for number in range(100)]
    with (
        small.folder.verdicts.open("w") as verdicts,
        Ledger(small.folder.candidates, Candidate, key=lambda each: each.id) as candidates,
    ):
        for name in names:
            candidates.append(replace(bug, id=name))
            verdicts.write(line.replace("?", name, 1) + "\n")
    next(valid_candidates(small.folder))  # what is made once, whatever the number
    tracemalloc.start()
    try:
        assert [candidate.id for candidate, _ in valid_candidates(small.folder)] == names
        assert tracemalloc.get_traced_memory()[1] < 10 * len(line)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("given", [["--cap", "0"], ["--cap", "1.5"], ["--time-limit", "0"]])
def test_settings_that_cannot_be_are_refused(small: Any, given: list[str]) -> None:
    small.plan()
    done = CliRunner().invoke(app, ["synth", "validate", str(small.folder.path), *given])
    assert done.exit_code == 2
