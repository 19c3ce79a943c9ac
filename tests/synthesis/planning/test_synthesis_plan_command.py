"""`rolecraft synth plan` as it is typed: its summary, its JSON, its exit codes."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rolecraft.cli.main import app
from rolecraft.environments.software_engineering.examples.fetch import (
    PackagesUnavailable,
    fetch,
    packages,
)
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.plan import Plan
from rolecraft.synthesis.planning.summary import Summary
from rolecraft.synthesis.project import Project as About
from rolecraft.synthesis.suite import Suite

Project = Callable[..., Path]
PROJECT = About(name="p", version="1", source="p", code=("p.py",), tests=("t.py",))

TEST = "from shapes import area\n\n\ndef test_area():\n    assert area(2) == 4\n"
FILES = {
    "shapes.py": "def area(side):\n    return side * side\n",
    "tests/test_area.py": TEST,
}


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that sandboxes can read, unlike pytest's own under root."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="rolecraft-test-") as place:
        os.chmod(place, 0o755)
        yield Path(place)


def run(*words: str | Path, code: int = 0) -> tuple[str, str]:
    """What a command says on stdout and on stderr."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == code, (done.stdout, done.stderr)
    return done.stdout, done.stderr


def test_the_summary_says_what_was_found_and_what_comes_next(
    project: Project, bare_environment: Path, tmp_path: Path
) -> None:
    source, out = project(FILES), tmp_path / "out"
    said, told = run("synth", "plan", source, "--out", out, "--environment", bare_environment)
    assert "1 file, 1 function or class" in said
    assert "1 that pass" in said
    assert f"Next: rolecraft synth plant {out}" in told
    assert "The clean tests, the second time" in told
    # The plan is there now, and reading it takes no tests.
    said, told = run(
        "synth", "plan", source, "-o", out, "--environment", bare_environment, "--json"
    )
    assert json.loads(said)["passing"] == 1
    assert "is there already" in told


def test_what_cannot_be_planned_is_wrong_usage_in_one_line(
    project: Project, bare_environment: Path, tmp_path: Path
) -> None:
    source = project({"shapes.py": FILES["shapes.py"]})
    out = tmp_path / "out"
    words = ("synth", "plan", source, "--out", out, "--environment", bare_environment)
    _, told = run(*words, code=2)
    assert told.splitlines()[-1].startswith(f"rolecraft: `{source}` has no tests: ")
    assert not (tmp_path / "out").exists(), "nothing is left of a plan that is none"
    (tmp_path / "out").mkdir()
    run(*words, code=2)
    assert (tmp_path / "out").exists(), "a folder of the user's own stays"


def test_the_summary_counts_what_was_set_aside_by_reason_and_names_the_first() -> None:
    aside = {"t.py::a": "flaky", "t.py::b": "fails: 1 != 2", "t.py::c": "fails: no file"}
    suite = Suite(outcomes={"t.py::d": "passed"}, set_aside=aside)
    rows = Summary.of(Plan(PROJECT, suite)).rows()
    assert ("set aside", "2 fails: t.py::b (1 != 2), …") in rows
    assert ("", "1 flaky: t.py::a") in rows


def test_the_summary_counts_skipped_tests_and_names_what_git_ignores() -> None:
    suite = Suite(outcomes={"t.py::a": "passed", "t.py::b": "skipped"}, wall_seconds=1.0)
    rows = Summary.of(Plan(PROJECT, suite, {"left_out": [".env", *"abcdef"]})).rows()
    assert ("tests", "1 that pass, 1 that are skipped, in 1.0 s") in rows
    assert ("left out", "7 that git ignores: .env, a, b, c, d, …") in rows
    rows = Summary.of(Plan(PROJECT, Suite(outcomes={"t.py::a": "passed"}))).rows()
    assert ("tests", "1 that pass, in 0.0 s") in rows
    assert "left out" not in dict(rows)


def test_make_takes_the_options_of_plan_and_goes_on_with_the_plan_that_is_there(
    project: Project, bare_environment: Path, tmp_path: Path
) -> None:
    """Its errors named options that it did not have."""
    code = "def area(side):\n    if side < 0:\n        raise ValueError('negative')\n"
    source = project({"shapes.py": f"{code}    return side * side\n"})
    tests = "import pytest\nfrom shapes import area\n\n\n"
    for number, line in enumerate(("area(3) == 9", "area(0) == 0", "area(-1)", "area(2) == 5")):
        tests += f"def test_{number}():\n    assert {line}\n\n\n"
    tests = tests.replace(
        "    assert area(-1)", "    with pytest.raises(ValueError):\n        area(-1)"
    )
    given = project({"test_area.py": tests}, "given")
    out = tmp_path / "out"
    words: list[str | Path] = [
        "synth",
        "make",
        source,
        "--out",
        out,
        "--environment",
        bare_environment,
    ]
    assert "Give their folder with --tests." in run(*words, code=2)[1]
    words += ["--tests", given]
    assert "(--most-failing)" in run(*words, code=2)[1]
    words += ["--most-failing", "0.5"]
    run("synth", "plan", *words[2:])
    said, told = run(*words, "--most", "9")
    assert "is there already" in told
    assert "given/test_area.py::test_3" in said


def skip_without_index(told: str) -> None:
    if "package index" in told:
        pytest.skip("needs pip's package index")


@pytest.mark.slow
def test_the_environment_has_what_the_tests_need_and_the_projects_metadata(
    project: Project, open_folder: Path
) -> None:
    """By pip: pytest, the dependencies, the extra `test`. The project itself is not installed."""
    files = {
        **FILES,
        "pyproject.toml": '[project]\nname = "Shapes"\nversion = "1.5"\n'
        'dependencies = ["iniconfig"]\n[project.scripts]\nshapes = "shapes:area"\n'
        '[project.optional-dependencies]\ntest = ["pytest-subtests"]\ndev = ["sphinx"]\n',
        "shapes.py": "import importlib.metadata\n\n"
        'VERSION = importlib.metadata.version("shapes")\n' + FILES["shapes.py"],
        "tests/test_version.py": "import importlib.metadata as m\nimport shapes\n\n\n"
        "def test_version():\n    assert shapes.VERSION == '1.5'\n"
        "    assert m.entry_points(group='console_scripts')['shapes']\n"
        "    assert shapes.area(1) == 1\n",
    }
    command = ("synth", "plan", project(files), "--out", open_folder / "out", "--json")
    done = CliRunner().invoke(app, [str(word) for word in command])
    skip_without_index(done.stderr)
    said = json.loads(done.stdout)
    assert said["passing"] == 2
    names = {each.partition("==")[0].lower() for each in said["installed"]}
    assert {"pytest", "iniconfig", "pytest-subtests"} <= names
    assert not {"sphinx", "shapes"} & names
    # A plan that is gone is made again, in the venv that is there.
    folder = SynthesisFolder(open_folder / "out")
    made = folder.environment.stat().st_ctime_ns
    folder.plan.unlink()
    shutil.rmtree(folder.source)
    again = json.loads(run(*command)[0])
    assert again["installed"] == said["installed"]
    assert folder.environment.stat().st_ctime_ns == made


@pytest.mark.slow
def test_a_real_package_from_its_source_archive(open_folder: Path) -> None:
    try:
        fetched = fetch()
    except PackagesUnavailable as error:
        pytest.skip(f"needs {', '.join(error.missing)}")
    source = fetched.source(packages()["sqlparse"])
    words = ("--out", open_folder / "out", "--environment", fetched.environment)
    said = json.loads(run("synth", "plan", source, *words, "--json")[0])
    assert (said["name"], said["version"]) == ("sqlparse", "0.5.3")
    assert said["files"] == 21
    assert said["passing"] >= 460
    plan = Plan.load(SynthesisFolder(open_folder / "out"))
    assert not plan.suite.set_aside
    assert "tests/conftest.py" in plan.project.tests
    assert not {path for path in plan.project.code if not path.startswith("sqlparse/")}
    # Nothing but a few tests runs what splits lines.
    text = plan.reader()("sqlparse/utils.py").splitlines()
    line = text.index("    outputlines = ['']") + 1
    seeing = plan.suite.seeing({"sqlparse/utils.py": [line]})
    assert seeing is not None
    assert 0 < len(seeing) < 0.5 * said["passing"]
