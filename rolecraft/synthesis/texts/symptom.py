"""What a user sees of a bug: what was done, what should have come of it, what came."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Literal

from rolecraft.synthesis.texts.checks import Doing
from rolecraft.synthesis.texts.failures import (
    Failure,
    changed_text,
    compared,
    difference,
    read_failure,
)
from rolecraft.synthesis.texts.given import Values
from rolecraft.synthesis.texts.helpers import Below
from rolecraft.synthesis.texts.leak_check import distinctive
from rolecraft.synthesis.texts.masking import Masking, StandIn, imports_of
from rolecraft.synthesis.texts.printed import tell_printed
from rolecraft.synthesis.texts.solution import IDENTIFIER, Solution, Sources
from rolecraft.synthesis.texts.test_code import Way, doing, says_only_what_was_printed
from rolecraft.synthesis.texts.values import UNKNOWN, Folded, value_of, value_said

Kind = Literal[
    "value",  # another value than the one that was wanted
    "condition",  # what should hold does not
    "error",  # an exception that should not come
    "no-error",  # no exception where one should come
    "output",  # what another runner than pytest prints
]
_LONGEST_CODE = 40
"""Lines."""
_LINES_OF_A_TEXT = 3
"""From here on a text in the code is shown in lines."""
_LONGEST_VALUE = 1500
"""Characters."""
_WORD = re.compile(r"[^\W\d_]{3}")
"""Of a message without any nobody can tell what it is about: `KeyError: 2`, `1 != 0`."""
_DONE_WRONG = re.compile(r"DID NOT RAISE|not raised|not triggered|DID NOT WARN")


@dataclass(frozen=True, slots=True)
class Symptom:
    """One failing test, as somebody who uses the project would tell of it."""

    kind: Kind
    code: tuple[str, ...]
    """Lines that lead to it, in Python."""
    expression: str = ""
    """What is looked at after `code`."""
    expected: str = ""
    """A value or a condition, as code; for "no-error" the exception's type."""
    got: str = ""
    error: str = ""
    """The type of the exception that came."""
    message: str = ""
    """Its text; of "output" what was printed, of "value" where the two differ."""
    stand_ins: tuple[StandIn, ...] = ()
    """What names in the code stand for that must not be said."""
    own: tuple[tuple[str, str], ...] = ()
    """Names in the code that are the project's, and what it calls them."""
    printed: tuple[StandIn, ...] = ()
    """Names in the code for what is printed."""
    unknown: tuple[str, ...] = ()
    """Names in the code of which nothing tells the value."""
    test: str = ""
    """The id of the test that told it."""
    masked: tuple[tuple[str, str], ...] = ()
    """Stand-ins with the names that they are for. Never shown."""

    @property
    def poorness(self) -> tuple[int, int]:
        """How little it tells; the least of several is the one to tell of."""
        undocumented = sum(not each.about for each in self.stand_ins)
        silent = self.kind == "value" and not self.expected
        vague = 2 * len(self.unknown) + 2 * undocumented + len(self.stand_ins) + 2 * silent
        vague += 3 * (self.kind == "output") + (self.kind == "value" and not self.got)
        return vague, sum(map(len, self.code)) + len(self.expected) + len(self.got)


def symptoms(
    solution: Solution,
    messages: dict[str, str],
    sources: Sources,
    values: Values = MappingProxyType({}),
    *,
    everything: bool = False,
) -> list[Symptom]:
    """What the failing tests tell, those that tell most first.

    `values` are what they were given for arguments of which no code says it. With `everything`
    their code is told whole, where only what leads to the failure may lack what matters.
    """
    found: list[Symptom] = []
    for test, text in messages.items():
        path = test.partition("::")[0]
        tree = sources.tree(path) if path.endswith(".py") else None
        if tree is None:
            seen = [_of_output(text)]
        else:
            failure = read_failure(test, text)
            below = _below(failure, sources)
            told = partial(_of_python, test, failure, tree, solution, sources, values)
            ways = (below, ()) if below else ((),)
            seen = [told(Way(way, everything)) for way in ways]
        made = dict.fromkeys(each for each in seen if each is not None)
        found += [_without_inner_names(each, solution, sources) for each in made]
    return sorted(found, key=lambda symptom: symptom.poorness)


def plain(messages: dict[str, str]) -> list[Symptom]:
    """What the failing tests of Python say, without what was done."""
    found: dict[str, Symptom] = {}
    for test, text in messages.items():
        failure = read_failure(test, text)
        said = ": ".join(filter(None, (failure.error, _short(failure.message))))
        if _WORD.search(failure.message) and test.partition("::")[0].endswith(".py"):
            found.setdefault(said, Symptom("output", (), message=said, test=test))
    return [*found.values()]


def told_less(symptom: Symptom) -> Iterator[Symptom]:
    """The same with less and less of what may give the solution away, or may not be so."""
    yield symptom
    if symptom.kind == "output" and "\n" in symptom.message:
        yield replace(symptom, message=symptom.message.partition("\n")[0])
    if symptom.message and symptom.kind in ("error", "value"):
        yield replace(symptom, message="")
    if symptom.got:
        yield replace(symptom, got="", message="")
    if any(each.about for each in symptom.stand_ins):
        bare = tuple(replace(each, about="") for each in symptom.stand_ins)
        yield replace(symptom, stand_ins=bare)
        if symptom.got or (symptom.message and symptom.kind in ("error", "value")):
            yield replace(symptom, stand_ins=bare, got="", message="")


def _without_inner_names(symptom: Symptom, solution: Solution, sources: Sources) -> Symptom:
    """Without an exception's text that has a name of the changed lines which users do not write.

    Unless the project itself says that name in words, to users: where it raises an exception.
    """
    inner = set(filter(distinctive, solution.touched)) & set(IDENTIFIER.findall(symptom.message))
    inner -= set(IDENTIFIER.findall("\n".join((*symptom.code, symptom.expression))))
    if symptom.kind != "error" or not inner:
        return symptom
    trees = [tree for path in solution.files if (tree := sources.tree(path)) is not None]
    said = {name for tree in trees for name in IDENTIFIER.findall("\n".join(_raised_texts(tree)))}
    return replace(symptom, message="") if inner - said else symptom


def _raised_texts(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        for each in ast.walk(node) if isinstance(node, ast.Raise) else ():
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                yield each.value


def _below(failure: Failure, sources: Sources) -> list[Below]:
    """The places in functions of the tests that it went through, up to the project's code."""
    code = {*sources.project.code, *sources.project.skipped}
    found: list[Below] = []
    for path, line in failure.below:
        inside = not PurePosixPath(path).is_absolute() and ".." not in path.split("/")
        tree = sources.tree(path) if inside and path not in code else None
        if tree is None or not tree.body:
            break
        found.append(Below(tree, line))
    return found


def _of_python(
    test: str,
    failure: Failure,
    tree: ast.Module,
    solution: Solution,
    sources: Sources,
    values: Values,
    way: Way,
) -> Symptom | None:
    conftests = sources.conftests(test.partition("::")[0])
    trees = (*(place.tree for place in way.below), tree)
    files = ast.Module([each for file in trees for each in file.body], [])
    imports = imports_of(files, sources.project.code)
    done = doing(tree, test, failure.line, conftests, imports.own_modules, values, way)
    if done is None or says_only_what_was_printed(done):
        return None
    if not sources.of_tests.isdisjoint(_imported(done.before)):
        return None
    printed = tell_printed(done)
    masking = Masking(solution, imports)
    code = _lines(done.before, masking)
    if len(code) > _LONGEST_CODE or sum(map(len, code)) > _LONGEST_VALUE:
        return None
    looked_at = "" if done.shown else _code(done.actual, masking)
    made = _seen(done, failure, looked_at, masking)
    if made is None:
        return None
    shown = set(IDENTIFIER.findall("\n".join((*code, made.expression, made.expected))))
    return replace(
        made,
        code=tuple(code),
        stand_ins=tuple(masking.stand_ins.values()),
        own=tuple(sorted(each for each in masking.own.items() if each[0] in shown)),
        printed=tuple(each for each in printed if each.name in shown),
        unknown=tuple(sorted(done.unknown & shown)),
        test=test,
        masked=tuple((each.name.lstrip("."), real) for real, each in masking.stand_ins.items()),
    )


def _imported(nodes: list[ast.stmt]) -> Iterator[str]:
    """The modules that statements import, or import from."""
    for node in nodes:
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield module
                yield from (f"{module}.{each.name}" for each in names)


def _seen(done: Doing, failure: Failure, looked_at: str, masking: Masking) -> Symptom | None:
    """What came of it, whatever was done."""
    wrong_check = failure.error in ("AssertionError", "Failed", "")
    if done.raises is not None:
        wanted = _code(done.raises, masking)
        if _DONE_WRONG.search(failure.message):
            return Symptom("no-error", (), looked_at, expected=wanted)
        if wrong_check:  # the exception came with another text
            return Symptom("error", (), looked_at, wanted, message=_short(failure.message))
        return Symptom("error", (), looked_at, wanted, "", failure.error, _short(failure.message))
    if not wrong_check:
        wanted = "" if done.untold else _code(done.expected, masking)
        error = _short(failure.message)
        return Symptom("error", (), looked_at, wanted, "", failure.error, error)
    if done.actual is None:
        return None
    if done.holds:
        return Symptom("condition", (), looked_at, got=_condition_got(failure.message))
    expected, got = _values(done, failure.message, masking)
    if not (expected or got):
        return None
    told = "" if got or done.turned else difference(failure.message)
    return Symptom("value", (), looked_at, expected, got, message=told)


def _values(done: Doing, message: str, masking: Masking) -> tuple[str, str]:
    """What was expected and what came, as code."""
    wanted = value_of(done.expected)
    both = compared(message)
    written = "" if done.untold else _code(done.expected, masking)
    if isinstance(wanted, str) and (text := changed_text(message, wanted)) is not None:
        return repr(wanted), repr(text)
    if both is None:
        return _short(written), ""
    if wanted is not UNKNOWN:
        for value, other in (both, both[::-1]):
            if _same(other, wanted):
                return _short(written), _short(value)
        return _short(written), ""
    got, expected = both[::-1] if done.turned else both
    return _short(expected), _short(got)


def _same(said: str, wanted: object) -> bool:
    return bool(value_said(said) == wanted)


def _condition_got(message: str) -> str:
    """The condition with its values, as pytest puts them in: `None is not None`."""
    first = message.partition("\n")[0].removeprefix("assert ").strip()
    if not message.startswith("assert ") or first in ("False", "None", "0", "''", "[]"):
        return ""
    return _short(first) if re.search(r" (?:is|in|not in|is not|!=|<|>|<=|>=) ", first) else ""


def _of_output(text: str) -> Symptom | None:
    """What a test program printed, without the lines that say where."""
    kept: list[str] = []
    for line in text.splitlines():
        bare = re.sub(r"^\S+\.\w+[:(]\d+\)?:?\s*", "", line.strip())
        if bare and not re.match(r"(?:FAILED|PASSED|RUN|OK|Traceback)\b|\[", bare):
            kept.append(bare)
    if not kept:
        return None
    return Symptom("output", (), message=_short("\n".join(kept[:12])))


def _lines(nodes: list[ast.stmt], masking: Masking) -> list[str]:
    made = [masking(node) for node in nodes]
    body = [node for node in made if isinstance(node, ast.stmt)]
    imports = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    rest = [Folded().visit(node) for node in body if node not in imports]
    lines = [ast.unparse(ast.fix_missing_locations(node)) for node in imports]
    if imports and rest:
        lines.append("")
    for node in rest:
        lines += _as_written(ast.fix_missing_locations(node)).split("\n")
    return lines


def _as_written(node: ast.stmt) -> str:
    """A statement; the text of many lines that it gives a name to stands in as many lines."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
            many = text.count("\n") >= _LINES_OF_A_TEXT
            plain = all(line.isprintable() for line in text.split("\n"))
            if many and plain and not re.search(r'\\|"""|"\Z', text):
                return f'{name} = """{text}"""'
    return ast.unparse(node).strip("\n")


def _code(node: ast.expr | None, masking: Masking) -> str:
    if node is None:
        return ""
    made = masking(node)
    if made is None:
        return ""
    return ast.unparse(ast.fix_missing_locations(Folded().visit(made)))


def _short(value: str) -> str:
    value = re.sub(r" at 0x[0-9a-fA-F]+", "", value.strip())
    return value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]} …"
