"""On a real package: what is valid holds in grading, and nothing but the reference does."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from rolecraft.environments.software_engineering.examples import fetch, packages
from rolecraft.environments.software_engineering.examples.fetch import PackagesUnavailable
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.planning.make import make_plan
from rolecraft.synthesis.planning.settings import PlanSettings
from rolecraft.synthesis.planting import plant
from rolecraft.synthesis.validation import Tally, candidates_of, validate_folder
from rolecraft.synthesis.validation.checking import check


@pytest.mark.slow
async def test_valid_bugs_of_sqlparse_hold_in_grading(tmp_path: Path, needs_program: Any) -> None:
    needs_program("bwrap", package="bubblewrap")
    try:
        fetched = fetch()
    except PackagesUnavailable as error:
        pytest.skip(str(error))
    folder = SynthesisFolder(tmp_path / "out")
    settings = PlanSettings(environment=fetched.environment)
    plan = await make_plan(fetched.source(packages()["sqlparse"]), folder, settings=settings)
    plant(plan, folder, most=40)
    async with aclosing(validate_folder(folder, stop_after=15)) as running:
        verdicts = {each.candidate: each async for each in running}
    tally = Tally.of(folder)
    assert tally.valid == 15
    assert tally.within(0.2) == 1.0
    assert tally.statuses["flaky"] == tally.statuses["does_not_apply"] == 0
    valid = [(each, verdicts[each.id]) for each in candidates_of(folder) if each.id in verdicts]
    tasks = [task for task in valid if task[1].is_valid][::5]
    async with aclosing(check(plan, tasks, again=2, cheat=1)) as proving:
        proved = [each async for each in proving]
    assert [each.problems for each in proved] == [()] * 3
    assert {(each.resolved, each.empty_resolved, each.cheats) for each in proved} == {(2, 0, ())}
