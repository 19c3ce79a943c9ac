"""Projects in C and C++ whose tests CTest runs, and others whose tests a given command runs."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from rolecraft.environments.software_engineering.taken import TEST_FOLDERS
from rolecraft.synthesis.planning.discovery import (
    GENERATED,
    HEAD,
    MOST_BYTES,
    VENDORED,
    Found,
    every_file,
)

ENDS = (
    *(".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx"),
    *(".go", ".rs", ".java", ".kt", ".cs", ".js", ".mjs", ".ts", ".tsx", ".rb", ".php", ".swift"),
)
"""Of sources in languages whose tests a command runs. Bugs in them come from patches and models."""
FOLDER = ".rolecraft-build"
REPORT = f"{FOLDER}/junit.xml"
_HAS_TESTS = re.compile(r"(?im)^\s*(enable_testing\s*\(|include\s*\(\s*CTest\s*\))")
_NAME = re.compile(r"(?i)\bproject\s*\(\s*([\w.+-]+)(?:[^)]*?\bVERSION\s+([\d.]+))?")


def has_tests(source: Path) -> bool:
    """Whether its CMakeLists.txt has tests for CTest."""
    path = source / "CMakeLists.txt"
    return path.is_file() and bool(_HAS_TESTS.search(_without_comments(path)))


def name_and_version(source: Path) -> tuple[str, str]:
    """What its CMakeLists.txt says; empty where it says nothing."""
    path = source / "CMakeLists.txt"
    found = _NAME.search(_without_comments(path)) if path.is_file() else None
    return (found[1], found[2] or "") if found else ("", "")


def command(test_seconds: float) -> tuple[str, ...]:
    """Configure, build and test, in a folder of its own below the work folder."""
    script = (
        f"cmake -S . -B {FOLDER} >&2 && cmake --build {FOLDER} -j 2 >&2 && "
        f"ctest --test-dir {FOLDER} --timeout {max(1, round(test_seconds))} "
        f'--output-junit "$PWD/{REPORT}"'
    )
    return ("sh", "-c", script)


def discover_sources(source: Path) -> Found:
    """The sources, and what lies in folders of tests."""
    code: list[str] = []
    tests: list[str] = []
    skipped: dict[str, str] = {}
    for path in every_file(source):
        place = PurePosixPath(path)
        if set(place.parts[:-1]) & TEST_FOLDERS:
            tests.append(path)
        elif place.suffix.lower() in ENDS:
            if why := _why_not(source / path, place):
                skipped[path] = why
            else:
                code.append(path)
    return Found(tuple(code), skipped, tuple(tests), (), (".",), 0)


def _why_not(path: Path, place: PurePosixPath) -> str:
    if VENDORED & set(place.parts):
        return "vendored: somebody else's code"
    data = path.read_bytes()
    if len(data) > MOST_BYTES:
        return f"larger than {MOST_BYTES // 2**20} MiB"
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return "no UTF-8"
    found = GENERATED.search(text[:HEAD])
    return f"generated: it says {found[1]!r}" if found else ""


def _without_comments(path: Path) -> str:
    return re.sub(r"#.*", "", path.read_text("utf-8", "replace"))
