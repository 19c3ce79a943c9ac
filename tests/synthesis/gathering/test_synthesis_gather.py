"""Valid candidates become rows, patches and commits, and run as a scenario as they are."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rolecraft.environments.row_files import read_rows
from rolecraft.environments.software_engineering import (
    Grader,
    Instance,
    Place,
    load,
    load_tasks,
)
from rolecraft.environments.software_engineering.bases import Bases
from rolecraft.errors import UsageError
from rolecraft.synthesis.candidates import Candidate, Edit, candidate_id
from rolecraft.synthesis.difficulty.statistics import statistics
from rolecraft.synthesis.gathering.gather import gather
from rolecraft.synthesis.ledger import Ledger
from rolecraft.synthesis.texts.leaks import Leak
from rolecraft.synthesis.verdicts import Verdict

AREAS, NAMES = "tests/test_areas.py", "tests/test_names.py"


@pytest.fixture(autouse=True)
def _git(needs_program: Any) -> None:
    needs_program("git", package="git")


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows_of(tasks: Path) -> dict[str, dict[str, Any]]:
    return {row.fields["instance_id"]: row.fields for row in read_rows(tasks / "tasks.jsonl")}


def place_of(tasks: Path) -> Place:
    return Place(source=str(tasks / "repository"))


def files_at(tasks: Path, commit: str) -> dict[str, str]:
    repository = tasks / "repository"
    names = git(repository, "ls-tree", "-r", "--name-only", commit).splitlines()
    return {name: git(repository, "show", f"{commit}:{name}") for name in names}


def test_each_valid_candidate_becomes_a_row_of_swe_bench(three_bugs) -> None:
    made = three_bugs()
    found = gather(made.folder)
    rows = rows_of(made.folder.tasks)
    assert sorted(rows) == sorted(made.ids)
    assert found.tasks == 3
    row = rows[made.ids[0]]
    assert row["repo"] == "shapes"
    assert row["version"] == "1.2"
    assert row["problem_statement"] == "A square of side 0 is refused."
    assert json.loads(row["FAIL_TO_PASS"]) == [f"{AREAS}::test_no_square"]
    assert json.loads(row["PASS_TO_PASS"]) == [
        f"{AREAS}::test_square",
        f"{AREAS}::test_rectangle",
        f"{NAMES}::test_title",
        f"{NAMES}::test_initials",
    ]
    assert (row["modifier"], row["files"], row["n_lines"]) == ("boundary", ["shapes/areas.py"], 1)
    assert "-    if side <= 0:\n+    if side < 0:\n" in row["patch"]


def test_tasks_whose_texts_say_the_same_are_kept_and_counted(three_bugs) -> None:
    """In other words, with the same code and values: nobody can tell their bugs apart by them."""
    made = three_bugs()
    made.say(made.ids[0], "This raises:\n\n```\nValueError\n```\n\nWhy?")
    made.say(made.ids[1], "With this I get an error:\n\n```\nValueError\n```")
    found = gather(made.folder)
    assert (found.tasks, found.alike) == (3, 1), "the second one, as `describe` counts"
    summary = json.loads((made.folder.tasks / "summary.json").read_text())
    assert summary["alike"] == statistics(made.folder).alike == 1


def test_the_rows_are_the_same_in_parquet(three_bugs) -> None:
    made = three_bugs()
    gather(made.folder)
    in_lines = [row.fields for row in read_rows(made.folder.tasks / "tasks.jsonl")]
    assert [row.fields for row in read_rows(made.folder.tasks / "tasks.parquet")] == in_lines


def test_the_loader_takes_the_rows_as_they_are(three_bugs) -> None:
    made = three_bugs()
    gather(made.folder)
    tasks = made.folder.tasks
    loaded = load(tasks / "tasks.jsonl", places={"shapes": place_of(tasks)})
    assert not loaded.refused
    assert [each.id for each in loaded.instances] == sorted(made.ids)
    assert {each.polarity for each in loaded.instances} == {"fix"}


def test_a_commit_has_the_bug_and_not_the_hidden_tests(three_bugs) -> None:
    made = three_bugs()
    gather(made.folder)
    row = rows_of(made.folder.tasks)[made.ids[0]]
    files = files_at(made.folder.tasks, row["base_commit"])
    assert sorted(files) == [
        "README",
        "shapes/__init__.py",
        "shapes/areas.py",
        "shapes/names.py",
        "tests/conftest.py",
        NAMES,
    ]
    assert "if side <= 0:" in files["shapes/areas.py"]


def test_the_history_of_a_clone_of_a_task_tells_nothing(three_bugs, tmp_path) -> None:
    made = three_bugs()
    gather(made.folder)
    clone = tmp_path / "clone"
    git(tmp_path, "init", "-q", str(clone))
    repository, name = made.folder.tasks / "repository", made.ids[0]
    git(clone, "fetch", "-q", str(repository), f"refs/tasks/{name}")
    git(clone, "checkout", "-q", "FETCH_HEAD")
    said = git(clone, "log", "--format=%P|%an|%s", "FETCH_HEAD")
    assert said == "|Rolecraft|shapes 1.2\n", "one commit without a parent, in words of no bug"
    objects = git(clone, "cat-file", "--batch-all-objects", "--batch-check").splitlines()
    blobs = [git(clone, "cat-file", "-p", line.split()[0]) for line in objects if " blob " in line]
    assert not any("if side < 0:" in blob or "def test_square" in blob for blob in blobs)
    assert git(repository, "remote") == ""


async def test_the_reference_resolves_every_task_and_an_empty_patch_none(
    three_bugs, needs_program
) -> None:
    needs_program("bwrap", package="bubblewrap")
    made = three_bugs()
    gather(made.folder)
    tasks = made.folder.tasks
    source = load_tasks(tasks / "tasks.jsonl", places={"shapes": place_of(tasks)})
    grader = Grader(bases=Bases())
    for instance in source.instances.values():
        assert (await grader.grade_reference(instance)).resolved
        empty = await grader.grade_text(instance, "--- /dev/null\n+++ b/NOTE\n@@ -0,0 +1 @@\n+x\n")
        assert not empty.resolved
        assert empty.fail_to_pass.failed == instance.fail_to_pass
        assert not empty.pass_to_pass.failed


def test_the_patch_files_plant_and_mend(three_bugs, tmp_path) -> None:
    made = three_bugs()
    gather(made.folder)
    patches = made.folder.tasks / "patches"
    for name in made.ids:
        copy = tmp_path / name
        subprocess.run(["cp", "-r", str(made.source), str(copy)], check=True)
        clean = {path: path.read_bytes() for path in copy.rglob("*.py")}
        git(copy, "apply", str(patches / f"{name}.bug.patch"))
        assert {path: path.read_bytes() for path in copy.rglob("*.py")} != clean
        git(copy, "apply", str(patches / f"{name}.fix.patch"))
        assert {path: path.read_bytes() for path in copy.rglob("*.py")} == clean


def contents(tasks: Path) -> dict[str, bytes]:
    """All but git's own files, whose packs may differ, and what refs lead to."""
    files = {
        str(path.relative_to(tasks)): path.read_bytes()
        for path in tasks.rglob("*")
        if path.is_file() and "repository" not in path.parts and path.suffix != ".parquet"
    }
    return files | {"refs": git(tasks / "repository", "for-each-ref").encode()}


def test_the_same_inputs_give_the_same_tasks_and_commits(three_bugs) -> None:
    made = three_bugs()
    gather(made.folder)
    once = contents(made.folder.tasks)
    gather(made.folder)
    assert contents(made.folder.tasks) == once


def test_the_order_in_which_candidates_were_validated_changes_nothing(three_bugs) -> None:
    made = three_bugs()
    gather(made.folder)
    once = contents(made.folder.tasks)
    for path in (made.folder.candidates, made.folder.verdicts, made.folder.texts):
        path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    gather(made.folder)
    assert contents(made.folder.tasks) == once


def test_what_is_no_task_is_left_out_by_its_reason(three_bugs) -> None:
    made = three_bugs()
    fails = f"{AREAS}::test_square"
    made.bug("shapes/areas.py", "side * side", "side", fails, status="flaky")
    silent = made.bug("shapes/areas.py", "side * side", "side + side", fails, text=None)
    empty = made.bug("shapes/areas.py", "side * side", "side ** side", fails, text="")
    leaky = made.bug("shapes/areas.py", "side * side", "side / side", fails, text=None)
    made.say(leaky, "It is `square`.", source="given", leaks=(Leak("entity", "square"),))
    found = gather(made.folder)
    assert found.left_out == {"no_text": sorted([silent, empty]), "leaks": [leaky]}
    assert len(rows_of(made.folder.tasks)) == 3
    said = json.loads((made.folder.tasks / "summary.json").read_text())
    assert said["left_out"] == found.left_out


def test_a_text_of_somebodys_own_is_checked_although_nobody_said_so(made) -> None:
    """It once was shown as it is: only `describe` looked for leaks, and only in its own texts."""
    made.plan()
    fails = f"{AREAS}::test_square"
    leaky = made.bug("shapes/areas.py", "side * side", "side / side", fails, text=None)
    made.say(leaky, "Look at shapes/areas.py: `side * side` is gone.", source="given")
    good = made.bug("shapes/areas.py", "side * side", "side + side", fails, text=None)
    made.say(good, "The sum of what I get for 3 is 6 and I want 9.", source="given")
    found = gather(made.folder)
    assert found.left_out == {"leaks": [leaky]}
    assert [*rows_of(made.folder.tasks)] == [good]


def test_without_texts_a_sentence_that_says_nothing_can_stand_in(made) -> None:
    made.plan()
    name = made.bug("shapes/areas.py", "side * side", "side", f"{AREAS}::test_square", text=None)
    with pytest.raises(UsageError, match=r"1 no_text.*rolecraft synth describe.*--allow-missing"):
        gather(made.folder)
    assert not made.folder.tasks.exists()
    gather(made.folder, allow_missing=True)
    said = rows_of(made.folder.tasks)[name]["problem_statement"]
    assert said == "Something in shapes does not work as it should: a test fails."


def test_without_a_valid_candidate_it_says_what_to_do(made) -> None:
    with pytest.raises(UsageError, match="rolecraft synth plan"):
        gather(made.folder)
    made.plan()
    with pytest.raises(UsageError, match="rolecraft synth validate"):
        gather(made.folder)


def test_code_that_lies_a_second_time_in_the_project_gives_no_task(three_bugs) -> None:
    made = three_bugs()
    copy = made.source / "build" / "lib" / "shapes" / "areas.py"
    copy.parent.mkdir(parents=True)
    copy.write_bytes((made.source / "shapes" / "areas.py").read_bytes())
    found = gather(made.folder)
    assert found.left_out == {"copied": sorted(made.ids[:2])}


def test_a_hidden_test_that_lies_a_second_time_in_the_project_gives_no_task(three_bugs) -> None:
    """Whoever reads `build/lib` would have the tests to pass in hand."""
    made = three_bugs()
    copy = made.source / "build" / "lib" / "tests" / "test_areas.py"
    copy.parent.mkdir(parents=True)
    copy.write_bytes((made.source / AREAS).read_bytes())
    found = gather(made.folder)
    assert found.left_out == {"copied": sorted(made.ids[:2])}
    assert found.tasks == 1


def test_code_that_the_environment_has_as_well_is_told(made, tmp_path) -> None:
    installed = made.folder.path / "environment" / "lib" / "python3.11" / "site-packages" / "shapes"
    installed.mkdir(parents=True)
    (installed / "areas.py").write_bytes((made.source / "shapes" / "areas.py").read_bytes())
    made.project["environment"] = str(made.folder.path / "environment")
    made.plan()
    made.bug("shapes/areas.py", "side * side", "side", f"{AREAS}::test_square")
    found = gather(made.folder)
    assert any("has the clean code as well" in each for each in found.remarks)


def test_a_bug_that_brings_a_file_is_a_task_and_the_environment_has_no_copy_of_it(made) -> None:
    """As a patch of a user may: `gather` once fell over it, with all other tasks."""
    made.project["environment"] = str(made.folder.path / "environment")
    made.plan()
    edits = (Edit("shapes/more.py", 0, 0, "from shapes.areas import *\n"),)
    name = candidate_id("shapes", "given", edits)
    bug = Candidate(id=name, modifier="given", entity="shapes/more.py", edits=edits, key=name)
    with Ledger(made.folder.candidates, Candidate, key=lambda each: each.id) as candidates:
        candidates.append(bug)
    verdict = Verdict(candidate=name, status="valid", fail_to_pass=(f"{AREAS}::test_square",))
    with Ledger(made.folder.verdicts, Verdict, key=lambda each: each.candidate) as verdicts:
        verdicts.append(verdict)
    made.say(name, "It does not work.")
    assert gather(made.folder).tasks == 1
    commit = rows_of(made.folder.tasks)[name]["base_commit"]
    assert "shapes/more.py" in files_at(made.folder.tasks, commit)


def test_tests_within_the_code_are_nothing_to_count_on(made) -> None:
    within = "shapes/areas.py::shapes.areas.square"
    made.plan(tests=(within, f"{AREAS}::test_square", f"{NAMES}::test_title"))
    some = made.bug("shapes/areas.py", "side * side", "side", within, f"{AREAS}::test_square")
    only = made.bug("shapes/areas.py", "side * side", "side + side", within)
    found = gather(made.folder)
    assert found.left_out == {"no_tests": [only]}
    row = rows_of(made.folder.tasks)[some]
    assert json.loads(row["FAIL_TO_PASS"]) == [f"{AREAS}::test_square"]
    assert json.loads(row["PASS_TO_PASS"]) == [f"{NAMES}::test_title"]
    assert "shapes/areas.py" in files_at(made.folder.tasks, row["base_commit"])


def test_tests_whose_file_is_not_there_cannot_be_hidden(made) -> None:
    made.plan(tests=("elsewhere/test_areas.py::test_square", f"{NAMES}::test_title"))
    lost = made.bug(
        "shapes/areas.py", "side * side", "side", "elsewhere/test_areas.py::test_square"
    )
    made.bug("shapes/names.py", "name.strip()", "name", f"{NAMES}::test_title")
    found = gather(made.folder)
    assert (found.tasks, found.left_out) == (1, {"no_tests": [lost]})


def test_files_of_any_kind_are_in_the_commits_as_they_are(made) -> None:
    made.write(
        {
            "tests/data/latin.txt": "caf\xe9\r\n".encode("latin-1"),
            "tests/data/with space and ü.bin": bytes(range(256)),
            "run.sh": "#!/bin/sh\n",
            ".gitattributes": "* text eol=crlf export-ignore\n*.py -diff\n",
            "shapes/__pycache__/areas.cpython-311.pyc": b"compiled",
        }
    )
    (made.source / "run.sh").chmod(0o755)
    (made.source / "link").symlink_to("README")
    made.plan()
    name = made.bug("shapes/areas.py", "side * side", "side", f"{AREAS}::test_square")
    gather(made.folder)
    tasks = made.folder.tasks
    instance = load(tasks / "tasks.jsonl", places={"shapes": place_of(tasks)}).instances[0]
    bases = Bases()  # its folders are there as long as it is
    base = bases._of(instance)
    hidden = {AREAS}
    for path in made.source.rglob("*"):
        relative = str(path.relative_to(made.source))
        if path.is_dir() or "__pycache__" in relative or relative == "shapes/areas.py":
            continue
        assert (base.graded / relative).read_bytes() == path.read_bytes(), relative
        assert (base.agent / relative).exists() == (relative not in hidden)
    assert os.readlink(base.agent / "link") == "README"
    assert os.access(base.agent / "run.sh", os.X_OK)
    assert not (base.agent / "shapes" / "__pycache__").exists()
    assert "@@" in rows_of(tasks)[name]["patch"]


def test_a_file_of_tests_that_is_no_utf_8_comes_back_as_it_was(made) -> None:
    latin = b"# -*- coding: latin-1 -*-\n# caf\xe9\n\ndef test_cafe():\n    pass\n"
    made.write({"tests/test_latin.py": latin})
    made.plan(tests=("tests/test_latin.py::test_cafe",))
    made.bug("shapes/areas.py", "side * side", "side", "tests/test_latin.py::test_cafe")
    gather(made.folder)
    tasks = made.folder.tasks
    instance = load(tasks / "tasks.jsonl", places={"shapes": place_of(tasks)}).instances[0]
    bases = Bases()  # its folders are there as long as it is
    base = bases._of(instance)
    assert not (base.agent / "tests" / "test_latin.py").exists()
    assert (base.graded / "tests" / "test_latin.py").read_bytes() == latin


async def test_line_ends_of_the_code_stay_what_they_are(made) -> None:
    code = "def one():\r\n    return 1\r\n\r\ndef two():\r\n    return 2"
    made.write({"shapes/names.py": code})
    made.plan()
    made.bug("shapes/names.py", "return 2", "return 3\r\n    return 2", f"{NAMES}::test_title")
    gather(made.folder)
    tasks = made.folder.tasks
    instance = load(tasks / "tasks.jsonl", places={"shapes": place_of(tasks)}).instances[0]
    bases = Bases()
    base = bases._of(instance)
    assert b"return 3\r\n" in (base.agent / "shapes" / "names.py").read_bytes()
    change = await bases.reference(instance)
    assert [each.content for each in change] == [code.encode()]


def test_runners_that_name_no_file_hide_what_is_in_all_files_of_tests(made) -> None:
    made.project |= {
        "runner": "ctest",
        "test_command": ("sh", "tests/run.sh"),
        "report": "Test.xml",
        "code": ("shapes.cpp",),
        "tests": ("tests/run.sh", "tests/shapes.cpp"),
    }
    made.write(
        {
            "shapes.cpp": "int square(int side) { return side * side; }\n",
            "tests/run.sh": "true\n",
            "tests/shapes.cpp": "int main() { return 0; }\n",
        }
    )
    made.plan(tests=("square", "rectangle"))
    name = made.bug("shapes.cpp", "side * side", "side", "square")
    gather(made.folder)
    row = rows_of(made.folder.tasks)[name]
    files = files_at(made.folder.tasks, row["base_commit"])
    assert [files[path] for path in made.project["tests"]] == ["", ""], "there for the build"
    text = (made.folder.tasks / "scenario.py").read_text()
    assert 'runner="ctest",\n    report="Test.xml",\n' in text
    place = Place(
        source=str(made.folder.tasks / "repository"),
        runner="ctest",
        test_command=("sh", "tests/run.sh"),
        report="Test.xml",
    )
    loaded = load(made.folder.tasks / "tasks.jsonl", places={"shapes": place}).instances[0]
    assert Instance.of(loaded.task()).runner == "ctest"
    bases = Bases()
    base = bases._of(loaded)
    for path in made.project["tests"]:
        assert (base.graded / path).read_bytes() == (made.source / path).read_bytes()
        assert (base.agent / path).read_bytes() == b""


def test_what_models_took_for_bug_and_text_is_added_up(made) -> None:
    made.plan()
    name = made.bug("shapes/areas.py", "side * side", "side", f"{AREAS}::test_square", usd=0.25)
    made.say(name, "It does not work.", source="model", usd=0.5)
    gather(made.folder)
    assert rows_of(made.folder.tasks)[name]["usd"] == 0.75
