"""The software company's three variants, on one of the 32 programs, with a company that knows it.

In the baseline QA mends what it finds, and badly. The improved prompt makes the engineer right at
once. In the cycle the engineer mends, and well.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from rolecraft import FunctionModel
from rolecraft.environments.program_development import ENTRY_POINT, PROGRAMS, program_dev
from rolecraft.experiments import experiment, software_company_variants
from rolecraft.experiments.variants import LOOK_AT_THE_EDGES, NOTHING_IS_CLOSED, chosen
from rolecraft.models import ModelCall
from rolecraft.sandboxes import LocalProcess

EXAMPLE = Path(__file__).parents[2] / "examples/software_company.py"


def company() -> FunctionModel:
    spec = importlib.util.spec_from_file_location("software_company_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    knows = module.company_that_knows("snake")
    right = PROGRAMS["snake"].files[ENTRY_POINT]
    wrong = right.replace("stdin.read()", "stdin.readline()")

    def answer(call: ModelCall) -> str:
        system, said = call.messages[0].content, knows._function(call)
        assert isinstance(said, str)
        if call.role == "QaEngineer" and right in said:
            return f"```python\n{wrong}```"
        if call.role == "Engineer" and NOTHING_IS_CLOSED in system and wrong in said:
            return f"```python\n{right}```"
        return said

    return FunctionModel(answer, name="company")


async def test_each_variant_does_what_it_is_there_for(tmp_path: Path) -> None:
    tasks = [task for task in program_dev() if task.id == "snake"]
    results = await experiment(
        variants=software_company_variants(sandbox=LocalProcess()),
        tasks=tasks,
        model=company(),
        folder=tmp_path,
        concurrency=2,
    )
    assert results.complete
    assert [row.correct for row in results.rows] == [0, 100, 100]
    stops = {name: runs[0].stop for name, runs in results.played.items()}
    assert stops == {"baseline": "idle", "prompt": "idle", "topology": "finished"}


def test_the_improved_prompt_changes_what_is_said_and_nothing_else() -> None:
    baseline, prompt, topology = software_company_variants()
    before = {role.name: role for role in baseline.scenario.team()}
    after = {role.name: role for role in prompt.scenario.team()}
    assert before.keys() == after.keys()
    for name, role in before.items():
        assert after[name].constraints != role.constraints
        assert type(after[name]) is type(role)
        assert after[name].addresses == role.addresses
    assert LOOK_AT_THE_EDGES in after["QaEngineer"].system_prompt
    assert "CTO" in {role.name for role in topology.scenario.team()}
    names = [each.name for each in chosen([baseline, prompt, topology], ["topology"])]
    assert names == ["baseline", "topology"]
