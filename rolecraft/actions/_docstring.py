"""What a function's docstring says about it and about its parameters.

Reads the three styles in use: Google (`Args:` and indented `name (type): text`), NumPy
(`Parameters` underlined, `name : type`, text below) and Sphinx (`:param name: text`). What stands
before the first section is the description. A docstring of no style is all description.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

_PARAMETERS = r"(?:Args|Arguments|Params|Parameters|Other Parameters|Keyword Args)"
_OTHERS = (
    r"(?:Returns?|Yields?|Raises|Warns|Examples?|Notes?|See Also|References|Attributes|Todo|"
    r"Warnings?)"
)
# A heading stands at the margin: Google's with a colon and nothing after it, NumPy's underlined.
_HEADING = re.compile(
    rf"^(?:(?P<parameters>{_PARAMETERS})|{_OTHERS})(?::[ ]*$|[ ]*\n-{{3,}}[ ]*$)", re.MULTILINE
)
_SPHINX = re.compile(r"^:(?P<field>\w+)(?P<about>[^:\n]*):[ ]*", re.MULTILINE)
_GOOGLE_ENTRY = re.compile(r"^\*{0,2}(?P<names>\w+)[ ]*(?:\(.*?\))?[ ]*:(?:[ ]+|$)(?P<text>.*)$")
_NUMPY_ENTRY = re.compile(r"^(?P<names>\w+(?:[ ]*,[ ]*\w+)*)[ ]*(?::.*)?$")


def read_docstring(function: object) -> tuple[str, dict[str, str]]:
    """The description of `function`, and what its docstring says of each parameter."""
    doc = inspect.getdoc(function) or ""
    starts = [found.start() for pattern in (_HEADING, _SPHINX) if (found := pattern.search(doc))]
    description = doc[: min(starts, default=len(doc))].strip()
    return description, dict(_parameters(doc))


def _parameters(doc: str) -> Iterator[tuple[str, str]]:
    for found, body in _sections(_HEADING, doc):
        if found["parameters"]:
            underlined = "\n" in found[0]
            yield from (_entries(_NUMPY_ENTRY if underlined else _GOOGLE_ENTRY, body))
    for found, body in _sections(_SPHINX, doc):
        if found["field"] in ("param", "parameter", "arg", "argument", "key", "keyword"):
            name = found["about"].split()[-1:]  # `:param int limit:` names a type first
            if name:
                yield name[0].lstrip("*"), _joined(body.split("\n\n", 1)[0])


def _sections(heading: re.Pattern[str], doc: str) -> Iterator[tuple[re.Match[str], str]]:
    """Every heading, with the text from it to the next one."""
    headings = list(heading.finditer(doc))
    ends = [found.start() for found in headings[1:]] + [len(doc)]
    for found, end in zip(headings, ends, strict=False):
        yield found, doc[found.end() : end]


def _entries(entry: re.Pattern[str], body: str) -> Iterator[tuple[str, str]]:
    """The entries of a section: each begins at the section's own indentation."""
    names: list[str] = []
    text: list[str] = []
    for line in inspect.cleandoc(f"\n{body}").splitlines():
        found = entry.match(line) if line[:1].strip() else None
        if found is None:
            text.append(line)
            continue
        yield from ((name, _joined("\n".join(text))) for name in names)
        names = [name.strip() for name in found["names"].split(",")]
        text = [found.groupdict().get("text") or ""]
    yield from ((name, _joined("\n".join(text))) for name in names)


def _joined(text: str) -> str:
    """A wrapped text on one line."""
    return " ".join(text.split())
