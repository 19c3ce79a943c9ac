"""Runs of all scenarios, clean and with a failure that the scripted model was told to make.

The models are the stand-ins of `examples/`, which play every role. `CLEAN` and `PLANTED` have the
runs by name; `benchmarks/planted.py` counts on them too.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rolecraft import FunctionModel, Limits, Model, Trajectory
from rolecraft.environments import Task
from rolecraft.environments.program_development import PROGRAMS, ProgramEnvironment, ProgramTasks
from rolecraft.environments.tutorial import TutorialEnvironment
from rolecraft.failure_taxonomy import annotate
from rolecraft.models import ModelCall
from rolecraft.roles.ready.software_company import HIERARCHY, cyclic_company, software_company
from rolecraft.roles.ready.tutorial_assistant import Language
from rolecraft.sandboxes import Execution, FunctionSandbox, LocalProcess, SandboxCall
from rolecraft.scenarios import debate as debates
from rolecraft.scenarios.maths_chat import FORMS
from rolecraft.scenarios.relay import relay as relay_scenario
from rolecraft.scenarios.tutorial import tutorial_team

EXAMPLES = Path(__file__).parents[3] / "examples"
Change = Callable[[ModelCall, str], str]
Play = Callable[[int], Awaitable[Trajectory]]


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{name}_example", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def as_is(call: ModelCall, text: str) -> str:
    return text


def changed(model: Model, change: Change) -> Model:
    """The stand-in, and what is made of its answers."""
    assert isinstance(model, FunctionModel)
    return FunctionModel(lambda call: change(call, str(model._function(call))), name="stand-in")


# --- the scenarios --------------------------------------------------------------------------------


async def relay(seed: int, change: Change = as_is) -> Trajectory:
    (task,) = relay_scenario.tasks.sample(1, seed=seed)
    model = changed(FunctionModel(example("relay").perfect), change)
    return (await relay_scenario.play(task, model=model)).trajectory


def maths(form: str, change: Change = as_is) -> Play:
    async def play(seed: int) -> Trajectory:
        scenario = FORMS[form](sandbox=LocalProcess())
        (task,) = scenario.tasks.sample(1, seed=seed, split="test")
        model = changed(example("maths_chat").stand_in(), change)
        return (await scenario.play(task, model=model)).trajectory

    return play


def company(*, cyclic: bool, change: Change = as_is, blind: bool = False) -> Play:
    """`blind`: the team's own tests pass whatever the program does."""

    async def play(seed: int) -> Trajectory:
        program = sorted(PROGRAMS)[seed % len(PROGRAMS)]

        def run(call: SandboxCall) -> Execution:
            works = "readline" not in str(call.files["main.py"])
            if "main.py" in call.command:
                right = PROGRAMS[program].solve(call.stdin or "")
                return Execution(exit_code=0, stdout=right if works else "?")
            passes = works or blind
            said = "OK" if passes else "FAILED (failures=1)"
            return Execution(exit_code=int(not passes), stderr=f"Ran 2 tests in 0.1s\n\n{said}\n")

        sandbox = FunctionSandbox(run)
        make = cyclic_company if cyclic else software_company
        options: dict[str, Any] = (
            {"limits": Limits(rounds=30), "may_finish": HIERARCHY.heads} if cyclic else {}
        )
        model = changed(example("software_company").company_that_knows(program), change)
        task = ProgramTasks(hidden=1).task(program, seed=1)
        env = ProgramEnvironment(
            task, make(sandbox=sandbox), sandbox=sandbox, model=model, **options
        )
        return await env.episode()

    return play


def tutorial(language: Language, change: Change = as_is) -> Play:
    async def play(seed: int) -> Trajectory:
        script = example("tutorial_assistant")
        data = {"language": language, "chapters": 2, "words": 4}
        task = Task(f"tutorial-{seed}", script.TASKS[language], data)
        model = changed(FunctionModel(script.script), change)
        return await TutorialEnvironment(task, tutorial_team(language), model=model).episode()

    return play


def debate(form: str, change: Change = as_is) -> Play:
    async def play(seed: int) -> Trajectory:
        scenario = {"panel": debates.panel, "debate": debates.debate}[form]
        (task,) = scenario.tasks.sample(1, seed=seed)
        model = changed(example("panel").stand_in(task), change)
        return (await scenario.play(task, model=model)).trajectory

    return play


# --- clean runs, and what is rightly found in them ------------------------------------------------

NOBODY_CHECKS = {"verification.absent"}
CLEAN: dict[str, tuple[Play, set[str]]] = {
    "relay": (relay, NOBODY_CHECKS),
    "maths chat": (maths("chat"), NOBODY_CHECKS),
    "maths prompt": (maths("prompt"), set()),
    "maths team": (maths("team"), set()),
    "maths voting": (maths("voting"), set()),
    "software company": (company(cyclic=False), set()),
    "software company, cyclic": (company(cyclic=True), set()),
    "tutorial": (tutorial("English"), set()),
    "tutorial, Chinese": (tutorial("Chinese"), set()),
    "panel": (debate("panel"), NOBODY_CHECKS),
    "debate": (debate("debate"), NOBODY_CHECKS),
}
"""Each scenario, with the modes that its clean runs do have: relay, chat and debates have nobody
who checks the answer."""


# --- failures that the model is told to make ------------------------------------------------------


def other_register(call: ModelCall, text: str) -> str:
    return "abcd"[("abcd".index(text) + 1) % 4] if call.role == "planner" else text


def wrong_though_checked(call: ModelCall, text: str) -> str:
    return text.replace("\\boxed{", "\\boxed{7") if call.role == "Assistant" else text


def accepts_anything(call: ModelCall, text: str) -> str:
    """The verifier takes whatever the solver said first, and that is wrong."""
    if call.role != "Verifier":
        return text
    said = call.messages[-1].content.split("\\boxed{")[1].split("}")[0]
    return json.dumps({"reason": "It is plausible.", "accepted": True, "answer": said})


def solver_writes_code(call: ModelCall, text: str) -> str:
    if call.role != "Solver":
        return text
    return f"{text}\n```python\nhave = 12\nhave -= 3\nprint(have * 2)\n```"


def never_mends(call: ModelCall, text: str) -> str:
    return text.replace("stdin.read()", "stdin.readline()")


def claims_tests(call: ModelCall, text: str) -> str:
    return f"I have run all the tests.\n{text}" if call.role == "Ben" else text


def speaks_for_ben(call: ModelCall, text: str) -> str:
    first = call.role == "Ann" and "Ben: " not in call.messages[-1].content
    return f"{text}\n\nBen: I was wrong, and I grant all of it." if first else text


def ignores_comments(call: ModelCall, text: str) -> str:
    """The author hands in the chapter that the reviewer wanted changed, as it was."""
    asked = call.messages[-1].content
    if "<chapter>" not in asked:
        return text
    return asked.split("<chapter>\n")[1].split("\n</chapter>")[0]


def never_accepts(call: ModelCall, text: str) -> str:
    if call.role != "Reviewer":
        return text
    comment = {"about": "The program", "text": "show one more example"}
    return json.dumps({"checked": ["all"], "accepted": False, "comments": [comment]})


PLANTED: dict[str, tuple[Play, str]] = {
    "relay, another register": (lambda seed: relay(seed, other_register), "task_spec"),
    "maths prompt, wrong": (maths("prompt", wrong_though_checked), "verification.weak"),
    "maths team, lax verifier": (maths("team", accepts_anything), "verification.weak"),
    "maths team, code of the solver": (maths("team", solver_writes_code), "role_spec"),
    "company, tests that see nothing": (
        company(cyclic=False, change=never_mends, blind=True),
        "verification.weak",
    ),
    "company, fails to the end": (company(cyclic=False, change=never_mends), "premature_end"),
    "tutorial, same chapter": (tutorial("English", ignores_comments), "ignored_input"),
    "tutorial, never accepted": (tutorial("English", never_accepts), "premature_end"),
    "debate, tests of nobody": (debate("debate", claims_tests), "reason_action"),
    "debate, speaks for Ben": (debate("debate", speaks_for_ben), "role_spec"),
}
"""Runs by name, each with the mode that was planted."""


async def present(trajectory: Trajectory) -> dict[str, str]:
    return {f.mode: f"{f.role}: {f.reason}" for f in (await annotate(trajectory)).present}


@pytest.mark.parametrize("name", CLEAN)
@pytest.mark.parametrize("seed", [0, 1])
async def test_nothing_is_invented_in_clean_runs(name: str, seed: int) -> None:
    play, explained = CLEAN[name]
    found = await present(await play(seed))
    assert found.keys() <= explained, found


@pytest.mark.parametrize("name", PLANTED)
@pytest.mark.parametrize("seed", [0, 1])
async def test_what_the_model_was_told_to_do_wrong_is_found(name: str, seed: int) -> None:
    play, mode = PLANTED[name]
    assert mode in await present(await play(seed))
