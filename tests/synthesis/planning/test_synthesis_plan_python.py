"""Which Python the clean tests run with is said where it is not that of the environment."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rolecraft.cli.main import app
from rolecraft.errors import UsageError
from rolecraft.synthesis.planning.metadata import Metadata, read_metadata
from rolecraft.synthesis.planning.python_version import check_python, is_older, version_of

Project = Callable[[dict[str, str]], Path]
MakeVenv = Callable[[str], Path]

THIS = f"python3.{sys.version_info.minor}"
FILES = {
    "shapes.py": "def area(side):\n    return side * side\n",
    "tests/test_area.py": (
        "from shapes import area\n\n\ndef test_area():\n    assert area(2) == 4\n"
    ),
}


@pytest.fixture
def closed_venv(bare_environment: Path) -> Iterator[MakeVenv]:
    """Makes a venv whose Python is where only root may look, as one of pyenv below `/root` is."""
    if os.geteuid() != 0:
        pytest.skip("sandboxes are run by nobody under root only")
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="rolecraft-test-") as place:
        os.chmod(place, 0o755)

        def make(python: str) -> Path:
            closed, venv = Path(place, "closed", "bin"), Path(place, "venv")
            closed.mkdir(parents=True)
            closed.parent.chmod(0o700)
            shutil.copy(Path(sys.executable).resolve(), closed / python)
            (venv / "bin").mkdir(parents=True)
            (venv / "bin" / "python").symlink_to(closed / python)
            shutil.copytree(bare_environment, venv / "lib" / python / "site-packages")
            return venv

        yield make


def plan(source: Path, out: Path, venv: Path, code: int = 0) -> str:
    words = ("synth", "plan", source, "--out", out, "--environment", venv)
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == code, (done.stdout, done.stderr)
    return done.stdout + done.stderr


def test_another_python_than_that_of_the_environment_is_a_warning(
    closed_venv: MakeVenv, project: Project, tmp_path: Path
) -> None:
    """It was silent, and programs that the tests started did not find pytest."""
    if not any(Path(folder, THIS).exists() for folder in ("/usr/bin", "/usr/local/bin")):
        pytest.skip(f"sandboxes have no `{THIS}`")
    venv = closed_venv(THIS)
    said = plan(project(FILES), tmp_path / "out", venv)
    assert f"The tests run with `{THIS}` of the sandbox, and a program" in said
    assert f"is below `{venv.parent / 'closed'}`, into which only its owner may look" in said


def test_a_python_that_sandboxes_do_not_have_is_an_error_that_says_where_it_is(
    closed_venv: MakeVenv, project: Project, tmp_path: Path
) -> None:
    """It said `python3.12: not found` of one that was there."""
    venv = closed_venv("python3.99")
    said = plan(project(FILES), tmp_path / "out", venv, code=2)
    assert "sandboxes have no `python3.99`, and the environment's own, `" in said
    assert "`chmod o+x " in said


@pytest.mark.parametrize(
    ("version", "requires", "older"),
    [
        ((3, 11, 7), ">=3.13", True),
        ((3, 11), ">=3.11.9", False),  # of one whose last number is not known
        ((3, 11, 7), ">=3.9,<3.11", False),  # the clean tests know better
        ((3, 11, 7), "^3.12", True),
        ((3, 11, 7), "~=3.8", False),
        ((3, 11, 7), "!=3.0.*, >= 3.11.8", True),
        ((3, 11, 7), "", False),
        ((3, 11, 7), "whatever", False),
    ],
)
def test_a_python_is_too_old_by_the_lower_bound(
    version: tuple[int, ...], requires: str, older: bool
) -> None:
    assert is_older(version, requires) is older


@pytest.mark.parametrize(
    "files",
    [
        {"pyproject.toml": '[project]\nname = "a"\nrequires-python = ">=3.99"\n'},
        {"pyproject.toml": '[tool.poetry.dependencies]\npython = ">=3.99"\n'},
        {"PKG-INFO": "Name: a\nRequires-Python: >=3.99\n"},
        {"setup.cfg": "[options]\npython_requires = >=3.99\n"},
        {"setup.py": "import setuptools\nsetuptools.setup(python_requires='>=3.99')\n"},
    ],
)
def test_a_project_of_a_newer_python_is_refused(
    files: dict[str, str], project: Project, tmp_path: Path
) -> None:
    """Its tests failed with whatever the older one did not know."""
    source = project({**FILES, **files})
    assert read_metadata(source).python == ">=3.99"
    venv = tmp_path / "venv"
    venv.mkdir()
    (venv / "pyvenv.cfg").write_text("home = /usr/bin\nversion_info = 3.10.4.final.0\n")
    said = plan(source, tmp_path / "out", venv, code=2)
    assert "needs Python >=3.99, and `--environment" in said
    assert "3.10.4: give a venv of a newer Python" in said


def test_the_python_by_which_pip_makes_an_environment_is_this_one() -> None:
    check_python(Metadata(name="a", python=">=3.8"), None)
    with pytest.raises(UsageError, match=r"pip makes an environment with this one, 3\."):
        check_python(Metadata(name="a", python=">=3.99"), None)


def test_a_folder_of_packages_has_no_python_to_be_too_old(tmp_path: Path) -> None:
    assert version_of(tmp_path) is None
    check_python(Metadata(name="a", python=">=3.99"), tmp_path)
    (tmp_path / "lib" / "python3.12").mkdir(parents=True)
    assert version_of(tmp_path) == (3, 12)
