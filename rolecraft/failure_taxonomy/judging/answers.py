"""Reading a judge's answer: strictly, and never in favour of "no failure".

Whatever is not an answer in the asked form (nothing, a refusal, a cut-off or withheld text, an
echo of the prompt or of the trace, bare codes, yes/no lists, broken JSON) leaves every mode
`unknown`; a mode that is missing, answered twice in contrary ways or in a row that does not
validate is `unknown` by itself. Nothing is repaired or guessed: a repaired answer says what the
repair says. An answer in codes, `{"1.1": true}`, is one of these: codes mean
different modes in different versions, and there is no evidence in it that could be checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

from rolecraft.models.base import Completion
from rolecraft.trajectories.events import FailureFinding

MOST_STARTS = 1000
"""So many opening braces are tried; a text with more is no answer."""


@dataclass(slots=True)
class Answer:
    """What an answer says about each mode: findings, or as a str why it says nothing."""

    rows: dict[str, list[FailureFinding] | str] = field(default_factory=dict)
    diagnosis: str = ""
    digest: str = ""
    """Notes for whoever reads the next part of the trace."""
    strays: list[str] = field(default_factory=list)
    """What the rows are about that no asked mode has."""

    fault: str = ""
    """Why it is no answer at all; "" if it is one."""

    @property
    def answered(self) -> int:
        """How many modes it says something about."""
        return sum(not isinstance(rows, str) for rows in self.rows.values())

    @property
    def usable(self) -> bool:
        return self.answered > 0


class NoAnswer(Exception):
    """The text is no answer; the message says why. It never leaves this package."""


def read_answer(
    completion: Completion, *, marker: str, asked: Sequence[str], source: str
) -> Answer:
    """The answer in a completion to a question about the modes `asked`. Never raises."""
    try:
        found = the_object(completion, marker, key="findings")
        diagnosis = found.get("diagnosis")
        if not isinstance(diagnosis, str) or not diagnosis.strip():
            raise NoAnswer("the answer has no diagnosis")
        rows = found.get("findings")
        if not isinstance(rows, list):
            raise NoAnswer("the answer has no list of findings")
    except NoAnswer as reason:
        return no_answer(asked, str(reason))
    by_mode: dict[str, list[FailureFinding | str]] = {mode: [] for mode in asked}
    strays: list[str] = []
    for row in rows:
        mode = row.get("mode") if isinstance(row, dict) else None
        if isinstance(mode, str) and mode in by_mode:
            by_mode[mode].append(_row(row, source))
        else:
            strays.append(str(mode))
    settled = {mode: _settle(said) for mode, said in by_mode.items()}
    digest = found.get("digest")
    return Answer(
        settled, diagnosis.strip(), digest.strip() if isinstance(digest, str) else "", strays
    )


def no_answer(asked: Sequence[str], reason: str) -> Answer:
    """An answer that says nothing about any mode."""
    rows: dict[str, list[FailureFinding] | str] = dict.fromkeys(asked, reason)
    return Answer(rows, fault=reason)


def _settle(rows: list[FailureFinding | str]) -> list[FailureFinding] | str:
    if not rows:
        return "the answer leaves the mode out"
    valid: list[FailureFinding] = []
    for row in rows:
        if isinstance(row, str):
            return row
        valid.append(row)
    if len({row.verdict for row in valid}) > 1:
        return "the answer contradicts itself"
    return valid


def _row(row: dict[str, Any], source: str) -> FailureFinding | str:
    from pydantic import ValidationError

    try:
        checked = _row_model().model_validate(row)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        return f"the row is not valid: {'.'.join(map(str, first['loc']))}: {first['msg']}"
    values: dict[str, Any] = checked.model_dump()
    return FailureFinding(
        values["mode"],
        values["verdict"],
        events=tuple(values["events"] or ()),
        role=(values["role"] or "").strip(),
        quote=values["quote"] or "",
        confidence=values["confidence"],
        source=source,
        reason=values["reason"] or "",
    )


def _row_model() -> Any:
    global _Row
    if _Row is None:
        from pydantic import BaseModel, ConfigDict, Field

        class Row(BaseModel):
            """One row as it must be: `"3"` is no number and `1` is no text."""

            model_config = ConfigDict(strict=True)

            mode: str
            verdict: Literal["present", "absent", "unknown"]
            role: str | None = None
            events: list[int] | None = None
            quote: str | None = None
            confidence: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
            reason: str | None = None

        _Row = Row
    return _Row


_Row: Any = None


def the_object(completion: Completion, marker: str, *, key: str) -> dict[str, Any]:
    """The one JSON object with `key` in the text. Raises `NoAnswer` with the reason."""
    if completion.finish_reason == "length":
        raise NoAnswer("the answer was cut off at the token limit")
    if completion.finish_reason == "content_filter":
        raise NoAnswer("the answer was withheld by the provider")
    if completion.tool_calls:
        raise NoAnswer("the model asked for a tool instead of answering")
    text = completion.text
    if not isinstance(text, str) or not text.strip():
        raise NoAnswer("the answer is empty")
    answers = [found for found in _objects(_spoken(text), marker, key) if key in found]
    if not answers:
        raise NoAnswer(f"the answer is not in the form that was asked for: {text.strip()[:80]!r}")
    if len(answers) > 1:
        raise NoAnswer("the text holds several answers")
    if answers[0].get("marker") != marker:
        raise NoAnswer("the answer does not carry the marker of this trace")
    return answers[0]


def _spoken(text: str) -> str:
    """The text after the thoughts with which some models begin, drafts among them."""
    _, end, rest = text.partition("</think>")
    if end:
        for part in (text, rest):
            if _is_one_object(part):  # the mark stands in it: a quote of a trace that has it
                return part
        return text.rpartition("</think>")[2]
    if "<think>" in text[: text.find("{")]:
        raise NoAnswer("the answer ends among the model's thoughts")
    return text


def _is_one_object(text: str) -> bool:
    """True for a JSON object, in a code fence or bare, and nothing besides."""
    try:
        return isinstance(json.loads(_FENCES.sub("", text.strip())), dict)
    except (ValueError, RecursionError):
        return False


_FENCES = re.compile(r"\A```\w*\n|\n```\Z")


def _objects(text: str, marker: str, key: str) -> Iterator[dict[str, Any]]:
    """The outermost JSON objects in a text that may have words and code fences around them.

    Raises `NoAnswer` where an object is broken: it may be the answer, and what stands in it or
    beside it only a draft. A word in braces, as in `{this}`, is no object.
    """
    decoder = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
    at = text.find("{")
    for _ in range(MOST_STARTS):
        if at < 0:
            return
        try:
            found, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = _closing(text, at)
            inside = text[at:end]
            if _TABLE.match(inside) or key in inside or marker in inside:
                raise NoAnswer("the text holds broken JSON") from None
        else:
            yield found
        at = text.find("{", end)
    raise NoAnswer("the text has too many braces")


_TABLE = re.compile(r"\{\s*[\"'{}]")
"""How a table begins that is written in JSON, or nearly."""

_BRACES = re.compile(r'\\.|["{}]', re.DOTALL)
"""What tells where an object ends. One pass over a text, whatever it holds."""


def _closing(text: str, start: int) -> int:
    """Where the brace at `start` is closed, braces in strings not counted.

    Raises `NoAnswer` if it is not: the text was cut off.
    """
    depth, quoted = 0, False
    for found in _BRACES.finditer(text, start):
        mark = found.group()
        if mark == '"':
            quoted = not quoted
        elif not quoted:
            depth += {"{": 1, "}": -1}.get(mark, 0)
            if depth == 0:
                return found.end()
    raise NoAnswer("the text ends within an open brace")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a key occurs twice")
    return table


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
