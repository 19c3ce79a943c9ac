"""What the tests of a project need, of all that it names for its developers.

All of a group that is called after tests; of one for developers in general, which has linters and
documentation too, only what the tests import and plug-ins of pytest.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from rolecraft.synthesis.edits import python_of
from rolecraft.synthesis.planning.discovery import setting_words
from rolecraft.synthesis.planning.metadata import Metadata, extras_of, name_of, plain

TEST_GROUPS = ("test", "tests", "testing", "unittest", "pytest")
BROAD_GROUPS = ("dev", "develop", "development", "all")
TEST_FILES = re.compile(
    r"(tests?|testing)[-_]requirements\.txt|requirements[-_.](tests?|testing)\.txt"
    r"|requirements/(tests?|testing)\.txt|tests?/requirements\.txt"
)
BROAD_FILES = re.compile(
    r"dev[-_]requirements\.txt|requirements[-_.]dev\.txt|requirements/(dev|development)\.txt"
)
OPTIONS = {
    "--cov": "pytest-cov",
    "--numprocesses": "pytest-xdist",
    "-n": "pytest-xdist",
    "--timeout": "pytest-timeout",
    "--benchmark": "pytest-benchmark",
    "--asyncio-mode": "pytest-asyncio",
    "--reruns": "pytest-rerunfailures",
    "--randomly": "pytest-randomly",
}
"""Options of pytest's settings, and whose they are."""
SETTINGS = {"asyncio_mode": "pytest-asyncio", "timeout": "pytest-timeout"}
PLUGIN = re.compile(r"^pytest([-_.]|$)|^hypothesis$")


def requirements(
    folder: Path, metadata: Metadata, settings: Mapping[str, object], imported: Iterable[str]
) -> tuple[list[str], list[str]]:
    """What the project needs, and what its tests need beside it. `settings` are pytest's;
    `imported` are the modules that the tests import.
    """
    own, groups = plain(metadata.name), metadata.groups
    tests: list[str] = ["pytest"]
    for name in TEST_GROUPS:
        tests += _expanded(groups.get(name, ()), groups, own)
    broad = [line for name in BROAD_GROUPS for line in _expanded(groups.get(name, ()), groups, own)]
    for path in sorted(folder.glob("*.txt")) + sorted(folder.glob("*/*.txt")):
        place = str(path.relative_to(folder))
        if TEST_FILES.fullmatch(place):
            tests += _lines(path)
        elif BROAD_FILES.fullmatch(place):
            broad += _lines(path)
    modules = {plain(each) for each in imported}
    tests += [line for line in broad if PLUGIN.match(name_of(line)) or name_of(line) in modules]
    tests += _of_settings(settings)
    needs = list(_expanded(metadata.requires, groups, own))
    if not needs and (folder / "requirements.txt").is_file():
        needs = _lines(folder / "requirements.txt")
    return _once(needs, own), _once(tests, own)


def _of_settings(settings: Mapping[str, object]) -> list[str]:
    """Plug-ins without which pytest would not take its own settings."""
    found = setting_words(settings.get("required_plugins"))
    for word in setting_words(settings.get("addopts")):
        option = word.partition("=")[0]
        found += [plugin for start, plugin in OPTIONS.items() if _is(option, start)]
    return found + [plugin for name, plugin in SETTINGS.items() if name in settings]


def _is(option: str, start: str) -> bool:
    return option.startswith(start) if start.startswith("--") else option == start


def _expanded(
    lines: Iterable[str], groups: Mapping[str, tuple[str, ...]], own: str
) -> Iterable[str]:
    """The lines; in place of `own[extra]` what that extra has."""
    for line in lines:
        if name_of(line) != own or not own:
            yield line
            continue
        for extra in extras_of(line):
            inside = {name: found for name, found in groups.items() if name != extra}
            yield from _expanded(groups.get(extra, ()), inside, own)


def _lines(path: Path, above: tuple[Path, ...] = ()) -> list[str]:
    """The requirements of a file for pip. Folders, addresses and options are left out."""
    found: list[str] = []
    for line in path.read_text("utf-8", "replace").splitlines():
        text = re.sub(r"(^|\s)#.*", "", line).strip().rstrip("\\").strip()
        other = re.match(r"(?:-r|--requirement)[\s=]*(\S+)", text)
        if other:
            place = (path.parent / other[1]).resolve()
            if place.is_file() and place not in above:
                found += _lines(place, (*above, path.resolve()))
        elif text and name_of(text) and "/" not in text.partition(";")[0]:
            found.append(re.sub(r"\s+--hash=\S+", "", text))
    return found


def _once(lines: Iterable[str], own: str) -> list[str]:
    return [line for line in dict.fromkeys(lines) if name_of(line) != own]


def imported_modules(texts: Iterable[str]) -> set[str]:
    """The top-level modules that files import. What Python refuses imports nothing."""
    found: set[str] = set()
    for text in texts:
        try:
            tree = ast.parse(python_of(text))
        except (SyntaxError, ValueError, RecursionError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                found.update(each.name.partition(".")[0] for each in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found
