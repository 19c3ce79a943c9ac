"""A small project with a bug planted, and what pytest really says of it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from rolecraft.synthesis.candidates import Candidate, Edit, candidate_id
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.ledger import Ledger, read_ledger
from rolecraft.synthesis.plan import Plan
from rolecraft.synthesis.project import Project
from rolecraft.synthesis.suite import Suite
from rolecraft.synthesis.texts.describe import describe
from rolecraft.synthesis.texts.text import IssueText
from rolecraft.synthesis.verdicts import Verdict

WORDS = '''"""Words."""

from phrases.inner import cut


def shorten(text, most, *, mark="..."):
    """Cut a text to at most so many characters."""
    if len(text) <= most:
        return text
    if most < len(mark):
        raise ValueError("there is no room for the mark")
    return cut(text, most - len(mark)) + mark


class Tally:
    """Counts words."""

    def __init__(self, words):
        self.words = list(words)

    def most_common(self):
        """Return the word that comes most often."""
        return max(self.words, key=self.words.count)

    def undocumented(self):
        return len(self.words)
'''
INNER = """def cut(text, length):
    kept = text[:length]
    return kept.rstrip()
"""
TESTS = """import unittest

import pytest

import phrases
from phrases.inner import cut
from phrases.words import Tally

LONG = "a long text"


def test_shortened():
    text = LONG
    unused = 3
    assert phrases.shorten(text, 9) == "a long..."


@pytest.mark.parametrize("most", [11, 20])
@pytest.mark.parametrize(("text", "expected"), [("a long text", "a long text"), ("", "")])
def test_short_enough(text, expected, most):
    assert phrases.shorten(text, most) == expected


def test_no_room():
    with pytest.raises(ValueError):
        phrases.shorten(LONG, 2)


def test_cut():
    assert cut("ab cd", 3) == "ab"


def test_of_lines():
    assert phrases.shorten("one\\\\ntwo and more", 11) == "\\\\n".join(["one", "two..."])


class TestTally(unittest.TestCase):
    def test_most_common(self):
        tally = Tally(["a", "b", "a"])
        self.assertEqual(tally.most_common(), "a")

    def test_undocumented(self):
        tally = Tally(["a"])
        self.assertEqual(tally.undocumented(), 1)
""".replace("\\\\", "\\")
LINES = '''"""Lines."""


def broken(text, width):
    """Break a text into lines of this many characters."""
    return [text[at : at + width] for at in range(0, len(text), width)]


def numbered(lines, first=1):
    """Put a number before each line."""
    return [f"{number} {line}" for number, line in enumerate(lines, first)]
'''
CHECKS = """def same(wanted, found):
    print("wanted", wanted)
    assert found == wanted
"""
CHECKED = """import unittest

from checks import same
from phrases.lines import broken, numbered


def test_broken():
    wanted = broken("abcde", 2)
    same(["ab", "cd", "e"], wanted)


class TestNumbered(unittest.TestCase):
    def check(self, lines, *, found):
        made = numbered(lines)
        self.assertEqual(made, found)

    def test_numbered(self):
        self.check(["a", "b"], found=["1 a", "2 b"])
"""
FILES = {
    "phrases/__init__.py": "from phrases.words import Tally, shorten\n",
    "phrases/words.py": WORDS,
    "phrases/inner.py": INNER,
    "phrases/lines.py": LINES,
    "tests/test_phrases.py": TESTS,
    "tests/test_checked.py": CHECKED,
    "tests/checks.py": CHECKS,
    "README.md": "# phrases\n\n[![badge](x)](y)\n\nPhrases shortens texts and counts words.\n",
}


Bug = tuple[str, str, str, str]
"""A file, the text that is replaced, by what, and the function that it is in."""
BUGS: dict[str, Bug] = {
    "inner value": ("phrases/inner.py", "text[:length]", "text[:length - 1]", "cut"),
    "inner error": ("phrases/inner.py", "kept.rstrip()", "kept.rstripp()", "cut"),
    "inner strip": ("phrases/inner.py", "kept.rstrip()", "kept.strip('ow ')", "cut"),
    "boundary": ("phrases/words.py", "len(text) <= most", "len(text) < most", "shorten"),
    "no error": ("phrases/words.py", "most < len(mark)", "most < 0", "shorten"),
    "method": ("phrases/words.py", "max(self.words", "min(self.words", "Tally.most_common"),
    "error with a name": (
        "phrases/words.py",
        "max(self.words",
        "max(self.word",
        "Tally.most_common",
    ),
    "undocumented": (
        "phrases/words.py",
        "len(self.words)",
        "len(self.words) + 1",
        "Tally.undocumented",
    ),
}

BUGS |= {
    "checked elsewhere": ("phrases/lines.py", "range(0, len(text)", "range(1, len(text)", "broken"),
    "checked by a method": ("phrases/lines.py", "(lines, first)]", "(lines, -first)]", "numbered"),
}

DRIVER = """
import json, os, sys
import pytest

class Said:
    def __init__(self):
        self.texts = {}

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.texts[report.nodeid] = report.longreprtext

for folder, options in json.load(sys.stdin):
    if (child := os.fork()) == 0:
        os.chdir(folder)
        sys.path.insert(0, folder)
        said = Said()
        pytest.main(["-q", "-p", "no:cacheprovider", "--rootdir=.", *options, "tests"], [said])
        with open("../said.json", "w") as file:
            json.dump(said.texts, file)
        os._exit(0)
    os.waitpid(child, 0)
"""
"""Runs the tests of many folders; pytest is imported once."""


def edit_of(name: str) -> Edit:
    path, old, new, _ = BUGS[name]
    text = FILES[path]
    assert text.count(old) == 1
    return Edit(path, text.index(old), text.index(old) + len(old), new)


def write(source: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture(scope="session")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], dict[str, str]]:
    """By bug and kind of traceback: the failing tests, and what pytest says of each."""
    wanted = [(name, "native") for name in BUGS]
    wanted += [("inner value", "long"), ("checked elsewhere", "long")]
    folders: list[tuple[str, list[str]]] = []
    for name, traceback in wanted:
        source = tmp_path_factory.mktemp("run") / "source"
        edit = edit_of(name)
        text = FILES[edit.path]
        bug = text[: edit.start] + edit.text + text[edit.end :]
        write(source, {**FILES, edit.path: bug})
        folders.append((str(source), [f"--tb={traceback}"]))
    done = subprocess.run(
        [sys.executable, "-B", "-c", DRIVER],
        input=json.dumps(folders),
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    assert done.returncode == 0, done.stderr
    return {
        key: json.loads(Path(folder).parent.joinpath("said.json").read_text())
        for key, (folder, _) in zip(wanted, folders, strict=True)
    }


@dataclass
class Phrases:
    """The project in its folder."""

    folder: SynthesisFolder
    plan: Plan
    said: dict[tuple[str, str], dict[str, str]]

    def read(self, path: str) -> str:
        return (Path(self.plan.project.source) / path).read_text()

    def plant(
        self, name: str, *, traceback: str = "native", number: int = 0
    ) -> tuple[Candidate, Verdict]:
        """Enter a bug and what the tests say of it into the ledgers. `number`: it again."""
        edits = (edit_of(name),)
        candidate = Candidate(
            id=candidate_id("phrases", "op-change", edits) + (str(number) if number else ""),
            modifier="op-change",
            entity=f"{BUGS[name][0]}::{BUGS[name][3]}",
            edits=edits,
            key=f"{name}{number}",
        )
        messages = self.said[name, traceback]
        verdict = Verdict(
            candidate=candidate.id,
            status="valid",
            fail_to_pass=tuple(messages),
            messages=dict([*messages.items()][:5]),
        )
        with Ledger(self.folder.candidates, Candidate, key=lambda each: each.id) as ledger:
            ledger.append(candidate)
        with Ledger(self.folder.verdicts, Verdict, key=lambda each: each.candidate) as verdicts:
            verdicts.append(verdict)
        return candidate, verdict

    @property
    def texts(self) -> dict[str, IssueText]:
        """What is in the folder, by task."""
        found = read_ledger(self.folder.texts, IssueText, key=lambda each: each.task)
        return {each.task: each for each in found}


@pytest.fixture
def phrases(tmp_path: Path, said: dict[tuple[str, str], dict[str, str]]) -> Phrases:
    """The project with a plan, and nothing planted."""
    folder = SynthesisFolder(tmp_path / "out")
    write(folder.source, FILES)
    project = Project(
        name="phrases",
        version="2.1",
        source=str(folder.source),
        code=tuple(name for name in FILES if name.startswith("phrases/")),
        tests=tuple(name for name in FILES if name.startswith("tests/")),
    )
    plan = Plan(project, Suite(outcomes={}))
    plan.save(folder)
    return Phrases(folder, plan, said)


@pytest.fixture
def described(phrases: Phrases) -> Callable[..., str]:
    """`described("method")`: plants that bug and writes its text by a template."""

    def written(name: str, **options: str) -> str:
        candidate, _ = phrases.plant(name, **options)
        asyncio.run(describe(phrases.folder))
        return phrases.texts[candidate.id].text

    return written
