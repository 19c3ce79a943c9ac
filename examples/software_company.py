"""A software company writes a small program: `--cyclic` until the CTO signs off.

Its code and its tests run in a sandbox (bubblewrap). Without `--model` a stand-in answers
for the team: its engineer makes one mistake, which the tests find.
"""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

from rolecraft import FunctionModel, Limits, Model, Team
from rolecraft.environments.program_development import ENTRY_POINT, PROGRAMS, ProgramTasks
from rolecraft.models import ModelCall, resolve_model
from rolecraft.roles.ready.software_company import HIERARCHY, cyclic_company
from rolecraft.roles.ready.source_files import files_in, write_files
from rolecraft.scenarios import Episode
from rolecraft.scenarios.software_company import (
    ROUNDS,
    software_company,
    software_company_cyclic,
)


def company_that_knows(program: str) -> FunctionModel:
    """A stand-in for a model: a team that knows the program, and makes one mistake.

    Its engineer first reads only one line of the input, and its first tests try the customer's own
    example alone, which the CTO of the cyclic form does not accept.
    """
    known = PROGRAMS[program]
    files = known.files
    mistake = files[ENTRY_POINT].replace("stdin.read()", "stdin.readline()")
    (unseen,) = ProgramTasks(hidden=1).task(program, seed=1).data["tests"]
    few = {known.example: known.solve(known.example)}
    more = {**few, unseen["stdin"]: unseen["stdout"]}
    requirements = {"product": program, "requirements": known.asked.strip().split("\n\n")}
    design = {
        "approach": "The rules are one function from text to text.",
        "entry_point": ENTRY_POINT,
        "files": [
            {
                "path": "rules.py",
                "purpose": "from the input to the output",
                "interface": f"{known.solve.__name__}(text: str) -> str",
            },
            {"path": ENTRY_POINT, "purpose": "reads the input and prints the output"},
        ],
    }
    tasks = [{"path": path, "instruction": f"Write {path} as designed."} for path in files]

    def answer(call: ModelCall) -> str | dict[str, Any]:
        asked = call.messages[-1].content
        match call.role:
            case "ProductManager":
                return requirements
            case "Architect":
                return design
            case "ProjectManager":
                return {"tasks": tasks}
            case "Engineer" if "Summarise what the files do" in asked:
                return {"summary": "main.py hands its input to the rules and prints the result."}
            case "Engineer" if "the file `rules.py`" in asked:
                return files["rules.py"]
            case "Engineer" | "QaEngineer" if "Mend this" in asked:
                return files[ENTRY_POINT]
            case "Engineer":
                return mistake
            case "QaEngineer" if "Find out why" in asked:
                return finding("code", ENTRY_POINT, "it reads only the first line of its input")
            case "QaEngineer" if "Your tests so far are wrong" in asked:
                return unit_tests(more)
            case "QaEngineer":
                return unit_tests(few)
            case _ if repr(unseen["stdin"]) in asked:
                return {"approved": True, "reason": "Each sentence has its code and its test."}
            case _:
                missing = "only the customer's own example is tested; test one more"
                return {
                    "approved": False,
                    "reason": "The tests are too few.",
                    **finding("test", "test_program.py", missing),
                }

    def as_said(call: ModelCall) -> str:
        said = answer(call)
        return f"```python\n{said}```" if isinstance(said, str) else json.dumps(said)

    return FunctionModel(as_said, name="stand-in")


def finding(concerns: str, path: str, problem: str) -> dict[str, Any]:
    return {"findings": [{"concerns": concerns, "path": path, "problem": problem}]}


def unit_tests(cases: dict[str, str]) -> str:
    return f"""\
import subprocess
import sys
import unittest


class Test(unittest.TestCase):
    def test_examples(self):
        for given, expected in {cases!r}.items():
            with self.subTest(given):
                run = subprocess.run(
                    [sys.executable, "main.py"], input=given, text=True, capture_output=True
                )
                self.assertEqual(run.stdout, expected, run.stderr)
"""


def team(model: Model | str | None = None) -> Team:
    """The cyclic company, for a wish of your own; without a model it knows how to write snake."""
    return Team(
        cyclic_company(),
        model=model or company_that_knows("snake"),
        limits=Limits(rounds=ROUNDS),
        may_finish=HIERARCHY.heads,
    )


async def play(
    program: str = "snake",
    *,
    folder: Path,
    cyclic: bool = False,
    model: str | None = None,
    seed: int = 0,
) -> Episode:
    """Let the company write `program`; files, journal and diagram are then in `folder`."""
    scenario = software_company_cyclic if cyclic else software_company
    answers = resolve_model(model) if model is not None else company_that_knows(program)
    try:
        episode = await scenario.play(
            ProgramTasks().task(program, seed=seed), model=answers, journal=folder / "run.jsonl"
        )
    finally:
        await answers.aclose()
    write_files(files_in(episode.trajectory), folder / "files")
    (folder / "run.mmd").write_text(episode.trajectory.sequence_diagram(), encoding="utf-8")
    return episode


def folder_in(runs: Path, program: str) -> Path:
    """A new folder `runs/program-1`, or the next number that is free."""
    names = (runs / f"{program}-{number}" for number in count(1))
    folder = next(name for name in names if not name.exists())
    folder.mkdir(parents=True)
    return folder


if __name__ == "__main__":
    from _options import finish, parse, parser, report

    arguments = parser()
    arguments.add_argument("--cyclic", action="store_true", help="round until the CTO signs off")
    arguments.add_argument("--program", choices=PROGRAMS, default="snake", help="what to write")
    arguments.add_argument("--seed", type=int, default=0, help="which hidden tests to draw (0)")
    arguments.set_defaults(save=Path("runs"))
    options = parse(arguments)
    folder = folder_in(options.save, options.program)
    episode = finish(
        play(
            options.program,
            folder=folder,
            cyclic=options.cyclic,
            model=options.model,
            seed=options.seed,
        )
    )
    report(episode.trajectory, options, reward=episode.reward.value)
    print(f"The program:  {folder / 'files'}\nThe journal:  {folder / 'run.jsonl'}")
    print(f"Who told whom what, as a Mermaid diagram:  {folder / 'run.mmd'}")
