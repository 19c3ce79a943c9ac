"""Rows as they are published become instances; a bad row is one error that names row and field."""

from __future__ import annotations

import json
import sys

import pytest

from rolecraft.environments import Task
from rolecraft.environments.software_engineering import (
    BadInstance,
    Grader,
    Instance,
    Place,
    load,
    of_row,
    of_rows,
)
from rolecraft.errors import MissingExtra, UsageError

SWE_BENCH = {
    "repo": "pallets/flask",
    "instance_id": "pallets__flask-5014",
    "base_commit": "7ee9ceb71e868944a46e1ff00b506772a53a4f1d",
    "patch": "--- a/src/flask/blueprints.py\n+++ b/src/flask/blueprints.py\n@@ -1 +1 @@\n-a\n+b\n",
    "test_patch": "--- a/tests/test_blueprints.py\n+++ b/tests/test_blueprints.py\n@@ -1 +1 @@\n",
    "problem_statement": "Require a non-empty name for Blueprints",
    "hints_text": "",
    "created_at": "2023-03-04T18:36:21Z",
    "version": "2.3",
    "FAIL_TO_PASS": '["tests/test_blueprints.py::test_empty_name_not_allowed"]',
    "PASS_TO_PASS": '["tests/test_blueprints.py::test_blueprint_prefix"]',
    "environment_setup_commit": "182ce3dd15dfa3537391c3efaf9c3ff407d134d4",
}
SWE_GYM = {
    **{key: value for key, value in SWE_BENCH.items() if key != "environment_setup_commit"},
    "FAIL_TO_PASS": ["tests/test_blueprints.py::test_empty_name_not_allowed"],
    "PASS_TO_PASS": [],
}
EXTRA = {**SWE_GYM, "meta": {"failed_lite_validators": []}}
SWE_SMITH = {
    "instance_id": "oauthlib__oauthlib.1fd52536.combine_file__09vlzwgc",
    "repo": "swesmith/oauthlib__oauthlib.1fd52536",
    "patch": "--- a/oauthlib/common.py\n+++ b/oauthlib/common.py\n@@ -1 +1 @@\n-a\n+b\n",
    "FAIL_TO_PASS": ["tests/test_common.py::test_a"],
    "PASS_TO_PASS": ["tests/test_common.py::test_b"],
    "image_name": "jyangballin/swesmith.x86_64.oauthlib_1776_oauthlib.1fd52536",
    "problem_statement": "It breaks.",
}


def test_a_row_of_swe_bench() -> None:
    instance = of_row(SWE_BENCH)
    assert instance.fail_to_pass == ("tests/test_blueprints.py::test_empty_name_not_allowed",)
    assert (instance.polarity, instance.dataset) == ("fix", "swe-bench")
    assert instance.image == "swebench/sweb.eval.x86_64.pallets_1776_flask-5014"
    assert instance.meta["created_at"] == "2023-03-04T18:36:21Z"


def test_rows_of_swe_gym_and_extra_have_lists() -> None:
    instance = of_row(SWE_GYM)
    assert instance.dataset == "swe-gym"
    assert instance.image == "xingyaoww/sweb.eval.x86_64.pallets_s_flask-5014"
    assert of_row(EXTRA).dataset == "swe-bench-extra"


def test_a_patch_of_swe_smith_is_the_bug() -> None:
    instance = of_row(SWE_SMITH)
    assert (instance.polarity, instance.base_commit) == ("bug", None)
    assert instance.image == SWE_SMITH["image_name"]


def test_a_repository_of_this_machine_takes_the_place_of_the_image() -> None:
    place = Place(source="flask", environment="venv", python_path=("src",))
    instance = of_row(SWE_BENCH, places={"pallets/flask": place})
    assert (instance.image, instance.source, instance.python_path) == (None, "flask", ("src",))


MISSING = ["instance_id", "repo", "problem_statement", "patch", "FAIL_TO_PASS", "test_patch"]
WRONG = {
    "FAIL_TO_PASS": ["not json", "3", [3], '{"a": 1}', []],
    "PASS_TO_PASS": [None, "["],
    "problem_statement": ["", 3, "  "],
    "base_commit": [3],
    "instance_id": ["", 7],
}


@pytest.mark.parametrize("column", MISSING)
def test_a_missing_field_is_an_error_that_names_row_and_field(column: str) -> None:
    bad = {key: value for key, value in SWE_BENCH.items() if key != column}
    loaded = of_rows([SWE_SMITH, bad, SWE_GYM])
    assert [each.id for each in loaded.instances] == [
        SWE_SMITH["instance_id"],
        SWE_GYM["instance_id"],
    ]
    (problem,) = loaded.refused
    assert (problem.row, problem.field) == (1, column)
    assert f"Row 1{'' if column == 'instance_id' else ' ('}" in str(problem)
    assert f"`{column}` is missing" in str(problem)


@pytest.mark.parametrize(
    ("column", "value"), [(column, value) for column in WRONG for value in WRONG[column]]
)
def test_a_wrong_field_is_an_error_that_names_it(column: str, value: object) -> None:
    loaded = of_rows([{**SWE_BENCH, column: value}])
    assert not loaded.instances
    assert loaded.refused[0].field == column


def test_a_row_that_is_no_object_and_an_id_that_comes_twice() -> None:
    loaded = of_rows([["a list"], SWE_BENCH, SWE_BENCH])
    assert [(each.row, each.field) for each in loaded.refused] == [(0, "row"), (2, "instance_id")]
    assert len(loaded.instances) == 1


def test_files(tmp_path) -> None:
    lines = [json.dumps(SWE_BENCH), "{torn", "", json.dumps(SWE_SMITH)]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    loaded = load(tmp_path / "rows.jsonl")
    assert len(loaded.instances) == 2
    assert [(each.row, each.field) for each in loaded.refused] == [(1, "row")]
    (tmp_path / "rows.json").write_text(json.dumps([SWE_BENCH]))
    assert load(tmp_path / "rows.json").instances == loaded.instances[:1]
    both = load(tmp_path)
    assert len(both.instances) == 2
    with pytest.raises(UsageError, match="does not exist"):
        load(tmp_path / "nowhere.jsonl")
    (tmp_path / "rows.csv").touch()
    with pytest.raises(UsageError, match="are read from"):
        load(tmp_path / "rows.csv")


def test_parquet_and_saved_data_sets_are_read(tmp_path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    datasets = pytest.importorskip("datasets")
    parquet.write_table(pa.Table.from_pylist([SWE_GYM]), tmp_path / "rows.parquet")
    assert load(tmp_path / "rows.parquet").instances == (of_row(SWE_GYM),)
    rows = datasets.Dataset.from_list([SWE_BENCH])
    rows.save_to_disk(str(tmp_path / "one"))
    datasets.DatasetDict(train=rows).save_to_disk(str(tmp_path / "split"))
    for folder in ("one", "split"):
        assert load(tmp_path / folder).instances == (of_row(SWE_BENCH),)


def test_a_format_whose_library_is_missing_says_so(tmp_path, monkeypatch) -> None:
    (tmp_path / "rows.parquet").touch()
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtra, match="pyarrow"):
        load(tmp_path / "rows.parquet")


async def test_what_needs_an_image_says_so_and_is_no_result(bases) -> None:
    """It stays in the count, and its patch is not called wrong."""
    grade = await Grader(bases=bases).grade(of_row(SWE_BENCH), [])
    assert "unsupported here: needs image swebench/" in grade.infrastructure
    assert not grade.resolved


def test_an_instance_goes_through_a_task_and_back() -> None:
    instance = of_row(SWE_BENCH)
    task = instance.task()
    assert "test_blueprints" not in task.prompt
    assert Instance.of(task) == instance
    assert Instance.of(Task(task.id, task.prompt, json.loads(json.dumps(task.data)))) == instance


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("fail_to_pass", ()),
        ("fail_to_pass", "tests/test_a.py"),
        ("hidden", ("/tests",)),
        ("hidden", ("../tests",)),
        ("polarity", "both"),
        ("runner", "nose"),
        ("source", None),
        ("problem", " "),
    ],
)
def test_an_instance_is_checked(field: str, value: object) -> None:
    good = {"id": "a", "problem": "b", "fail_to_pass": ("t.py::a",), "source": "."}
    with pytest.raises(BadInstance) as error:
        Instance(**{**good, field: value})
    assert error.value.field == field
    assert error.value.instance == "a"
