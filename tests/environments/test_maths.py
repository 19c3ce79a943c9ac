"""`maths`: problems that say all they need, answers that are exact, and grading that is too."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rolecraft import Action, Role
from rolecraft.actions.run_code import RunPython
from rolecraft.environments import Task
from rolecraft.environments.maths import LEVELS, MathsEnvironment, MathsTasks
from rolecraft.environments.maths.tasks import _NAMES, _THINGS
from rolecraft.errors import UnknownName, UsageError
from rolecraft.roles.ready.answers import exact_value
from rolecraft.sandboxes import LocalProcess

ROOT = Path(__file__).parents[2]


def example() -> Any:
    """The example's stand-in reads problems by their words alone, and knows no answer."""
    spec = importlib.util.spec_from_file_location("maths_example", ROOT / "examples/maths_chat.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_who_only_reads_the_words_comes_to_the_recorded_answer() -> None:
    """Two ways to the answer: the generator's, and that of a reader of the finished text."""
    computed = example().computed
    tasks = [*MathsTasks().sample(500, seed=1), *MathsTasks().sample(200, split="test")]
    for task in tasks:
        answer = exact_value(task.data["answer"])
        assert answer is not None
        if "%" in task.data["answer"]:
            answer *= 100
        assert computed(task.prompt) == answer, task.prompt


def test_the_same_seed_draws_the_same_tasks_and_splits_do_not_overlap() -> None:
    source = MathsTasks()
    assert source.sample(50, seed=1) == source.sample(50, seed=1)
    assert source.sample(50, seed=1) != source.sample(50, seed=2)
    assert source.sample(20, seed=1) == source.sample(50, seed=1)[:20]

    def problems(split: Any) -> set[str]:
        return {_bare(task.prompt) for task in source.sample(2000, seed=3, split=split)}

    train, test = problems("train"), problems("test")
    assert len(train) > 1500
    assert not train & test


def _bare(prompt: str) -> str:
    """A problem without its people and things and what is beside the point: the same problem."""
    beside = ("years old", "had asked", "to the sea", "about the subject")
    text = ". ".join(s for s in prompt.split(". ") if not any(words in s for words in beside))
    return re.sub("|".join([*_NAMES, *_THINGS]), "_", text)


def test_a_level_is_a_number_of_steps_and_every_kind_occurs() -> None:
    kinds = {
        level: Counter(t.data["kind"] for t in MathsTasks([level]).sample(200)) for level in LEVELS
    }
    assert set(kinds[1]) == {"stock", "shopping", "journey", "mixture"}
    assert "stock_backwards" in kinds[2]
    assert "together" in kinds[2]
    assert "mean_speed" in kinds[3]
    assert all(task.data["level"] == 2 for task in MathsTasks([2]).sample(20))
    with pytest.raises(UsageError, match=r"levels=\[4\]"):
        MathsTasks([4])


def test_answers_are_whole_decimal_broken_and_per_cent() -> None:
    answers = [task.data["answer"] for task in MathsTasks().sample(300, seed=5)]
    values = [exact_value(answer) for answer in answers]
    assert all(value is not None and value > 0 for value in values)
    assert any("%" in answer for answer in answers)
    assert any("/" in answer for answer in answers)
    assert any(value is not None and value.denominator == 1 for value in values)


def test_a_problem_is_all_filled_in_and_says_what_an_answer_is() -> None:
    for task in MathsTasks().sample(100, seed=7):
        assert "\\boxed" not in task.prompt
        assert "{" not in task.prompt
        assert task.prompt.endswith("no decimal is exact.")


# --- grading ---------------------------------------------------------------------------------


class Say(Action):
    """Say something."""

    text: str

    async def run(self) -> str:
        return self.text


async def graded(*said: str, answer: str = "3/4") -> dict[str, float]:
    task = Task("one", "How much?", {"answer": answer})
    pupil = Role(name="Pupil", actions=[Say(text) for text in said])
    other = Role(name="Other", actions=[Say(r"\boxed{3/4}")])
    trajectory = await MathsEnvironment(task, [pupil, other], answers="Pupil").episode()
    return {signal.name: signal.value for signal in trajectory.signals}


async def test_a_right_answer_is_right_however_it_is_written() -> None:
    for text in (r"\boxed{3/4}", r"\boxed{\frac{6}{8}}", "The answer is 0.75.", r"\boxed{75\%}"):
        measured = await graded(text)
        assert measured["answer.given"] == measured["answer.correct"] == 1.0, text


async def test_the_last_answer_of_who_answers_counts_and_nobody_elses() -> None:
    assert (await graded(r"\boxed{3/4}", r"no: \boxed{1}"))["answer.correct"] == 0.0
    assert (await graded(r"\boxed{1}", r"no: \boxed{3/4}", "Done."))["answer.correct"] == 1.0
    measured = await graded("I do not know.")
    assert measured["answer.given"] == measured["answer.correct"] == 0.0


async def test_an_answer_that_is_no_number_is_none() -> None:
    assert (await graded(r"\boxed{three quarters}"))["answer.given"] == 0.0


async def test_programs_are_counted_by_how_they_ended() -> None:
    code = "```python\nprint(3 / 4)\n```"
    task = Task("one", "How much?", {"answer": "3/4"})
    run = RunPython(sandbox=LocalProcess())
    pupil = Role(
        name="Pupil",
        actions=[Say(code), run, Say("```python\noops\n```"), run, Say(code), run],
    )
    trajectory = await MathsEnvironment(task, [pupil], answers="Pupil").episode()
    signals = {signal.name: signal for signal in trajectory.signals}
    assert (signals["code.runs"].value, signals["code.failed"].value) == (2.0, 1.0)


async def test_a_signal_names_the_role_and_the_message_that_it_measured() -> None:
    task = Task("one", "How much?", {"answer": "3/4"})
    env = MathsEnvironment(task, [Role(name="P", actions=[Say(r"\boxed{3/4}")])], answers="P")
    trajectory = await env.episode()
    (signal,) = (s for s in trajectory.signals if s.name == "answer.correct")
    assert signal.role == "P"
    assert signal.step is not None
    assert trajectory.events[signal.step].content == r"\boxed{3/4}"


def test_who_answers_must_be_there() -> None:
    with pytest.raises(UnknownName, match="'Nobody'"):
        MathsEnvironment(Task("one", "?", {"answer": "1"}), [Role(name="A")], answers="Nobody")


async def test_the_user_is_not_who_answers() -> None:
    """A problem that holds a boxed number answers nothing."""
    task = Task("one", r"Is it \boxed{3/4}?", {"answer": "3/4"})
    env = MathsEnvironment(task, [Role(name="P", actions=[Say("Hm.")])], answers="P")
    trajectory = await env.episode()
    assert {s.name: s.value for s in trajectory.signals}["answer.given"] == 0.0
