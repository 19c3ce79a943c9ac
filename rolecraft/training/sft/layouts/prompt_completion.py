"""Prompts and completions, as texts or as messages; Alpaca's instructions among them."""

from __future__ import annotations

from rolecraft.training.sft.layouts.layout import Fields, Layout, facts_of, tools_of
from rolecraft.training.sft.layouts.messages import turns_of_messages
from rolecraft.training.sft.samples import BadRow, Sample, TextSample

_COLUMNS = (
    ("prompt", "completion"),
    ("prompt", "response"),
    ("instruction", "output"),
    ("instruction", "response"),
    ("question", "answer"),
)


def _columns(row: Fields) -> tuple[str, str] | None:
    return next((pair for pair in _COLUMNS if pair[0] in row and pair[1] in row), None)


def _read(row: Fields) -> Sample | TextSample:
    columns = _columns(row)
    assert columns is not None
    asked, said = (row[name] for name in columns)
    if isinstance(asked, list) and isinstance(said, list):
        before = turns_of_messages(asked, columns[0])
        for turn in before:
            turn.sampled = False  # the prompt is given, answers in it too
        turns = before + turns_of_messages(said, columns[1])
        return Sample(turns=turns, tools=tools_of(row.get("tools")), facts=facts_of(row))
    for name, text in zip(columns, (asked, said), strict=True):
        if not isinstance(text, str):
            kind = type(text).__name__
            raise BadRow(f"has {kind} as `{name}`; both columns hold texts, or both messages")
    more = row.get("input")
    if columns[0] == "instruction" and isinstance(more, str) and more.strip():
        asked = f"{asked}\n\n{more}"
    return TextSample(prompt=asked, completion=said, facts=facts_of(row))


PROMPT_COMPLETION = Layout(
    "prompt-completion",
    "`prompt` and `completion`",
    lambda row: _columns(row) is not None,
    _read,
)
