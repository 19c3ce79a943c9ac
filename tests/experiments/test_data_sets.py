"""GSM-Plus and HumanEval as published: every form of file, every kind of answer, the real tests.

The rows here are ours, in the published form.
"""

from __future__ import annotations

import gzip
import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from rolecraft import Action, FunctionModel, Role
from rolecraft.environments import Task
from rolecraft.errors import MissingExtra, UnknownName, UsageError
from rolecraft.experiments import (
    DatasetError,
    HumanEvalEnvironment,
    gsm_plus,
    humaneval,
    maths_chat,
)
from rolecraft.experiments.gsm_plus import PERTURBATIONS, normal
from rolecraft.experiments.humaneval import passes
from rolecraft.roles.ready.answers import is_right
from rolecraft.roles.ready.source_files import SourceFile
from rolecraft.sandboxes import Bubblewrap, Execution, FunctionSandbox

ANSWERS = ("12", "4.33", "1,200", "$7.", "3/4", "-5", "2.50", "None")
GSM = [
    {
        "question": f"Question {number}?",
        "solution": f"So it is so.\n#### {answer}",
        "answer": answer,
        "perturbation_type": kind,
        "seed_question": "Seed?",
        "seed_solution": "Seed.\n#### 1",
        "seed_answer": "1",
    }
    for number, (kind, answer) in enumerate(zip(PERTURBATIONS, ANSWERS, strict=True))
]
NESTED = {
    "Seed?": {
        "solution": "Seed.\n#### 1",
        "answer": "1",
        "perturbation_questions": {
            row["perturbation_type"]: {
                name: row[name] for name in ("question", "solution", "answer")
            }
            for row in GSM
        },
    }
}
HELPED = '''

def square(x: int) -> int:
    return x * x


def root(n: int) -> int:
    """ Return the whole number whose square is n.
    >>> root(9)
    3
    """
'''
HUMAN = [
    {
        "task_id": "HumanEval/0",
        "prompt": 'def double(x: int) -> int:\n    """ Twice x.\n    """\n',
        "entry_point": "double",
        "canonical_solution": "    return 2 * x\n",
        "test": "METADATA = {}\n\n\ndef check(candidate):\n    assert candidate(2) == 4\n"
        "    assert candidate(0) == 0\n",
    },
    {
        "task_id": "HumanEval/1",
        "prompt": HELPED,
        "entry_point": "root",
        "canonical_solution": "    return next(i for i in range(n + 1) if square(i) == n)\n",
        "test": "def check(candidate):\n    for i in range(9):\n"
        "        assert square(candidate(square(i))) == square(i)\n",
    },
]


def lines(rows: list[dict[str, Any]]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    contents = {
        "rows.jsonl": lines(GSM).encode(),
        "rows.json": json.dumps(GSM).encode(),
        "nested.json": json.dumps(NESTED).encode(),
        "rows.jsonl.gz": gzip.compress(lines(GSM).encode()),
        "marked.jsonl": b"\xef\xbb\xbf" + lines(GSM).encode() + b"\n",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    return {name: tmp_path / name for name in contents}


def test_every_form_of_the_file_gives_the_same_tasks(files: dict[str, Path]) -> None:
    tasks = {name: gsm_plus(path) for name, path in files.items()}
    assert all(each == tasks["rows.jsonl"] for each in tasks.values())
    assert [task.data["answer"] for task in tasks["rows.jsonl"]] == [
        "12", "4.33", "1200", "7", "3/4", "-5", "2.50", "None"
    ]  # fmt: skip
    first = tasks["rows.jsonl"][0]
    assert first.id == "gsm-plus-1"
    assert first.prompt.startswith("Question 0? Give one number")
    assert first.data["perturbation_type"] == "numerical substitution"


def test_rows_are_drawn_by_seed_and_by_kind(files: dict[str, Path]) -> None:
    path = files["rows.jsonl"]
    drawn = gsm_plus(path, 5, 1)
    assert drawn == gsm_plus(path, 5, 1)
    assert drawn != gsm_plus(path, 5, 2)
    rows = [task.data["row"] for task in drawn]
    assert rows == sorted(set(rows))
    assert {task.id for task in gsm_plus(path, 4, 1)} < {task.id for task in drawn}
    (only,) = gsm_plus(path, perturbations=["critical thinking"])
    assert only.data["answer"] == "None"
    with pytest.raises(UsageError, match="9 tasks are to be drawn, and there are 8"):
        gsm_plus(path, 9)
    with pytest.raises(UnknownName, match="distraction insertion"):
        gsm_plus(path, perturbations=["distraction"])


@pytest.mark.parametrize(
    ("published", "given", "right"),
    [
        ("4.33", "13/3", True),  # rounded when it was published
        ("4.33", "4.33", True),
        ("4.33", "4.335", True),
        ("4.33", "4.34", False),
        ("4.33", "4.3", False),
        ("12", "12.4", False),  # a whole number was not rounded
        ("12", r"12 \text{ apples}", True),
        ("1,200", "1200", True),
        ("3/4", "0.75", True),
        ("$7.", "7.00", True),
        ("None", "None", True),
        ("None", r"\text{None}", True),
        ("None", "none.", True),
        ("None", "0", False),
        ("0", "None", False),
    ],
)
def test_an_answer_is_right_if_it_is_what_was_published(
    tmp_path: Path, published: str, given: str, right: bool
) -> None:
    (tmp_path / "one.json").write_text(json.dumps([{**GSM[0], "answer": published}]))
    (task,) = gsm_plus(tmp_path / "one.json")
    assert is_right(given, task.data["answer"], decimals=task.data.get("decimals")) is right


def test_an_answer_that_is_no_number_is_left_out_and_told(tmp_path: Path) -> None:
    rows = [{**GSM[0], "answer": "9:30"}, GSM[1]]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    told: list[DatasetError] = []
    (task,) = gsm_plus(tmp_path / "rows.json", on_skip=told.append)
    assert task.data["row"] == 2
    assert [str(error) for error in told] == [
        f"Row 1 of `{tmp_path}/rows.json` has the answer '9:30', which is neither one number nor "
        "`None`: left out."
    ]
    assert normal("#### 12") == "12"
    assert normal("12 or 13") is None


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"question": "q"}\n', "Row 1 of `.*` has no `perturbation_type`; its fields are `ques"),
        (lines([{**GSM[0], "answer": 3}]), "Row 1 of `.*` has 3 as `answer`, not a text"),
        ("not json\n", "Line 1 of `.*` is no JSON"),
        (lines(GSM[:1]) + "{broken\n", "Line 2 of `.*` is no JSON"),
        (lines(GSM[:1]) + "[1, 2]\n", "Line 2 of `.*` is list, not an object"),
        ("3", "Line 1 of `.*` is int, not an object"),
        ("", "has no rows"),
    ],
)
def test_what_is_not_the_published_form_is_named(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(content)
    with pytest.raises(DatasetError, match=says):
        gsm_plus(path)


def test_a_file_that_is_not_there_and_an_empty_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"There is no data set `.*none.jsonl`"):
        gsm_plus(tmp_path / "none.jsonl")
    with pytest.raises(UsageError, match="holds no file of rows"):
        gsm_plus(tmp_path)


def test_of_a_folder_the_files_of_the_split_are_read(tmp_path: Path) -> None:
    for name, rows in (("test", GSM[:2]), ("testmini", GSM[:3]), ("train", GSM)):
        (tmp_path / f"{name}-00000-of-00001.jsonl").write_text(lines(rows))
    assert len(gsm_plus(tmp_path)) == 2
    assert len(gsm_plus(tmp_path, split="train")) == 8


@pytest.mark.parametrize(
    ("source", "module", "package"),
    [("qintongli/GSM-Plus", "datasets", "datasets"), ("x.parquet", "pyarrow.parquet", "pyarrow")],
)
def test_a_library_that_is_not_installed_is_named_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: str, module: str, package: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    Path("x.parquet").touch()
    with pytest.raises(MissingExtra, match=f"needs `{package}`, which is not installed.*datasets"):
        gsm_plus(source)


def test_the_hub_is_asked_for_the_split_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library is not installed here, so a stand-in with its one function takes its place."""
    asked = []

    def load_dataset(name: str, *, split: str) -> list[dict[str, Any]]:
        asked.append((name, split))
        if split == "train":
            raise ValueError("Unknown split")
        return GSM

    library = types.SimpleNamespace(load_dataset=load_dataset)
    monkeypatch.setitem(sys.modules, "datasets", library)  # type: ignore[arg-type]
    assert len(gsm_plus()) == 8
    assert len(gsm_plus("qintongli/GSM-Plus", split="testmini")) == 8
    assert asked == [("qintongli/GSM-Plus", "test"), ("qintongli/GSM-Plus", "testmini")]
    with pytest.raises(DatasetError, match="The split 'train' of 'qintongli/GSM-Plus' could not"):
        gsm_plus(split="train")


# --- HumanEval -------------------------------------------------------------------------------


@pytest.fixture
def problems(tmp_path: Path) -> list[Task]:
    (tmp_path / "HumanEval.jsonl").write_text(lines(HUMAN))
    return humaneval(tmp_path / "HumanEval.jsonl")


def test_the_team_sees_the_prompt_and_neither_solution_nor_tests(problems: list[Task]) -> None:
    assert [task.id for task in problems] == ["HumanEval/0", "HumanEval/1"]
    for task, row in zip(problems, HUMAN, strict=True):
        assert row["prompt"].strip() in task.prompt
        assert row["canonical_solution"] not in json.dumps([task.prompt, task.data])
        assert "check(" not in task.prompt


CANONICAL = {row["task_id"]: row["prompt"] + row["canonical_solution"] for row in HUMAN}
BAD = {
    "a wrong answer": "def double(x):\n    return x + 2\n",
    "another name": "def twice(x):\n    return 2 * x\n",
    "it ends the process": "import sys\nsys.exit(0)\n",
    "it ends the process when it is called": "import os\ndef double(x):\n    os._exit(0)\n",
    "it prints that all is well": "print('passed')\ndef double(x):\n    return 5\n",
    "it cannot be read": "def double(x:\n",
    "it brings its own check": "def check(f):\n    pass\ndef double(x):\n    return 0\n",
}


@pytest.mark.parametrize("number", [0, 1])
async def test_the_published_solution_passes_in_the_sandbox(
    problems: list[Task], number: int, needs_program: Any
) -> None:
    needs_program("bwrap", package="bubblewrap")
    task = problems[number]
    assert await passes({"main.py": CANONICAL[task.id]}, task.data, Bubblewrap())


async def test_a_solution_without_the_helpers_of_the_prompt_passes_too(
    problems: list[Task], needs_program: Any
) -> None:
    needs_program("bwrap", package="bubblewrap")
    files = {
        "main.py": "from roots import root\n",
        "roots.py": "def root(n):\n    return round(n**0.5)\n",
    }
    assert await passes(files, problems[1].data, Bubblewrap())


@pytest.mark.parametrize("name", BAD)
async def test_no_other_program_passes(problems: list[Task], name: str, needs_program: Any) -> None:
    needs_program("bwrap", package="bubblewrap")
    assert not await passes({"main.py": BAD[name]}, problems[0].data, Bubblewrap())


class HandIn(Action):
    """Hand in a file that is written already."""

    content: str

    async def run(self) -> None:
        self.role.publish_message(SourceFile(path="main.py", content=self.content).message())


async def test_the_environment_measures_whether_the_tests_passed(
    problems: list[Task], needs_program: Any
) -> None:
    needs_program("bwrap", package="bubblewrap")
    for content, passed in ((CANONICAL["HumanEval/0"], 1.0), (BAD["a wrong answer"], 0.0)):
        team = [Role(name="Ann", actions=[HandIn(content)])]
        trajectory = await HumanEvalEnvironment(problems[0], team).episode()
        measured = {signal.name: signal.value for signal in trajectory.signals}
        assert (measured["tests.passed"], measured["tests.failed"]) == (passed, 1 - passed)
        assert trajectory.about["outcome"] == {"signal": "tests.failed", "at_most": 0}


async def test_nothing_runs_in_this_process_and_nothing_of_the_tests_is_a_file(
    problems: list[Task],
) -> None:
    sandbox = FunctionSandbox(lambda call: Execution(exit_code=0))
    assert not await passes({"main.py": "1 / 0"}, problems[0].data, sandbox)
    (call,) = sandbox.calls
    assert call.files == {"main.py": "1 / 0"}


async def test_every_team_can_say_that_a_problem_has_no_answer(files: dict[str, Path]) -> None:
    def answer(call: Any) -> str:
        if call.role == "Verifier":
            return '{"reason": "Nothing says how many.", "accepted": true, "answer": "None"}'
        return r"It does not say. \boxed{None}"

    (task,) = gsm_plus(files["rows.jsonl"], perturbations=["critical thinking"])
    for variant in maths_chat(sandbox=FunctionSandbox(lambda call: Execution(exit_code=0))):
        episode = await variant.scenario.play(task, model=FunctionModel(answer))
        assert episode.reward.value == 1, variant.name
        assert episode.trajectory.stop_reason == "finished"
