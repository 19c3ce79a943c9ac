"""A source that has changed is noticed, and what an error says to type leads out.

`plan` of a changed project ended well with the old copy of it; and "Make the plan anew: rolecraft
synth plan" led to "The plan is there already".
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rolecraft.cli.main import app
from rolecraft.synthesis.candidates import Candidate
from rolecraft.synthesis.difficulty.attempts import Attempt, open_attempts
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.ledger import Ledger
from rolecraft.synthesis.plan import Plan
from rolecraft.synthesis.planning.anew import command, digest_of
from rolecraft.synthesis.planning.make import _said
from rolecraft.synthesis.planning.settings import PlanSettings

Project = Callable[[dict[str, str]], Path]
CODE = "def area(side):\n    return side * side\n\n\ndef edge(area):\n    return area**0.5\n"
FILES = {
    "shapes.py": CODE,
    "README": "Shapes.\n",
    "tests/test_area.py": "from shapes import area, edge\n\n\ndef test_area():\n"
    "    assert area(3) == 9\n\n\ndef test_edge():\n    assert edge(9) == 3\n",
}


def run(*words: str | Path, code: int = 0) -> str:
    """What a command says."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == code, (words, done.stdout, done.stderr)
    return done.stdout + done.stderr


def run_what_is_said(text: str, *options: str | Path) -> str:
    """Type the command that a message names."""
    (named,) = re.findall(r"`rolecraft (synth plan [^`]+)`", text)
    return run(*shlex.split(named), *options)


@pytest.fixture
def planned(
    project: Project, bare_environment: Path, tmp_path: Path, needs_program: Any
) -> tuple[Path, SynthesisFolder, tuple[str | Path, ...]]:
    """A source, the folder with its plan, and the command that made it."""
    needs_program("bwrap", package="bubblewrap")
    source, out = project(FILES), tmp_path / "out"
    words = ("synth", "plan", source, "--out", out, "--environment", bare_environment)
    run(*words)
    return source, SynthesisFolder(out), words


def bug(folder: SynthesisFolder) -> None:
    """Something of each kind that is made from a plan."""
    run("synth", "plant", folder.path)
    run("synth", "validate", folder.path, "--cap", "1", "--stop-after", "1", "--workers", "1")
    for path in (folder.written, folder.texts):
        path.write_text("not read\n")
    with open_attempts(folder) as ledger:
        ledger.append(Attempt(task="t", solver="s", number=1, resolved=True))
    for path in (
        *("attempts/s/t/r1.jsonl", "tasks/tasks.jsonl", "tasks/tasks.parquet"),
        *("tasks/patches/t.bug.patch", "tasks/patches/t.fix.patch", "tasks/repository/HEAD"),
        *("tasks/scenario.py", "tasks/patches/mine.patch", "tasks/notes/a.md"),
    ):
        (folder.path / path).parent.mkdir(parents=True, exist_ok=True)
        (folder.path / path).touch()


def made_from_the_plan(folder: SynthesisFolder) -> list[str]:
    paths = (path.relative_to(folder.path) for path in folder.path.rglob("*") if path.is_file())
    return sorted(str(path) for path in paths if path.parts[0] not in ("plan.json", "source"))


def test_a_changed_source_is_refused_and_the_command_that_is_named_plans_it(planned) -> None:
    source, folder, words = planned
    bug(folder)
    assert len(made_from_the_plan(folder)) == 15
    kept = {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}
    changed = CODE.replace("side * side", "side**2")
    (source / "shapes.py").write_text(changed)
    said = run(*words, code=2)
    assert f"`{source}` has changed since the plan in `{folder.path}` was made" in said
    assert "deletes the bugs and tasks" in said
    assert {path: path.read_bytes() for path in kept} == kept, "a refusal loses nothing"
    run_what_is_said(said)
    assert (folder.source / "shapes.py").read_text() == changed
    assert made_from_the_plan(folder) == [
        *("tasks/notes/a.md", "tasks/patches/mine.patch", "tasks/scenario.py")
    ], "what was made from the old plan is not mixed in, and what is the user's stays"
    assert "is there already" in run(*words)


def test_tools_leave_things_behind_and_a_source_that_is_gone_has_not_changed(planned) -> None:
    source, folder, words = planned
    for litter in ("__pycache__/shapes.pyc", ".mypy_cache/a", "shapes.egg-info/PKG-INFO"):
        (source / litter).parent.mkdir(exist_ok=True)
        (source / litter).write_text("x")
    assert "is there already" in run(*words)
    shutil.rmtree(source)
    assert "is there already" in run(*words)
    assert not [*folder.path.glob(".source*")], "nothing is left of looking at the source"


def test_clean_tests_that_no_longer_do_what_the_plan_says_name_the_command_that_mends_it(
    planned,
) -> None:
    _, folder, _ = planned
    said = json.loads(folder.plan.read_text())
    said["suite"]["outcomes"]["tests/test_area.py::test_that_was_there"] = "passed"
    folder.plan.write_text(json.dumps(said))
    run("synth", "plant", folder.path)
    told = run("synth", "validate", folder.path, "--workers", "1", code=2)
    assert "do not do what the plan says: not passed: tests/test_area.py::test_that_was" in told
    run_what_is_said(told)
    run("synth", "plant", folder.path)
    run("synth", "validate", folder.path, "--workers", "1")


@pytest.mark.parametrize("broken", [None, "{}", '{"version": 99}'])
def test_a_plan_that_is_gone_or_none_names_the_command_that_makes_it_anew(planned, broken) -> None:
    source, folder, words = planned
    run("synth", "plant", folder.path)
    folder.plan.unlink() if broken is None else folder.plan.write_text(broken)
    said = run(*words, code=2)
    run_what_is_said(said.replace("PATH", str(source)), *words[-2:])
    assert made_from_the_plan(folder) == []


def test_other_settings_name_the_command_that_has_them(planned) -> None:
    _, folder, words = planned
    said = run(*words, "--test-seconds", "7.5", "--test-command=-p no:cacheprovider", code=2)
    run_what_is_said(said)
    asked = Plan.load(folder).about["asked"]
    assert (asked["test_seconds"], asked["test_command"]) == (7.5, ["-p", "no:cacheprovider"])


def test_the_named_command_says_every_setting_that_was_given(tmp_path: Path) -> None:
    given = PlanSettings(
        tests=tmp_path / "my tests",
        environment=tmp_path / "venv",
        runner="junit",
        test_command=("sh", "-c", "run 'all of them'"),
        report="out/report.xml",
        pure=True,
        most_failing=0.0,
        test_seconds=3.0,
        suite_seconds=7.0,
    )
    asked = json.loads(json.dumps(_said(tmp_path / "a b", given)))
    words = shlex.split(command(asked, SynthesisFolder(tmp_path / "out")))
    assert words[:6] == [
        *("rolecraft", "synth", "plan", str(tmp_path / "a b"), "--out", str(tmp_path / "out"))
    ]
    options = dict(zip(words[6::2], words[7::2], strict=False))
    assert options["--tests"] == str(tmp_path / "my tests")
    assert shlex.split(options["--test-command"]) == list(given.test_command)
    assert {"--pure", "--new"} <= set(words)
    assert words[words.index("--most-failing") + 1] == "0.0"
    assert "--most-failing" not in command({}, SynthesisFolder(tmp_path))


def test_what_is_no_project_costs_nothing_of_the_plan_that_is_there(planned) -> None:
    _, folder, words = planned
    run("synth", "plant", folder.path)
    there = sorted(folder.path.rglob("*"))
    said = run("synth", "plan", folder.path / "none", "--out", folder.path, "--new", code=2)
    assert "is not there" in said
    assert sorted(folder.path.rglob("*")) == there
    assert "is there already" in run(*words)


HOLDS = """
import sys
from pathlib import Path
from rolecraft.synthesis.candidates import Candidate
from rolecraft.synthesis.ledger import Ledger

with Ledger(Path(sys.argv[1]), Candidate, key=lambda each: each.id):
    print("at work", flush=True)
    sys.stdin.readline()
"""


def test_nothing_is_deleted_under_another_process_that_writes_it(planned) -> None:
    _, folder, words = planned
    run("synth", "plant", folder.path)
    there = sorted(folder.path.rglob("*"))
    other = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(folder.candidates)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "at work\n"
    done = CliRunner().invoke(app, [str(word) for word in (*words, "--new")])
    other.communicate("\n", timeout=60)
    assert done.exit_code != 0
    assert f"another process ({other.pid})" in done.output
    assert sorted(folder.path.rglob("*")) == there
    with Ledger(folder.candidates, Candidate, key=lambda each: each.id) as ledger:
        assert len(ledger)


def test_everything_that_is_copied_counts_for_the_digest_of_a_source(
    project: Project, tmp_path: Path
) -> None:
    source = project(FILES)
    known = [digest_of(source)]
    (source / "shapes.pyc").touch()
    shutil.copytree(source, tmp_path / "copy")
    assert [digest_of(source), digest_of(tmp_path / "copy")] == known * 2
    (source / "link").symlink_to("README")
    known.append(digest_of(source))
    (source / "README").chmod(0o755)
    known.append(digest_of(source))
    (source / "README").write_text("Others.\n")
    known.append(digest_of(source))
    (source / "README").rename(source / "READ")
    known.append(digest_of(source))
    assert len({*known}) == 5


def test_an_archive_with_the_same_files_is_the_same_source(
    bare_environment: Path, tmp_path: Path, needs_program: Any
) -> None:
    """A release that is built again differs in its times alone."""
    needs_program("bwrap", package="bubblewrap")
    archive, out = tmp_path / "shapes-1.0.zip", tmp_path / "out"
    words = ("synth", "plan", archive, "--out", out, "--environment", bare_environment)

    def write(files: dict[str, str], year: int) -> None:
        with zipfile.ZipFile(archive, "w") as made:
            for name, text in files.items():
                made.writestr(zipfile.ZipInfo(f"shapes/{name}", (year, 1, 1, 0, 0, 0)), text)

    write(FILES, 2001)
    run(*words)
    write(FILES, 2002)
    assert "is there already" in run(*words)
    write(FILES | {"README": "Others.\n"}, 2002)
    assert "has changed since the plan" in run(*words, code=2)
