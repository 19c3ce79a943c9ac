"""Whether what a text says is so: its code is run, in a sandbox, with the bug and without.

Invariant: a text of which `says_true` is true has been run as it is written. On the clean files it
gave what it says is expected, with the bug what it says came instead.
"""

from __future__ import annotations

import ast
import asyncio
import hashlib
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from rolecraft.errors import SandboxError, UsageError
from rolecraft.sandboxes import SandboxProvider, default_provider
from rolecraft.synthesis.candidates import Candidate
from rolecraft.synthesis.plan import Plan
from rolecraft.synthesis.texts.masking import imports_of
from rolecraft.synthesis.texts.slicing import FIXTURES
from rolecraft.synthesis.texts.solution import Solution, Sources, module_names
from rolecraft.synthesis.texts.symptom import Symptom
from rolecraft.synthesis.texts.templates import is_exception
from rolecraft.synthesis.validation.places import Place
from rolecraft.synthesis.validation.ran import WorkerLost
from rolecraft.synthesis.validation.settings import Settings
from rolecraft.synthesis.validation.warm import WarmPytest

FILE = "test_rolecraft_text.py"
"""Beside the file of the failing test, so that what it finds is found."""
_HELD = 64
_CODE = re.compile(r"^```python\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
_AT_INDEX = re.compile(r"At index (\d+) there is `(.+?)` instead of")


@dataclass(frozen=True, slots=True)
class Facts:
    """What came of a text's code."""

    raised: tuple[str, ...] = ()
    """The exception's type and those it is made of, by name."""
    message: str = ""
    as_expected: bool = False
    """The exception is of the type that the text expects."""
    looked: tuple[Mapping[str, Any], ...] = ()
    """What the last expression gave, each time: `equal`, `truth`, `value`, `expected`, `got`,
    `shown`."""
    missing: tuple[str, ...] = ()
    """What a test sets up and nobody else has."""


class Proof:
    """Runs texts. What that takes is started when it is first used.

    Where there is no sandbox, no environment or no pytest, `says_true` is None of every text, and
    `why` says why.
    """

    def __init__(
        self,
        plan: Plan,
        sources: Sources,
        *,
        provider: SandboxProvider | None = None,
        wanted: bool = True,
    ) -> None:
        self._plan, self._sources, self._provider = plan, sources, provider
        self._workers: tuple[WarmPytest, WarmPytest] | None = None
        self._known: dict[str, tuple[Facts, Facts] | None] = {}
        """What came of the last ones: a text is told with less, and a bug may be there twice."""
        self._values: dict[tuple[str, ...], Mapping[str, Any]] = {}
        """What the last tests were given: many bugs fail the same ones."""
        self.why = "" if wanted else "that was not wanted"
        if plan.project.runner != "pytest":
            self.why = "its tests are not pytest's"

    async def says_true(
        self, text: str, told: Symptom, symptom: Symptom, candidate: Candidate, solution: Solution
    ) -> bool | None:
        """Whether it is so; None where no code can be run, and `why` says why.

        It has the code of `symptom`, and says as much of it as `told` has.
        """
        if symptom.kind == "output":
            return True  # it has no code, and quotes what was seen
        order = await self._order(text, symptom, solution)
        if order is None:
            return False
        facts = await self._facts(order, symptom, candidate)
        if facts is None:
            return None if self.why else False
        return is_so(told, *facts)

    async def came(
        self, text: str, symptom: Symptom, candidate: Candidate, solution: Solution
    ) -> str:
        """The value that comes with the bug, as code, of a text that says what was expected.

        Empty where it is no literal, or a loop has several.
        """
        order = await self._order(text, symptom, solution)
        facts = None if order is None else await self._facts(order, symptom, candidate)
        looked = facts[1].looked if facts is not None else ()
        return str(looked[0]["shown"]) if len(looked) == 1 else ""

    async def _facts(
        self, order: Mapping[str, Any], symptom: Symptom, candidate: Candidate
    ) -> tuple[Facts, Facts] | None:
        """What comes of code without the bug, and with it; None where that cannot be told."""
        said = json.dumps([order, [*map(asdict, candidate.edits)]], sort_keys=True)
        key = hashlib.sha256(said.encode()).hexdigest()
        if key not in self._known:
            if len(self._known) == _HELD:
                del self._known[next(iter(self._known))]
            self._known[key] = await self._both(order, symptom, candidate)
        facts = self._known[key]
        return None if facts is None or any(each.missing for each in facts) else facts

    async def given(self, test: str, names: Sequence[str]) -> Mapping[str, Any]:
        """What the test is really given for its arguments of these names, where a literal says it.

        Nothing where it cannot be asked.
        """
        key = (test, *names)
        if not names or self.why:
            return {}
        if key not in self._values:
            if len(self._values) == _HELD:
                del self._values[next(iter(self._values))]
            try:
                clean, _ = self._workers = self._workers or await self._started()
                self._values[key] = await _given(clean, test, names)
            except (SandboxError, UsageError) as error:
                self.why = str(error)
                return {}
        return self._values[key]

    async def close(self) -> None:
        workers, self._workers = self._workers, None
        for worker in workers or ():
            await worker.close()

    async def _order(
        self, text: str, symptom: Symptom, solution: Solution
    ) -> dict[str, Any] | None:
        """What is to be run; None where the text has no code."""
        path = symptom.test.partition("::")[0]
        tree = self._sources.tree(path)
        code = _CODE.search(text)
        if tree is None or code is None:
            return None
        try:
            ast.parse(code[1])
        except (SyntaxError, ValueError):
            return None
        imports = imports_of(tree, self._plan.project.code)
        changed = [name for file in solution.files for name in module_names(file)]
        said = _AT_INDEX.match(symptom.message) if symptom.kind == "value" else None
        given = await self.given(symptom.test, symptom.unknown)
        return {
            "code": code[1],
            "looks": symptom.kind in ("value", "condition")
            or (symptom.kind == "error" and bool(symptom.expected)),
            "expected": symptom.expected,
            "got": [symptom.got] if symptom.kind == "value" and symptom.got else [],
            "difference": [*said.groups()] if said else [],
            "names": dict(symptom.masked),
            "hidden": sorted(
                {name for of in solution.defined.values() for name in of} | dict(symptom.own).keys()
            ),
            "imports": [
                ast.unparse(node)
                for node in tree.body
                if isinstance(node, ast.Import | ast.ImportFrom) and not _is_future(node)
            ],
            "modules": [*dict.fromkeys((*reversed(changed), *imports.modules.values()))],
            "given": {name: repr(value) for name, value in given.items()},
            "fixtures": sorted({*symptom.unknown, *FIXTURES}),
            "printed": {
                each.name: "err" if "error" in each.kind else "out" for each in symptom.printed
            },
        }

    async def _both(
        self, order: Mapping[str, Any], symptom: Symptom, candidate: Candidate
    ) -> tuple[Facts, Facts] | None:
        """Without the bug, and with it; None where something keeps the code from being run."""
        if self.why:
            return None
        path = _beside(symptom.test)
        bug = candidate.texts(self._sources.read)
        try:
            clean, buggy = self._workers = self._workers or await self._started()
            runs = _facts(clean, {}, path, order), _facts(buggy, bug, path, order)
            done = await asyncio.gather(*runs, return_exceptions=True)
            for each in done:  # both have ended
                if isinstance(each, BaseException):
                    raise each
        except (SandboxError, UsageError) as error:
            self.why = str(error)
            return None
        first, second = (each if isinstance(each, Facts) else None for each in done)
        return None if first is None or second is None else (first, second)

    async def _started(self) -> tuple[WarmPytest, WarmPytest]:
        place = await Place.of(self._plan)
        provider = self._provider or default_provider()
        return (
            WarmPytest(self._plan, Settings(), provider, place, lenient=True),
            WarmPytest(self._plan, Settings(), provider, place, lenient=True),
        )


async def _facts(
    worker: WarmPytest, texts: Mapping[str, str], path: str, order: Mapping[str, Any]
) -> Facts | None:
    test = "def test_said(request):\n    tell(json.loads({said!r}), request)\n"
    facts = await _told(worker, texts, path, _driver("_run_snippet.py") + "\n\n" + test, order)
    if facts is None:
        return None
    facts["looked"] = tuple(facts["looked"])
    return Facts(**{name: _tuple(value) for name, value in facts.items()})


async def _given(worker: WarmPytest, test: str, names: Sequence[str]) -> dict[str, Any]:
    """What a test is given for arguments of these names, as far as a literal says it."""
    code = "ORDER.update(json.loads({said!r}))\n\n\ndef test_said():\n    pass\n"
    code = _driver("_tell_given.py") + "\n\n" + code
    order = {"test": test, "names": [*names]}
    found = await _told(worker, {}, _beside(test), code, order, test)
    return {name: ast.literal_eval(said) for name, said in (found or {}).items()}


async def _told(
    worker: WarmPytest,
    texts: Mapping[str, str],
    path: str,
    code: str,
    order: Mapping[str, Any],
    *tests: str,
) -> dict[str, Any] | None:
    """What a test at `path` of this code says of the order that stands for `{said!r}` in it."""
    mark = f"rolecraft {secrets.token_hex(8)} "
    code = code.replace("{said!r}", repr(json.dumps({**order, "mark": mark})))
    try:
        ran = await worker.run({**texts, path: code}, [f"{path}::test_said", *tests], most=1)
    except WorkerLost:
        return None
    _, found, rest = "".join(ran.messages.values()).rpartition(mark)
    try:
        said, _ = json.JSONDecoder().raw_decode(rest) if found else (None, 0)
    except ValueError:
        return None
    return said if isinstance(said, dict) else None


def _beside(test: str) -> str:
    return str(PurePosixPath(test.partition("::")[0]).parent / FILE)


def is_so(symptom: Symptom, clean: Facts, buggy: Facts) -> bool:
    """Whether a text that tells of this symptom says what is so."""
    match symptom.kind:
        case "no-error":
            return clean.as_expected and not buggy.raised
        case "error" if symptom.expected and is_exception(symptom.expected):
            return clean.as_expected and bool(buggy.raised) and _differs(symptom, clean, buggy)
        case "error":
            well = not symptom.expected or _all(clean.looked, "equal")
            return well and not clean.raised and bool(buggy.raised) and _as_raised(symptom, buggy)
    if clean.raised or buggy.raised:
        return False
    if symptom.kind == "condition":
        return _all(clean.looked, "truth") and not _all(buggy.looked, "truth")
    if not _all(clean.looked, "equal") or _all(buggy.looked, "equal"):
        return False
    if [each["value"] for each in clean.looked] == [each["value"] for each in buggy.looked]:
        return False  # it is the other side that is another with the bug
    wrong = [each for each in buggy.looked if not each["equal"]]
    if symptom.got:
        return any(all(each["got"]) for each in wrong)
    return not symptom.message or any(each["differs"] for each in wrong)


def _all(looked: Sequence[Mapping[str, Any]], what: str) -> bool:
    return bool(looked) and all(each[what] for each in looked)


def _differs(symptom: Symptom, clean: Facts, buggy: Facts) -> bool:
    """Whether another exception came, or the same with another text."""
    if symptom.error:
        return not buggy.as_expected and _as_raised(symptom, buggy)
    return buggy.as_expected and clean.message != buggy.message


def _as_raised(symptom: Symptom, buggy: Facts) -> bool:
    if symptom.error and symptom.error not in buggy.raised[:1]:
        return False
    begun = symptom.message.removesuffix(" …").partition("\n")[0].strip()
    return not symptom.error or begun in buggy.message


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _is_future(node: ast.Import | ast.ImportFrom) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


@cache
def _driver(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")
