"""A file of code that begins with UTF-8's byte order mark is code, and keeps its mark.

`plan` left such files out, since Python's parser refuses the mark in a text ("Python refuses it").
"""

from __future__ import annotations

import ast
import codecs
import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rolecraft.cli.main import app
from rolecraft.synthesis.candidates import Candidate
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.gathering.splits import functions
from rolecraft.synthesis.gathering.tasks import gathered_rows
from rolecraft.synthesis.ledger import read_ledger
from rolecraft.synthesis.modifiers.entities import entities
from rolecraft.synthesis.modifiers.meaning import parts_of_file
from rolecraft.synthesis.plan import Plan

MARK = codecs.BOM_UTF8
# The first function begins on the line with the mark, which is where offsets would go wrong.
CODE = b"""def area(width, height=1):
    if width < 0 or height < 0:
        raise ValueError("negative")
    return width * height


def edges(width, height):
    total = width + height
    return 2 * total
"""
TESTS = b"""import pytest

from shapes.areas import area, edges


def test_area():
    assert area(2, 3) == 6
    assert area(4) == 4


def test_edges():
    assert edges(2, 3) == 10


def test_negative():
    with pytest.raises(ValueError):
        area(-1)
    assert area(0) == 0


@pytest.mark.parametrize("side", range(20))
def test_no_height(side):
    assert side >= 0
"""


def run(*words: str | Path) -> dict[str, Any]:
    done = CliRunner().invoke(app, [*map(str, words), "--json"])
    assert done.exit_code == 0, (words, done.output)
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "shapes-1.0"
    for name, data in (
        ("shapes/__init__.py", b""),
        ("shapes/areas.py", MARK + CODE.replace(b"\n", b"\r\n")),
        ("tests/test_areas.py", MARK + TESTS),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def test_offsets_of_entities_are_those_of_the_text_with_its_mark() -> None:
    text = (MARK + CODE).decode()
    found = entities("areas.py", text)
    assert [(each.name, text[each.start : each.start + 8]) for each in found] == [
        ("area", "def area"),
        ("edges", "\n\ndef ed"),
    ]
    for each in found:
        assert text[each.start : each.start + len(each.text)] == each.text
    plain = entities("areas.py", CODE.decode())
    assert [each.key for each in found] == [each.key for each in plain], "the mark means nothing"
    assert functions(text) == functions(CODE.decode())
    (part,) = parts_of_file("areas.py", text, text.replace("2 * total", "total"))
    assert part.name == "edges"


def test_bugs_in_a_file_with_a_mark_become_tasks_that_have_it(
    source: Path, tmp_path: Path, bare_environment: Path, needs_program: Any
) -> None:
    needs_program("bwrap", package="bubblewrap")
    needs_program("git", package="git")
    out = tmp_path / "out"
    run("synth", "plan", source, "--out", out, "--environment", bare_environment)
    folder = SynthesisFolder(out)
    plan = Plan.load(folder)
    assert plan.project.code == ("shapes/__init__.py", "shapes/areas.py")
    assert not plan.project.skipped
    assert plan.suite.seen_by["shapes/areas.py"], "what its tests run is known by line"
    run("synth", "plant", out)
    clean = (source / "shapes/areas.py").read_bytes()
    candidates = [*read_ledger(folder.candidates, Candidate, key=lambda each: each.id)]
    assert Counter(each.entity.partition("::")[2] for each in candidates).keys() == {
        *("area", "edges")
    }
    for each in candidates:
        (text,) = each.texts(plan.reader()).values()
        changed = text.encode()
        assert changed.startswith(MARK + b"def area(")
        assert changed.count(MARK) == 1
        assert changed.count(b"\n") == changed.count(b"\r\n"), "all but the change is as it was"
        ast.parse(changed)
        assert applied(tmp_path, clean, each.patch(plan.reader())) == changed
    run("synth", "validate", out, "--cap", "0.9", "--workers", "1")
    run("synth", "describe", out)
    run("synth", "gather", out, "--allow-missing", "--split-by", "function")
    rows = [*gathered_rows(folder)]
    assert len(rows) >= 3
    assert sum(not row["problem_statement"].startswith("Something in") for row in rows) >= 2
    for row in rows:
        git = ["git", "-C", str(folder.tasks / "repository"), "cat-file", "blob"]
        blob = subprocess.run(
            [*git, f"{row['base_commit']}:shapes/areas.py"], capture_output=True, check=True
        ).stdout
        assert blob.startswith(MARK + b"def area("), row["instance_id"]
        assert applied(tmp_path, blob, row["patch"]) == clean


def applied(place: Path, data: bytes, patch: str) -> bytes:
    """What git makes of a file and a patch."""
    path = place / "work/shapes/areas.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    command = ["git", "apply", "--whitespace=nowarn", "-"]
    subprocess.run(command, input=patch.encode(), cwd=place / "work", check=True)
    return path.read_bytes()
