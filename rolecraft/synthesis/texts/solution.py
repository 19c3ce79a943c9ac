"""What a solver must find out: what was changed, where, how, and by which tests it is told."""

from __future__ import annotations

import ast
import builtins
import difflib
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import PurePosixPath

from rolecraft.synthesis.candidates import Candidate, Read
from rolecraft.synthesis.edits import code_lines, line_starts, python_of
from rolecraft.synthesis.project import Project
from rolecraft.synthesis.texts.slicing import bound_by

IDENTIFIER = re.compile(r"[^\W\d]\w*")
NAMES_OF_ALL = frozenset({"self", "cls", "args", "kwargs", "__init__", "__call__"})
"""Names that single nothing out."""

_EXCEPTIONS = frozenset(
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
)


@dataclass(frozen=True, slots=True)
class Changed:
    """A function, class or file that was changed."""

    path: str
    names: tuple[str, ...]
    """The parts of its qualified name; none of a whole file."""
    about: str = ""
    """The first sentence of its docstring: what its users read."""
    about_owner: str = ""
    """That of the class that it belongs to."""
    is_class: bool = False


@dataclass(frozen=True, slots=True)
class Solution:
    """All that the text of an issue must not give away."""

    changed: tuple[Changed, ...]
    removed: tuple[str, ...]
    """The clean lines that the bug takes away, without docstrings."""
    added: tuple[str, ...]
    rare: frozenset[str]
    """Names that are nowhere but in these lines."""
    modifiers: tuple[str, ...]
    """What made the bug; of one that is combined also what made its parts."""
    tests: tuple[str, ...]
    """The ids of the tests that fail."""
    package: str
    """The project's own name, which anybody may say."""
    defined: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The names that a module has, by its path, as far as they are known."""

    @property
    def names(self) -> frozenset[str]:
        """The parts of the changed entities' names."""
        found = {name for each in self.changed for name in each.names}
        return frozenset(found - NAMES_OF_ALL)

    @property
    def touched(self) -> frozenset[str]:
        """All names in the changed lines."""
        return frozenset(IDENTIFIER.findall("\n".join((*self.removed, *self.added))))

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.path for each in self.changed))


class Sources:
    """The clean files of a project: their texts, and how often each name is in them.

    Few texts are held at a time, whatever the number of files.
    """

    def __init__(self, project: Project, read: Read) -> None:
        self.project, self.read = project, lru_cache(maxsize=32)(read)
        self.tree = lru_cache(maxsize=8)(self._tree)
        self.rarity: Counter[str] = Counter()
        for path in (*project.code, *project.tests):
            try:
                self.rarity.update(IDENTIFIER.findall(read(path)))
            except (OSError, UnicodeDecodeError):
                continue  # no text, so nobody reads a name in it

    def _tree(self, path: str) -> ast.Module | None:
        try:
            tree = ast.parse(python_of(self.read(path)))
        except (OSError, ValueError, SyntaxError, RecursionError):
            return None  # no Python: there are no docstrings to read
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.level:
                self._say_from_where(node, path)
        return tree

    def _say_from_where(self, node: ast.ImportFrom, path: str) -> None:
        """`from ..lexer import run` of a file as users say it: `from pkg.lexer import run`."""
        roots = [PurePosixPath(root) for root in self.project.python_path]
        inside = [root for root in roots if PurePosixPath(path).is_relative_to(root)]
        root = max(inside, key=lambda each: len(each.parts), default=PurePosixPath())
        folders = PurePosixPath(path).relative_to(root).parent.parts
        if node.level <= len(folders):
            package = folders[: len(folders) - node.level + 1]
            node.module = ".".join([*package, *([node.module] if node.module else [])])
            node.level = 0

    @cached_property
    def of_tests(self) -> frozenset[str]:
        """The modules of the tests, which nobody else has."""
        code = {name for path in self.project.code for name in module_names(path)}
        tests = {name for path in self.project.tests for name in module_names(path)}
        return frozenset(tests - code)

    def conftests(self, path: str) -> list[ast.Module]:
        """What pytest reads for a file of tests before it, the nearest first."""
        places = (self.tree(str(folder / "conftest.py")) for folder in PurePosixPath(path).parents)
        return [place for place in places if place is not None]

    def solution(self, candidate: Candidate, tests: Iterable[str]) -> Solution:
        """What must not be said of a candidate that these tests notice."""
        removed, added, counted = [], [], Counter[str]()
        for path, old, new in self._changes(candidate):
            documented = self._docstring_lines(path)
            for tag, i, j, k, m in difflib.SequenceMatcher(
                None, old[1], new, autojunk=False
            ).get_opcodes():
                if tag == "equal":
                    continue
                numbered = enumerate(old[1][i:j], old[0] + i)
                removed += [line for number, line in numbered if number not in documented]
                counted.update(IDENTIFIER.findall("\n".join(old[1][i:j])))
                added += new[k:m]
        entities = candidate.entity.split()
        lines = [*removed, *added]
        for entity in [each for each in entities if "::" in each]:
            entities += [f"{entity}.{name}" for name in _defined_in(lines)]
        written = set(IDENTIFIER.findall("\n".join(added)))
        rare = {name for name, count in counted.items() if self.rarity[name] <= count}
        rare |= {name for name in written if not self.rarity[name]}
        changed = tuple(map(self._changed, dict.fromkeys(entities)))
        rare -= _EXCEPTIONS  # whoever runs into one sees its name
        return Solution(
            changed=changed,
            removed=tuple(removed),
            added=tuple(added),
            rare=frozenset(rare),
            modifiers=(candidate.modifier, *candidate.about.get("modifiers", ())),
            tests=tuple(tests),
            package=self.project.name,
            defined={each.path: self._defined(each.path) for each in changed},
        )

    def _defined(self, path: str) -> frozenset[str]:
        """What a module gives a name; nothing where it is no Python or imports with a star."""
        tree = self.tree(path) if path.endswith(".py") else None
        found = {name for each in tree.body for name in bound_by(each)} if tree else set()
        return frozenset(found) if "*" not in found else frozenset()

    def _changes(
        self, candidate: Candidate
    ) -> Iterable[tuple[str, tuple[int, list[str]], list[str]]]:
        """Of each edit its file, the number of its first line with the clean lines, the new ones.

        An edit within a line is widened to whole lines.
        """
        for edit in candidate.edits:
            try:
                text = self.read(edit.path)
            except FileNotFoundError:
                text = ""
            start = text.rfind("\n", 0, edit.start) + 1
            end = edit.end
            if end < len(text) and not (end and text[end - 1] == "\n"):
                end = (text.find("\n", end) + 1) or len(text)
            new = text[start : edit.start] + edit.text + text[edit.end : end]
            first = bisect_right(line_starts(text), start)
            yield edit.path, (first, _bare_lines(text[start:end])), _bare_lines(new)

    def _docstring_lines(self, path: str) -> set[int]:
        tree = self.tree(path) if path.endswith(".py") else None
        found: set[int] = set()
        for node in ast.walk(tree) if tree is not None else ():
            match node:
                case ast.Expr(value=ast.Constant(value=str())):
                    found.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        return found

    def _changed(self, entity: str) -> Changed:
        path, _, qualified = entity.partition("::")
        names = tuple(filter(None, qualified.split(".")))
        tree = self.tree(path) if path.endswith(".py") else None
        node: ast.AST | None = tree
        owner: ast.AST | None = None
        for name in names:
            owner, node = node, _defined(node, name)
        return Changed(
            path,
            names,
            about=_first_sentence(node),
            about_owner=_first_sentence(owner) if isinstance(owner, ast.ClassDef) else "",
            is_class=isinstance(node, ast.ClassDef),
        )


def _bare_lines(text: str) -> list[str]:
    """Lines as Python and `ast` count them, without their ends."""
    return [line.rstrip("\r\n") for line in code_lines(text)]


def _defined_in(lines: Iterable[str]) -> list[str]:
    """The functions and classes that begin in these lines: a method that is gone, say."""
    found = (re.match(r"\s*(?:async\s+)?(?:def|class)\s+(\w+)", line) for line in lines)
    return [each[1] for each in found if each is not None]


def module_names(path: str) -> tuple[str, ...]:
    """How a file is imported: `src/pkg/lexer.py` as `lexer`, `pkg.lexer`, `src.pkg.lexer`."""
    parts = PurePosixPath(path).with_suffix("").parts
    if parts and parts[-1] == "__init__":
        parts = parts[:-1]
    return tuple(".".join(parts[at:]) for at in reversed(range(len(parts))))


def _defined(node: ast.AST | None, name: str) -> ast.AST | None:
    """The function or class of this name in a block, also below an `if` or `try`."""
    todo = list(ast.iter_child_nodes(node)) if node is not None else []
    while todo:
        found = todo.pop(0)
        if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if found.name == name:
                return found
        elif isinstance(found, ast.stmt | ast.ExceptHandler):
            todo.extend(ast.iter_child_nodes(found))
    return None


_ROLE = re.compile(r":[a-z]+(?::[a-z]+)?:`[~!]?([^`]+)`")
"""Of Sphinx: :class:`dict`."""
_SENTENCE_END = re.compile(r"(?<=[.:!])(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.)(?<!cf\.)(?<!vs\.)\s")


def _first_sentence(node: ast.AST | None) -> str:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return ""
    paragraph = (ast.get_docstring(node) or "").split("\n\n")[0]
    words = _ROLE.sub(r"\1", " ".join(paragraph.split()))
    sentence = _SENTENCE_END.split(words)[0].rstrip(".: ")
    return sentence if 10 <= len(sentence) <= 200 else ""
