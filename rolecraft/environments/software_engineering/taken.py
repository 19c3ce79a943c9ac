"""Which edits of a patch are graded: those to the code. The others are dropped, and reported.

Dropped is what could change the verdict without mending anything: tests and what belongs to them,
what steers the test runner or the interpreter before the code under test is even imported, and
modules that would be imported in place of the runner's own. A file that the reference changes is
never taken for a test, and neither is a new module, outside of the folders of tests, that defines
none.

Of runners other than pytest it is also what says which tests there are and how they are built,
unless the reference changes that very file.
"""

from __future__ import annotations

import ast
import configparser
import os
import re
import shlex
import sys
import tomllib
from collections.abc import Iterable, Set
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rolecraft.environments.software_engineering._parsing import parse
from rolecraft.environments.software_engineering.instances import Instance
from rolecraft.environments.software_engineering.patches import Change, content_before

STEERING = frozenset(
    (
        *("conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml"),
        *("sitecustomize.py", "usercustomize.py", "pyvenv.cfg", ".coveragerc", "noxfile.py"),
        *(".env", ".envrc", ".pytest_env", "python._pth"),
    )
)
"""Files that steer the runner or the interpreter, wherever they lie."""
SETTINGS = frozenset(("setup.cfg", "tox.ini", "pyproject.toml"))
"""Files that steer the runner by a section: dropped if that section is changed."""
ORDER = (
    *("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini"),
    *("pyproject.toml", "tox.ini", "setup.cfg"),
)
"""Where pytest looks for its settings in a folder. The first four count even without any."""
BUILD = frozenset(
    (
        *("CMakeLists.txt", "CMakePresets.json", "CMakeUserPresets.json", "CMakeCache.txt"),
        *("CTestCustom.ctest", "DartConfiguration.tcl", "CTestConfiguration.ini"),
        *("Makefile", "makefile", "GNUmakefile", "Makefile.in", "Makefile.am", "configure"),
        *("configure.ac", "meson.build", "meson.options", "meson_options.txt", "build.ninja"),
    )
)
"""Files that say what is built and tested, wherever they lie; not for pytest."""
BUILD_ENDS = (".cmake", ".cmake.in", ".mk", ".ninja")
COMPILED = (
    *(".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx"),
    *(".go", ".rs", ".java", ".kt", ".cs", ".swift"),
)
"""A command that names such a file compiles it: it is code, and no script of the tests."""
RUNNER = frozenset(("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "py", "pygments"))
"""Modules that the runner imports, besides Python's own."""
TEST_NAME = re.compile(r"^(test_.*|.*_test|tests)\.py$")
MOST_PARSED = 2**20
"""What is larger, in bytes, is a test if its name says so."""
TEST_FOLDERS = frozenset(("test", "tests", "testing"))


@dataclass(frozen=True, slots=True)
class Dropped:
    """An edit that is not graded."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Taken:
    """A patch in its two parts."""

    kept: tuple[Change, ...]
    dropped: tuple[Dropped, ...] = ()


def take(
    changes: Iterable[Change], instance: Instance, base: Path, *, installed: Set[str] = frozenset()
) -> Taken:
    """Part a patch of the folder `base`. `installed` are the modules of the environment."""
    tests = TestPaths(instance)
    kept: list[Change] = []
    dropped: list[Dropped] = []
    for change in changes:
        why = (
            _leads_out(change)
            or tests.why(change.path, source=_is_new_source(change, base))
            or _reports(change, instance)
            or _steers(change, base)
            or _builds(change, instance, base, tests.reference)
            or _shadows(change, instance, base, installed)
        )
        if why:
            dropped.append(Dropped(change.path, why))
        else:
            kept.append(change)
    return Taken(tuple(kept), tuple(dropped))


class TestPaths:
    """Tells the tests of an instance from its code."""

    __test__ = False  # pytest takes what is called `Test...` for a test

    def __init__(self, instance: Instance) -> None:
        named = {test_file(test) for test in (*instance.fail_to_pass, *instance.pass_to_pass)}
        named |= set(paths_in(instance.test_patch))
        self.files = named - {""}
        self.hidden = tuple(PurePosixPath(path) for path in instance.hidden)
        self.reference = set(paths_in(instance.patch)) - self.files
        beside = self.files if instance.runner == "pytest" else {*self.files, *instance.hidden}
        self.folders = set(filter(None, map(_test_folder, beside)))

    def why(self, path: str, *, source: bool = False) -> str:
        """Why a path belongs to the tests; empty if it does not. With `source`, it does not by the
        file's own name.
        """
        place = PurePosixPath(path)
        if any(place.is_relative_to(hidden) for hidden in self.hidden):
            return "a hidden test"
        if path in self.files:
            return "a test of the instance"
        if path in self.reference:
            return ""
        if TEST_NAME.match(place.name) and not source:
            return "a test"
        if "tests" in place.parts or any(place.is_relative_to(each) for each in self.folders):
            return "in a folder of tests"
        return ""


def test_file(test: str) -> str:
    """The file of a pytest id; empty for an id that names none."""
    file = test.split("::", 1)[0]
    return str(PurePosixPath(file)) if file.endswith(".py") else ""


test_file.__test__ = False  # type: ignore[attr-defined]


def paths_in(patch: str) -> list[str]:
    """The files that a unified diff names."""
    found = re.findall(r"^(?:\+\+\+ b/|--- a/|rename (?:from|to) )([^\t\n]+)", patch, re.MULTILINE)
    return sorted(set(found))


def installed_modules(environment: str | Path) -> frozenset[str]:
    """The top-level modules of a venv, or of a folder of packages."""
    found: set[str] = set()
    for folder in site_packages(environment):
        for entry in folder.iterdir():
            stem = entry.name.split(".")[0]
            if stem.isidentifier() and (entry.is_dir() or entry.suffix in (".py", ".so")):
                found.add(stem)
    return frozenset(found)


def site_packages(environment: str | Path) -> list[Path]:
    """Where the packages of a venv lie, or the folder itself if it is no venv."""
    path = Path(environment)
    return sorted(path.glob("lib/python3*/site-packages")) or [path]


def _test_folder(file: str) -> str:
    """The outermost folder of tests that a test lies in, if there is one."""
    parts = PurePosixPath(file).parts[:-1]
    for length, part in enumerate(parts, 1):
        if part in TEST_FOLDERS:
            return str(PurePosixPath(*parts[:length]))
    return ""


def _leads_out(change: Change) -> str:
    if change.kind != "link":
        return ""
    target = os.fsdecode(change.content)
    end = os.path.normpath(os.path.join(os.path.dirname(change.path), target))
    out = os.path.isabs(target) or end == ".." or end.startswith("../")
    return f"a link out of the work folder, to {target!r}" if out else ""


def _is_new_source(change: Change, base: Path) -> bool:
    """Whether a file is new and no test, though it is called like one: `stats_test.py`, say.

    What has the name of a module of the base could be imported in its place, so it is not.
    """
    name = PurePosixPath(change.path).name
    if change.kind != "file" or not TEST_NAME.match(name) or len(change.content) > MOST_PARSED:
        return False
    if (base / change.path).exists() or next(base.rglob(name), None):
        return False
    try:
        tree = parse(change.content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return not any(map(_is_test, ast.walk(tree)))


def _is_test(node: ast.AST) -> bool:
    """Whether pytest could take what a node names for a test, whatever brings it there."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return name.startswith("test")
        case ast.ClassDef(name=name, bases=bases):
            return name.startswith("Test") or any("Test" in ast.unparse(base) for base in bases)
        case ast.Name(id=name, ctx=ast.Store()):
            return name.startswith(("test", "Test"))
        case ast.alias(name=name, asname=given):
            return (given or name).startswith(("test", "Test", "*"))
        case _:
            return False


def _reports(change: Change, instance: Instance) -> str:
    """A report that was there before the tests ran would be read as theirs."""
    report = PurePosixPath(instance.report)
    if instance.report and report.is_relative_to(change.path):
        return "the tests' report is written there"
    return ""


def _steers(change: Change, base: Path) -> str:
    name = PurePosixPath(change.path).name
    if name in STEERING or name.endswith(".pth"):
        return "it steers the test runner or the interpreter"
    if name in SETTINGS:
        was = content_before(base, change.path) or b""
        now = change.content if change.kind == "file" else b""
        if change.kind == "link" or _settings(name, was) != _settings(name, now):
            return "it changes settings of the test runner"
    return ""


def _builds(change: Change, instance: Instance, base: Path, reference: Set[str]) -> str:
    """What a build tool or the tests' command takes its orders from, of runners but pytest."""
    if instance.runner == "pytest" or change.path in reference:
        return ""
    path = PurePosixPath(change.path)
    if path.name in BUILD or path.name.endswith(BUILD_ENDS):
        return "it says what is built and tested"
    made = [PurePosixPath(instance.report).parent]
    for word in _words(instance.test_command):
        if word == path and path.suffix not in COMPILED:
            return "the tests' command runs it"
        made.append(word)
    if any(path.is_relative_to(each) and not (base / each).exists() for each in made):
        return "it lies where the tests' command writes"
    return ""


def _words(command: Iterable[str]) -> list[PurePosixPath]:
    """The words of a command and of scripts in it (`sh -c`) that could be paths of the folder."""
    found: list[str] = []
    for each in command:
        try:
            found += shlex.split(each)
        except ValueError:
            found += each.split()
    paths = map(PurePosixPath, found)
    return [
        path for path in paths if path.parts and path.parts[0] != "/" and ".." not in path.parts
    ]


def _settings(name: str, content: bytes) -> object:
    """The sections that pytest reads. What cannot be read is like nothing else."""
    try:
        text = content.decode()
        if name == "pyproject.toml":
            return tomllib.loads(text).get("tool", {}).get("pytest")
        parser = configparser.RawConfigParser(strict=False)
        parser.read_string(text)
        return {
            section: dict(parser[section])
            for section in ("pytest", "tool:pytest")
            if parser.has_section(section)
        }
    except (ValueError, configparser.Error):
        return content


def settings_file(base: Path, instance: Instance) -> str:
    """The file that pytest takes its settings from, by its own rules; empty if there is none.

    That which the instance's command names (`-c`), else the first from the folder that its tests
    have in common upwards.
    """
    command = list(instance.test_command)
    for index, word in enumerate(command):
        if word in ("-c", "--config-file") and index + 1 < len(command):
            return command[index + 1] if (base / command[index + 1]).is_file() else ""
        if word.startswith("--config-file="):
            return word.partition("=")[2] if (base / word.partition("=")[2]).is_file() else ""
    named = (*instance.fail_to_pass, *instance.pass_to_pass)
    folders = {str(PurePosixPath(file).parent) for file in map(test_file, named) if file}
    first = PurePosixPath(os.path.commonpath(folders) if folders else ".")
    for folder in (first, *first.parents):
        for name in ORDER:
            path = base / folder / name
            if path.is_file() and (name not in SETTINGS or _settings(name, path.read_bytes())):
                return str(folder / name)
    return ""


def _shadows(change: Change, instance: Instance, base: Path, installed: Set[str]) -> str:
    """A new top-level module with the name of one that is there already."""
    if change.kind == "gone":
        return ""
    path = PurePosixPath(change.path)
    for root in {".", *instance.python_path}:
        if not path.is_relative_to(root):
            continue
        parts = path.relative_to(root).parts
        stem = parts[0].split(".")[0]
        known = sys.stdlib_module_names | RUNNER | installed
        if stem not in known or _is_own(base / root, parts[0], stem):
            continue
        if _importable(parts, beside=(base / root / stem).is_dir()):
            return f"it would be imported in place of the module `{stem}`"
    return ""


def _is_own(root: Path, first: str, stem: str) -> bool:
    """Whether the base has this module itself, in whatever form."""
    package = root / stem / "__init__.py"
    return (root / first).is_file() or (root / f"{stem}.py").is_file() or package.is_file()


def _importable(parts: tuple[str, ...], *, beside: bool) -> bool:
    """Whether a file makes its first part a module. `beside` is a folder that is no package: what
    goes into it does not, unless it makes it one.
    """
    if len(parts) == 1:
        return PurePosixPath(parts[0]).suffix in (".py", ".so", ".zip", "")
    return not beside or (len(parts) == 2 and parts[1].startswith("__init__."))
