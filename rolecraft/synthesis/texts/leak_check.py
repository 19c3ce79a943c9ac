"""Whether a text gives its solution away.

Names are taken by how they are written. One that no prose has (`get_tokens`, `LexerError`) is a
leak wherever it stands. One that is also a word (`split`, `Token`) is a leak only where it is
written as code: called, behind a dot, in backticks, within a block of code. So "splitting fails"
may be said of a bug in `split`, and `split(sql)` may not. Nor may `getattr(pkg, "split")`, "split"
or **split**: a name that is set off stands for the code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from rolecraft.synthesis.texts.bug_words import bug_words
from rolecraft.synthesis.texts.leaks import Leak, LeakKind
from rolecraft.synthesis.texts.overlap import overlap
from rolecraft.synthesis.texts.remedies import remedies
from rolecraft.synthesis.texts.solution import Solution, module_names

_CODE = re.compile(r"```.*?(?:```|\Z)|(?<!`)`[^`\n]+`", re.DOTALL)
_STRINGS = re.compile(r"(?<!\w)[rbuf]{0,2}('(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\")")
_TRACED = re.compile(
    r"[\w./-]+\.(?:py|pyx|pyi|c|cc|cpp|cxx|h|hh|hpp|rs|go|js|ts|java)[:(]\d+"
    r"|File \"[^\"\n]+\", line \d+|\bline \d+, in \w+"
)
_MANGLED = re.compile(r"(?<!\w)_+([A-Za-z]\w*?)(__\w*[A-Za-z0-9])(?!\w)")
"""What Python makes of a private name in a class: `_Lexer__state` is `Lexer.__state`."""
_SHORTEST_RARE = 4
"""Characters: a name of changed lines that is shorter says nothing (`i`, `tmp`)."""
_KINDS = "function|method|class|helper|routine|property|attribute|parameter|argument|constructor"


def find_leaks(text: str, solution: Solution) -> tuple[Leak, ...]:
    """What a text says that it must not, each thing once."""
    code = "\n".join(coded(text))
    found: dict[Leak, None] = {}
    for leak in _all(text, code, solution):
        found[leak] = None
    return tuple(found)


def _all(text: str, code: str, solution: Solution) -> Iterator[Leak]:
    for name in sorted(solution.names):
        yield from _named("entity", name, text, code)
    names = {name.strip("_") for name in solution.names}
    for said in _MANGLED.finditer(text):
        if {said[1], said[2].strip("_")} & names or said[2] in solution.rare:
            yield Leak("entity", said.group())
    for path in solution.files:
        yield from _file(path, text, code, solution)
    for name in sorted(solution.rare - solution.names):
        if len(name) >= _SHORTEST_RARE:
            yield from _rare(name, text, code)
    yield from (Leak("patch", said) for said in overlap(text, solution))
    yield from (Leak("patch", said) for said in remedies(text, solution))
    yield from (Leak("bug-type", said) for said in bug_words(text, solution.modifiers))
    yield from _tests(text, solution.tests)
    yield from (Leak("traceback", said.group()) for said in _TRACED.finditer(text))


def _named(kind: LeakKind, name: str, text: str, code: str) -> Iterator[Leak]:
    bare = name if _is_dunder(name) else name.strip("_") or name
    exact = re.compile(rf"(?<!\w)_*{re.escape(bare)}_*(?!\w)")
    if distinctive(name):
        place = exact.search(text) or _as_words(name).search(text)
    else:
        place = (
            exact.search(_without_strings(code, but=bare))
            or _as_code(bare).search(text)
            or _set_off(bare).search(_CODE.sub(" ", text))
        )
        if place is None and bare[0].isupper():  # a class that is named like a word
            place = re.search(rf"(?<=[a-z,] ){re.escape(bare)}(?!\w)", text)
    if place is not None:
        yield Leak(kind, place.group())


def distinctive(name: str) -> bool:
    """Whether nobody writes this name without meaning the code: it is no word of prose."""
    bare = name.strip("_")
    if _is_dunder(name):
        return True
    return "_" in bare or any(map(str.isdigit, bare)) or any(map(str.isupper, bare[1:]))


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _as_code(name: str) -> re.Pattern[str]:
    """A word written as a name: called, behind a dot, or said to be one."""
    name = re.escape(name)
    return re.compile(
        rf"(?<![\w'\"]){name}\(|(?<=[\w)\]]\.){name}(?!\w)"
        rf"|(?<!\w){name} (?:{_KINDS})(?!\w)|(?:{_KINDS})(?:es|s)? (?:named |called )?{name}(?!\w)"
        rf"|(?<!\w)(?:{_KINDS})\b[^.\n]{{0,80}}: {name}(?=[.,;\s]|\Z)"
    )


def _set_off(name: str) -> re.Pattern[str]:
    """A word that is emphasised or in quotes, and nothing beside it."""
    name = rf"_*{re.escape(name)}_*"
    return re.compile(
        rf"\*{name}\*|(?<!\w)_{name}_(?!\w)|<(\w+)>{name}</\1>"
        rf"|\"{name}\"|“{name}”|\u2018{name}\u2019|«{name}»|(?<!\w)'{name}'(?!\w)"
    )


def _as_words(name: str) -> re.Pattern[str]:
    """`get_tokens` as "get tokens function" or "getTokens"."""
    parts = [re.escape(part) for part in name.strip("_").split("_") if part]
    if len(parts) < 2:
        return re.compile(r"(?!)")
    camel = parts[0] + "".join(part.capitalize() for part in parts[1:])
    spaced = "[ -]".join(parts)
    return re.compile(
        rf"(?<!\w){camel}(?!\w)|(?<!\w){spaced} (?:{_KINDS})"
        rf"|(?:{_KINDS}) (?:named |called )?[\"“]?{spaced}(?!\w)"
    )


def _file(path: str, text: str, code: str, solution: Solution) -> Iterator[Leak]:
    """The file as a path, or as a module that is imported or named."""
    name = PurePosixPath(path).name
    stem = PurePosixPath(path).stem
    if place := re.search(rf"(?<![\w.-]){re.escape(name)}(?!\w)", text):
        yield Leak("file", place.group())
        return
    own = solution.package.replace("-", "_")
    for module in module_names(path):
        if module == own:
            continue  # the whole package: everybody names it
        if "." in module:
            for said in (module, module.replace(".", "/")):
                if re.search(rf"(?<![\w.]){re.escape(said)}(?!\w)", text):
                    yield Leak("file", said)
                    return
            continue
        word = re.escape(module)
        imported = rf"import(?:\s+\w+,)*\s+{word}(?!\w)|from\s+\.*{word}\s+import"
        said_to_be = rf"(?<!\w){word} (?:module|file)|(?:module|file) [`\"]?{word}(?!\w)"
        within = rf"(?<=\.){word}\.(?=\w)"
        place = re.search(f"{imported}|{said_to_be}|{within}", text)
        if place is None and distinctive(stem):
            place = re.search(rf"(?<!\w){word}(?!\w)", text)
        # of a variable that is named like the module other attributes are read
        has = "|".join(map(re.escape, sorted(solution.defined.get(path, ())))) or r"[a-zA-Z_]\w*"
        read = rf"(?<![\w.]){word}\.(?:{has})(?!\w)"
        if place is None and re.search(read, _without_strings(code)):
            assigned = rf"(?<![\w.]){word}\s*(?:,[\w\s,]*)?=(?!=)|\bfor {word} in\b|as {word}\b"
            if not re.search(assigned, code):
                place = re.search(read, code)
        if place is not None:
            yield Leak("file", place.group())
            return


def _rare(name: str, text: str, code: str) -> Iterator[Leak]:
    if distinctive(name):
        yield from _named("name", name, text, code)
    elif re.search(rf"(?<!\w){re.escape(name)}(?!\w)", _without_strings(code)):
        yield Leak("name", name)


def _tests(text: str, tests: Iterable[str]) -> Iterator[Leak]:
    """The name of a test's function or class, its file or its module."""
    words: dict[str, None] = {}
    for test in tests:
        path, *names = test.partition("[")[0].split("::")
        words.update({path: None, PurePosixPath(path).name: None})
        if path.endswith(".py"):
            words.update(dict.fromkeys(module_names(path)))
        words.update(dict.fromkeys(names))
    for word in words:
        telling = distinctive(word) or "/" in word or "." in word
        if word and telling and re.search(rf"(?<![\w/]){re.escape(word)}(?!\w)", text):
            yield Leak("test", word)


def coded(text: str) -> Iterator[str]:
    """What is written as code: blocks, and what is in backticks."""
    for found in _CODE.finditer(text):
        yield re.sub(r"\A```\w*|```\Z|\A`|`\Z", "", found.group())


def _without_strings(code: str, *, but: str = "") -> str:
    """Code with its strings empty, `but` those that are this name: `getattr(pkg, "split")`."""

    def emptied(found: re.Match[str]) -> str:
        said = found[1][1:-1]
        return said if but and said.rpartition(".")[2].strip("_") == but.strip("_") else "''"

    return _STRINGS.sub(emptied, code)
