"""Maths chat in its published forms: who may end it, what a check is worth, and what is measured.

Played by the example's stand-in, whose first program fails and whose first proposal is wrong.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rolecraft import Model, Role, Run, ScriptedModel, Team, Trajectory, annotate
from rolecraft.actions import Finish
from rolecraft.environments import Task
from rolecraft.environments.maths import MathsEnvironment, MathsTasks
from rolecraft.models import Limits
from rolecraft.roles.ready.maths_chat import (
    IMPROVED,
    PLAIN,
    Propose,
    Solver,
    Verdict,
    solver_coder_verifier,
    student_and_assistant,
)
from rolecraft.sandboxes import Execution, FunctionSandbox, LocalProcess, Sandbox, SandboxCall
from rolecraft.scenarios.maths_chat import FORMS
from rolecraft.trajectories.codec import encode_event

EXAMPLE = Path(__file__).parents[2] / "examples/maths_chat.py"
HALF = Task("half", "Ada has 1 cake and gives one in 2 of it away. How much?", {"answer": "1/2"})


def stand_in(**options: Any) -> Model:
    spec = importlib.util.spec_from_file_location("maths_chat_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    stand_in: Model = module.stand_in(**options)
    return stand_in


async def play(form: str, seed: int = 0) -> Trajectory:
    scenario = FORMS[form](sandbox=LocalProcess())
    (task,) = scenario.tasks.sample(1, seed=seed, split="test")
    return (await scenario.play(task, model=stand_in())).trajectory


def said(trajectory: Trajectory) -> list[str]:
    """Who spoke, in order."""
    return [event.role for event in trajectory.of("message")]


def measured(trajectory: Trajectory) -> dict[str, float]:
    return {signal.name: signal.value for signal in trajectory.signals}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", [0, 1, 2])
async def test_every_form_comes_to_the_right_answer_and_ends_by_itself(
    form: str, seed: int
) -> None:
    trajectory = await play(form, seed)
    assert trajectory.stop_reason == "finished"
    signals = measured(trajectory)
    assert signals["answer.given"] == signals["answer.correct"] == 1.0
    assert signals["code.failed"] == 1.0
    assert signals["code.runs"] >= 1.0


@pytest.mark.parametrize("form", FORMS)
async def test_the_same_run_leaves_the_same_bytes(form: str) -> None:
    runs = [[encode_event(event) for event in (await play(form)).events] for _ in range(2)]
    assert runs[0] == runs[1]


async def test_the_student_runs_programs_and_ends_the_chat_at_the_answer() -> None:
    trajectory = await play("chat")
    pairs = ["Student", "Assistant"]
    assert said(trajectory) == ["user", *pairs, *pairs, *pairs, "Student"]


async def test_an_answer_beside_code_is_not_final_and_silence_is_answered() -> None:
    """What stands beside a program was written before the program ran."""
    replies = ["\\boxed{7}\n```python\nprint(1 / 2)\n```", "Hm.", "So it is \\boxed{1/2}."]
    env = MathsEnvironment(
        HALF,
        student_and_assistant(sandbox=LocalProcess()),
        answers="Assistant",
        model=ScriptedModel(replies),
        may_finish=["Student"],
    )
    trajectory = await env.episode()
    texts = [event.content for event in trajectory.of("message") if event.role == "Student"]
    assert texts[1] == "Output:\n0.5"
    assert texts[2].startswith("Go on")
    assert measured(trajectory)["answer.correct"] == 1.0


def test_the_improved_form_differs_in_its_prompt_alone() -> None:
    plain, improved = student_and_assistant(), student_and_assistant(improved=True)
    assert [role.system for role in plain] == ["", PLAIN]
    assert [role.system for role in improved] == ["", IMPROVED]
    assert "# Verification" in IMPROVED
    for one, other in zip(plain, improved, strict=True):
        assert one.states == other.states
        assert one.rc.watch == other.rc.watch


async def test_a_verifier_that_objects_sends_the_team_back_to_work() -> None:
    trajectory = await play("team")
    first = ["Solver", "Coder", "Coder", "Verifier"]  # the coder writes, then runs
    assert said(trajectory) == ["user", *first, *first]
    assert [event.data["passed"] for event in trajectory.of("verify")] == [False, True]


async def test_only_the_verifier_may_end_the_run() -> None:
    """A solver who says that all is done is heard, and the work goes on."""
    solver = Solver(actions=[Propose(), Finish("Done, I say.")])
    _, coder, verifier = solver_coder_verifier(sandbox=LocalProcess())
    accepted = json.dumps({"reason": "Both give it.", "accepted": True, "answer": "1/2"})
    env = MathsEnvironment(
        HALF,
        [solver, coder, verifier],
        answers="Verifier",
        may_finish=["Verifier"],
        model=ScriptedModel(
            per_role={
                "Solver": ["\\boxed{1/2}"],
                "Coder": ["```python\nprint(1 / 2)\n```"],
                "Verifier": [accepted],
            }
        ),
    )
    trajectory = await env.episode()
    assert trajectory.stop_reason == "finished"
    assert said(trajectory) == ["user", "Solver", "Solver", "Coder", "Coder", "Verifier"]
    assert measured(trajectory)["answer.correct"] == 1.0


async def test_a_team_that_never_agrees_is_stopped_and_gave_no_answer() -> None:
    refused = json.dumps({"reason": "I doubt it.", "accepted": False})
    env = MathsEnvironment(
        HALF,
        solver_coder_verifier(sandbox=LocalProcess()),
        answers="Verifier",
        may_finish=["Verifier"],
        limits=Limits(rounds=9),
        model=ScriptedModel(
            per_role={
                "Solver": ["\\boxed{1/2}"] * 9,
                "Coder": ["no program"] * 9,
                "Verifier": [refused] * 9,
            }
        ),
    )
    trajectory = await env.episode()
    assert trajectory.stop_reason == "rounds"
    assert measured(trajectory)["answer.given"] == 0.0


def test_nothing_but_a_number_can_be_accepted() -> None:
    with pytest.raises(ValueError, match="one exact number"):
        Verdict(reason="Fine.", accepted=True, answer="about a half")
    assert Verdict(reason="Fine.", accepted=True, answer=r"\frac{1}{2}").accepted
    assert not Verdict(reason="No.", accepted=False).accepted


async def test_with_votes_and_tries_one_wrong_sample_and_one_failing_program_do_no_harm() -> None:
    """The verifier of the plain team had to object; here there is nothing left to object to."""
    trajectory = await play("voting")
    assert said(trajectory) == ["user", "Solver", "Coder", "Coder", "Verifier"]
    (proposal,) = (event for event in trajectory.of("message") if event.role == "Solver")
    assert proposal.data["metadata"]["vote"] == {"won": True, "votes": 2, "of": 3}
    checks = [(event.data["target"], event.data["passed"]) for event in trajectory.of("verify")]
    assert checks == [("program", False), ("program", True), ("answer", True)]


@pytest.mark.parametrize(
    ("form", "verdict"),
    [("chat", "present"), ("prompt", "absent"), ("team", "absent"), ("voting", "absent")],
)
async def test_the_taxonomy_sees_who_hands_over_an_answer_that_nobody_checked(
    form: str, verdict: str
) -> None:
    report = await annotate(await play(form))
    verdicts = {finding.mode: finding.verdict for finding in report.findings}
    assert verdicts["verification.absent"] == verdict


# --- a run and its record --------------------------------------------------------------------


def in_process() -> FunctionSandbox:
    """Runs the stand-in's own programs right here, fast."""

    def run(call: SandboxCall) -> Execution:
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                exec(call.files["main.py"], {})
        except NameError as error:
            return Execution(exit_code=1, stderr=f"NameError: {error}")
        return Execution(exit_code=0, stdout=printed.getvalue())

    return FunctionSandbox(run)


MADE_OF: dict[str, tuple[Callable[[Sandbox], list[Role]], str]] = {
    "chat": (lambda sandbox: student_and_assistant(sandbox=sandbox), "Student"),
    "voting": (
        lambda sandbox: solver_coder_verifier(votes=3, tries=3, sandbox=sandbox),
        "Verifier",
    ),
}


def made(form: str, sandbox: Sandbox, model: Model | None = None) -> Team:
    roles, head = MADE_OF[form]
    return Team(roles(sandbox), model=model, may_finish=[head])


def bytes_of(run: Run) -> list[bytes]:
    return [encode_event(event) for event in run.trajectory.events]


def problem(seed: int = 0) -> str:
    (task,) = MathsTasks().sample(1, seed=seed, split="test")
    return task.prompt


@pytest.mark.parametrize("form", ["chat", "voting"])
async def test_a_replay_asks_no_model_and_runs_no_program(form: str) -> None:
    run = await made(form, in_process(), stand_in()).run(problem())
    sandbox = in_process()
    again = await made(form, sandbox).replay(run)
    assert bytes_of(again) == bytes_of(run)
    assert sandbox.calls == []


@pytest.mark.parametrize("form", ["chat", "voting"])
async def test_a_run_cut_off_after_any_event_comes_to_the_same_end(form: str) -> None:
    """And no program whose output is on record is run again."""

    whole = await made(form, in_process(), stand_in(wrong=0)).run(problem())
    programs = [event.seq for event in whole.trajectory.of("tool_result")]
    for cut in range(1, len(whole.trajectory.events)):
        part = whole.trajectory.copy()
        del part.events[cut:]
        sandbox = in_process()
        again = await made(form, sandbox, stand_in(wrong=0)).recover(part)
        assert bytes_of(again) == bytes_of(whole), f"cut before event {cut}"
        done = sum(seq < cut for seq in programs)
        assert len(sandbox.calls) <= len(programs) - done + 1, "but for the one that was under way"
