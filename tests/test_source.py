"""Habits of the source that no linter knows."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "rolecraft"


def environment_reads(tree: ast.AST) -> Iterator[int]:
    """Lines that read or set environment variables, however `os` was imported."""
    names = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name, lineno=line) if name in names:
                yield line
            case ast.ImportFrom(lineno=line, names=imported):
                if any(alias.name in names for alias in imported):
                    yield line


# LiteLLM's import takes two switches from the environment and from nowhere else: they are set for
# that import alone, and put back. vLLM's server gets a copy of the variables with its key, which no
# command line may show. The guard of tests, and what lists tests, clear variables in the sandbox in
# which they are run. A run in the background is marked by a variable that its processes inherit;
# workers of a distributed one are told their rank by variables, as torch wants it.
MAY_SET_VARIABLES = {
    "rolecraft/environments/software_engineering/_collect.py",
    "rolecraft/environments/software_engineering/_guard.py",
    "rolecraft/models/_litellm.py",
    "rolecraft/models/_vllm_process.py",
    "rolecraft/synthesis/planning/_probe.py",
    "rolecraft/synthesis/validation/_fork_server.py",
    "rolecraft/training/_hub_download.py",
    "rolecraft/training/background/_supervisor.py",
    "rolecraft/training/background/launch.py",
    "rolecraft/training/ranks.py",
}


def test_no_environment_variable_is_read_below_the_command_line() -> None:
    """Settings are explicit objects: what a program does is written in the program."""
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).parts[0] != "cli"
        and path.relative_to(ROOT).as_posix() not in MAY_SET_VARIABLES
        for line in environment_reads(ast.parse(path.read_text("utf-8")))
    ]
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        "import os\nos.environ['A']",
        "import os as o\no.getenv('A')",
        "from os import environ as e",
        "import os\nos.environ.get('A')",
    ],
)
def test_the_check_for_environment_variables_sees_every_spelling(code: str) -> None:
    assert list(environment_reads(ast.parse(code)))


# Spelt in pieces, so that this file does not find itself.
MACHINE_PATHS = [
    r"/work/" + r"(?:main|shared)",
    r"(?<!\w)/root" + "/",
    r"/home/" + r"[a-z]",
    "/Users" + "/",
]
REGISTRY_HOSTS = [
    "py" + r"pi\.org",
    "python" + r"hosted\.org",
    "download" + r"\.pytorch\.org",
    "registry" + r"\.npmjs",
    "deb" + r"\.debian\.org",
    r"--(?:extra-)?index-" + r"url[ =]\S+://",
]


def tracked_files() -> list[Path]:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    return [path for path in paths if path.is_file()]


def test_no_tracked_file_names_a_machine_path_or_a_registry() -> None:
    """A clone works on any machine and with any mirror."""
    wrong = re.compile("|".join(MACHINE_PATHS + REGISTRY_HOSTS).encode())
    found = [
        f"{path.relative_to(ROOT)}: {match[0].decode()}"
        for path in tracked_files()
        if (match := wrong.search(path.read_bytes()))
        or (match := wrong.search(bytes(path.name, "utf-8")))
    ]
    assert found == []


def test_every_data_file_of_the_package_is_installed_with_it() -> None:
    """An editable install finds everything; a wheel has only what `package-data` names."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    named = settings["tool"]["setuptools"]["package-data"]
    installed = {
        path
        for package, patterns in named.items()
        for pattern in patterns
        for path in (ROOT / package.replace(".", "/")).glob(pattern)
    }
    data = {path for path in tracked_files() if PACKAGE in path.parents and path.suffix != ".py"}
    assert data - installed == set()
