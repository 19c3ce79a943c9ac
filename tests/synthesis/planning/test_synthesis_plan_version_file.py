"""Packages whose build writes a module with the version, planned as they lie in git."""

from __future__ import annotations

import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from rolecraft.errors import UsageError
from rolecraft.synthesis.plan import Plan
from rolecraft.synthesis.planning.metadata import Metadata, read_metadata
from rolecraft.synthesis.planning.version_file import with_version_file

Files = dict[str, str]
SHAPES = """from shapes._version import version as __version__


def area(side):
    return side * side
"""
FILES = {
    "pyproject.toml": (
        '[build-system]\nrequires = ["setuptools", "setuptools_scm"]\n'
        '[project]\nname = "shapes"\ndynamic = ["version"]\n'
        '[tool.setuptools_scm]\nversion_file = "shapes/_version.py"\n'
    ),
    "shapes/__init__.py": SHAPES,
    "tests/test_shapes.py": (
        "import shapes\n\n\n"
        "def test_area():\n    assert shapes.area(3) == 9\n\n\n"
        "def test_version():\n    assert shapes.__version__\n"
    ),
}


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True)


async def test_a_folder_without_its_version_file_gets_one(
    planned: Callable[..., Awaitable[Plan]],
) -> None:
    """Its tests could not import it, and the error said that something is not installed."""
    plan = await planned(FILES)
    assert len(plan.suite.passing) == 2
    assert plan.project.version == "0.0.0", "nothing says another"
    assert "version_tuple = (0, 0, 0)" in plan.reader()("shapes/_version.py")
    assert "shapes/_version.py" not in plan.project.code


@pytest.mark.parametrize(
    ("tag", "commits", "version"), [("v1.4.0", 0, "1.4.0"), ("shapes-2.1", 2, "2.2.dev2")]
)
def test_the_version_is_that_of_the_last_tag(
    tmp_path: Path, needs_program: Callable[..., None], tag: str, commits: int, version: str
) -> None:
    needs_program("git", package="git")
    (tmp_path / "pyproject.toml").write_text('[tool.setuptools_scm]\nwrite_to = "a/_version.py"\n')
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "one")
    git(tmp_path, "tag", tag)
    for _ in range(commits):
        git(tmp_path, "commit", "-qm", "more", "--allow-empty")
    made = with_version_file(Metadata(name="a"), tmp_path, tmp_path)
    assert made.version == version
    said: dict[str, object] = {}
    exec((tmp_path / "a/_version.py").read_text(), said)
    assert said["version"] == said["__version__"] == version


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (
            {
                "pyproject.toml": '[tool.hatch.build.hooks.vcs]\nversion-file = "a/_version.py"\n'
                "template = '''VERSION = \"{version}\"'''\n"
            },
            'VERSION = "1.5"',
        ),
        (
            {"pyproject.toml": '[tool.pdm.version]\nsource = "scm"\nwrite_to = "a/_version.py"\n'},
            '__version__ = "1.5"\n',
        ),
        (
            {
                "setup.py": "from setuptools import setup\n"
                'setup(use_scm_version=dict(write_to="a/_version.py", local_scheme=f))\n'
            },
            "version = '1.5'",
        ),
    ],
    ids=["hatch-vcs", "pdm", "setup.py"],
)
def test_each_tools_settings_are_known(tmp_path: Path, settings: Files, text: str) -> None:
    for name, content in settings.items():
        (tmp_path / name).write_text(content)
    with_version_file(Metadata(name="a", version="1.5"), tmp_path, tmp_path)
    assert text in (tmp_path / "a/_version.py").read_text()


def test_a_file_that_is_there_and_one_outside_of_the_project_are_left_alone(
    tmp_path: Path,
) -> None:
    clean, there = tmp_path / "clean", "__version__ = version = '3'\n"
    (clean / "a").mkdir(parents=True)
    (clean / "a/_version.py").write_text(there)
    (clean / "pyproject.toml").write_text(
        '[project]\nname = "a"\n'
        '[tool.setuptools_scm]\nwrite_to = "a/_version.py"\nversion_file = "../outside.py"\n'
    )
    assert with_version_file(read_metadata(clean), clean, clean).version == "3"
    assert (clean / "a/_version.py").read_text() == there
    assert not (tmp_path / "outside.py").exists()


async def test_what_another_build_makes_is_named_with_the_way_out(
    planned: Callable[..., Awaitable[Plan]],
) -> None:
    files = {**FILES, "pyproject.toml": '[project]\nname = "shapes"\nversion = "1"\n'}
    with pytest.raises(UsageError, match=r"`shapes\._version` is a module of shapes itself.*-e \."):
        await planned(files)
