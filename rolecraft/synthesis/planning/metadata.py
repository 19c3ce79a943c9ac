"""What a project says of itself: its name, its version, and what it and its tests need.

Nothing of it is run. `PKG-INFO` of an sdist and `METADATA` of a wheel have everything; of a
checkout pyproject.toml, setup.cfg and what setup.py says as plain text are read.
"""

from __future__ import annotations

import ast
import configparser
import email
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rolecraft.errors import UsageError

_EXTRA = re.compile(r"(?:\band\s+)?\bextra\s*==\s*['\"]([^'\"]+)['\"]")
_VERSION = re.compile(
    r"^__version__\s*(?::\s*\w+\s*)?=\s*(?:version\s*=\s*)?['\"]([^'\"]+)['\"]", re.MULTILINE
)
_NAME = re.compile(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^\]]*)\])?")
SELF_TESTED = "pytest11"
"""Entry points by which pytest would load the project itself, before its folder is on the path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """What is known; empty where nothing says it."""

    name: str = ""
    version: str = ""
    requires: tuple[str, ...] = ()
    """Requirements as pip reads them."""
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Extras and dependency groups, by their name in its plain form."""
    entry_points: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    backend: str = ""
    python: str = ""
    """The versions of Python that it runs on, such as `>=3.10`."""


def plain(name: str) -> str:
    """The one form of a distribution's name: `More_Itertools` is `more-itertools`."""
    return re.sub(r"[-_.]+", "-", name).lower()


def name_of(requirement: str) -> str:
    """The plain name of the distribution that a requirement is about; empty if it names none."""
    found = _NAME.match(requirement)
    return plain(found[1]) if found else ""


def extras_of(requirement: str) -> list[str]:
    """The extras that a requirement asks for."""
    found = _NAME.match(requirement)
    return [plain(each) for each in re.findall(r"[\w.-]+", found[2] or "")] if found else []


def read_metadata(folder: Path) -> Metadata:
    """Read it, from what says it best. Raises `UsageError` for settings that cannot be read."""
    pyproject = read_toml(folder / "pyproject.toml")
    found = [
        *map(_of_package_info, _package_infos(folder)),
        _of_pyproject(pyproject),
        _of_poetry(pyproject),
        _of_setup_cfg(folder / "setup.cfg"),
        _of_setup_py(folder / "setup.py"),
    ]

    def first(name: str) -> Any:
        return next((value for each in found if (value := getattr(each, name))), "")

    groups: dict[str, tuple[str, ...]] = {}
    for each in found:
        for name, lines in each.groups.items():
            groups.setdefault(name, lines)
    name = first("name")
    return Metadata(
        name=name,
        version=first("version") or _version_in_code(folder, name),
        requires=first("requires") or (),
        groups=groups,
        entry_points=first("entry_points") or {},
        backend=str(pyproject.get("build-system", {}).get("build-backend", "")),
        python=str(first("python")),
    )


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file; empty if it is not there. Raises `UsageError` if it is none."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"`{path.name}` of the project cannot be read: {error}.") from error


def read_ini(path: Path) -> configparser.RawConfigParser:
    """An INI file; empty if it is not there. Raises `UsageError` if it is none."""
    parser = configparser.RawConfigParser(strict=False)
    try:
        if path.is_file():
            parser.read_string(path.read_text("utf-8"))
    except (OSError, ValueError, configparser.Error) as error:
        text = " ".join(str(error).split())
        raise UsageError(f"`{path.name}` of the project cannot be read: {text}.") from error
    return parser


def _package_infos(folder: Path) -> list[Path]:
    """The metadata that a build has left: of an sdist, of a wheel."""
    places = [folder / "PKG-INFO", *sorted(folder.glob("*.dist-info/METADATA"))]
    return [path for path in places if path.is_file()][:1]


def _of_package_info(path: Path) -> Metadata:
    said = email.message_from_string(path.read_text("utf-8", "replace"))
    requires: list[str] = []
    groups: dict[str, list[str]] = {}
    for line in said.get_all("Requires-Dist") or ():
        requirement, _, marker = line.partition(";")
        extra = _EXTRA.search(marker)
        rest = _EXTRA.sub("", marker).strip()
        text = f"{requirement.strip()}; {rest}" if rest else requirement.strip()
        if extra is None:
            requires.append(text)
        else:
            groups.setdefault(plain(extra[1]), []).append(text)
    points = read_ini(path.with_name("entry_points.txt")) if path.name == "METADATA" else None
    return Metadata(
        name=said.get("Name") or "",
        version=said.get("Version") or "",
        requires=tuple(requires),
        groups={name: tuple(lines) for name, lines in groups.items()},
        entry_points={} if points is None else {n: dict(points[n]) for n in points.sections()},
        python=said.get("Requires-Python") or "",
    )


def _of_pyproject(said: Mapping[str, Any]) -> Metadata:
    project = said.get("project", {})
    groups = {plain(n): tuple(v) for n, v in project.get("optional-dependencies", {}).items()}
    known = said.get("dependency-groups", {})
    for name in known:
        groups.setdefault(plain(name), tuple(_group(known, name, ())))
    points = {
        "console_scripts": project.get("scripts", {}),
        "gui_scripts": project.get("gui-scripts", {}),
        **project.get("entry-points", {}),
    }
    return Metadata(
        name=project.get("name", ""),
        version=project.get("version", ""),
        requires=tuple(project.get("dependencies", ())),
        groups=groups,
        entry_points={name: dict(value) for name, value in points.items() if value},
        python=project.get("requires-python", ""),
    )


def _group(known: Mapping[str, Any], name: str, above: tuple[str, ...]) -> Iterable[str]:
    """The lines of a dependency group (PEP 735), those of the groups that it includes with them."""
    for line in known.get(name, ()):
        if isinstance(line, str):
            yield line
        elif (included := line.get("include-group", "")) not in above:
            yield from _group(known, included, (*above, name))


def _of_poetry(said: Mapping[str, Any]) -> Metadata:
    poetry = said.get("tool", {}).get("poetry", {})
    python = poetry.get("dependencies", {}).get("python", "")
    groups = {"dev": _poetry_lines(poetry.get("dev-dependencies", {}))}
    for name, group in poetry.get("group", {}).items():
        groups[plain(name)] = _poetry_lines(group.get("dependencies", {}))
    return Metadata(
        name=poetry.get("name", ""),
        version=poetry.get("version", ""),
        requires=_poetry_lines(poetry.get("dependencies", {})),
        groups={name: lines for name, lines in groups.items() if lines},
        python=python if isinstance(python, str) else "",
    )


def _poetry_lines(said: Mapping[str, Any]) -> tuple[str, ...]:
    """Poetry's own notation: `^1.2` and `~1.2` become `>=1.2`, as no bound above is needed here."""
    lines = []
    for name, wanted in said.items():
        version = wanted.get("version", "") if isinstance(wanted, dict) else wanted
        optional = isinstance(wanted, dict) and wanted.get("optional")
        if name == "python" or optional or not isinstance(version, str):
            continue
        version = re.sub(r"[\^~](?=\d)", ">=", version).replace("*", "")
        if version and version[0].isdigit():
            version = f"=={version}"
        lines.append(f"{name}{version}")
    return tuple(lines)


def _of_setup_cfg(path: Path) -> Metadata:
    parser = read_ini(path)

    def lines(section: str, name: str) -> tuple[str, ...]:
        text = parser.get(section, name, fallback="")
        return tuple(filter(None, (line.partition(" #")[0].strip() for line in text.split("\n"))))

    extras = "options.extras_require"
    names = parser.options(extras) if parser.has_section(extras) else []
    groups = {plain(name): lines(extras, name) for name in names}
    groups.setdefault("test", lines("options", "tests_require"))
    version = parser.get("metadata", "version", fallback="")
    return Metadata(
        name=parser.get("metadata", "name", fallback=""),
        version="" if ":" in version else version,
        requires=lines("options", "install_requires"),
        groups={name: found for name, found in groups.items() if found},
        python=parser.get("options", "python_requires", fallback=""),
    )


def _of_setup_py(path: Path) -> Metadata:
    """What a call of `setup` says in plain words."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return Metadata()
    said: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "setup":
            for word in node.keywords:
                try:
                    said[str(word.arg)] = ast.literal_eval(word.value)
                except ValueError:  # an expression: only running it would tell
                    continue

    def lines(value: Any) -> tuple[str, ...]:
        several = value.split("\n") if isinstance(value, str) else value
        return tuple(str(each) for each in several or () if str(each).strip())

    extras = said.get("extras_require")
    groups = {plain(n): lines(v) for n, v in extras.items()} if isinstance(extras, dict) else {}
    groups.setdefault("test", lines(said.get("tests_require")))
    return Metadata(
        name=str(said.get("name", "")),
        version=str(said.get("version", "")),
        requires=lines(said.get("install_requires")),
        groups={name: found for name, found in groups.items() if found},
        python=str(said.get("python_requires") or ""),
    )


def _version_in_code(folder: Path, name: str) -> str:
    """`__version__` of the package, where it stands as plain text."""
    module = plain(name).replace("-", "_")
    for root in (folder, folder / "src"):
        package = [root / module / each for each in ("__init__.py", "_version.py", "version.py")]
        for path in (*package, root / f"{module}.py"):
            if path.is_file():
                found = _VERSION.search(path.read_text("utf-8", "replace"))
                if found:
                    return found[1]
    return ""
