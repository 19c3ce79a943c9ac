"""What a row asks for: its prompt, and where it is to be played."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from rolecraft.environments.row_files import Row
from rolecraft.errors import UsageError
from rolecraft.sandboxes.live import SandboxSpec

PROMPTS = (
    *("prompt", "question", "problem", "problem_statement", "instruction", "query", "task"),
    *("input", "text", "messages", "conversations"),
)
"""Columns that have the prompt, the first that is there."""
_SAID = ("content", "value")
_SPEAKERS = ("role", "from")
_PERSON = ("user", "human")
_IMAGES = ("image", "docker_image")
_OF_SPEC = tuple(each.name for each in fields(SandboxSpec))


class Discarded(Exception):
    """A row that can give no sample. `reason` is a word for the ledger."""

    def __init__(self, reason: str, text: str) -> None:
        self.reason = reason
        super().__init__(text)


def prompt_of(row: Row, column: str = "") -> str:
    """The text that a team is given. Raises `Discarded`."""
    if row.problem:
        reason = "too-large" if "are allowed" in row.problem else "unreadable"
        raise Discarded(reason, f"the row {row.problem}")
    there = [name for name in ((column,) if column else PROMPTS) if name in row.fields]
    if not there:
        wanted = f"`{column}`" if column else "that holds a prompt"
        names = ", ".join(f"`{name}`" for name in row.fields) or "none"
        raise Discarded("no-prompt", f"the row has no column {wanted}; it has {names}"[:500])
    prompt = _said(row.fields[there[0]])
    if prompt is None:
        kind = type(row.fields[there[0]]).__name__
        raise Discarded("no-prompt", f"the column `{there[0]}` holds {kind}, not a text")
    if not prompt.strip():
        raise Discarded("empty-prompt", f"the column `{there[0]}` is empty")
    return prompt


def _said(value: object) -> str | None:
    """A text, or what the person says first in a conversation; None where neither is there."""
    if isinstance(value, str):
        return value
    if not isinstance(value, (list, tuple)):
        return None
    for message in value:
        if isinstance(message, Mapping) and any(message.get(s) in _PERSON for s in _SPEAKERS):
            return next((t for name in _SAID if isinstance(t := message.get(name), str)), None)
    return None


def sandbox_of(fields: Mapping[str, Any], base: SandboxSpec | None = None) -> SandboxSpec | None:
    """The sandbox that a row wants: `sandbox`, an object with fields of `SandboxSpec`, or `image`.

    What it does not say is as in `base`. None if neither says anything. Raises `Discarded`.
    """
    wanted = dict(fields.get("sandbox") or {}) if _is_object(fields.get("sandbox")) else {}
    for name in _IMAGES:
        if isinstance(fields.get(name), str) and fields[name]:
            wanted.setdefault("image", fields[name])
    wanted = {name: value for name, value in wanted.items() if value is not None}
    if not wanted:
        return base
    # What lets a program out, or in, is for whoever runs the batch to say, not for its data.
    allowed = ("image", "files", "env")
    for name in wanted:
        if name not in allowed:
            known = "is for whoever runs the batch to say" if name in _OF_SPEC else "is unknown"
            raise Discarded("bad-sandbox", f"`sandbox.{name}` {known}; a row says {allowed}")
    try:
        start = {} if base is None else {name: getattr(base, name) for name in _OF_SPEC}
        return SandboxSpec(**{**start, **wanted})
    except UsageError as error:
        raise Discarded("bad-sandbox", str(error)) from error


def _is_object(value: object) -> bool:
    return isinstance(value, Mapping)
