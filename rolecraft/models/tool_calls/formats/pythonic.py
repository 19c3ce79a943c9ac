"""Calls as a list of Python calls: Llama 3.2 and 4, and others that were taught so.

Llama 4 may write the list between `<|python_start|>` and `<|python_end|>`.
"""

from __future__ import annotations

from rolecraft.models.tool_calls.grammar import Grammar
from rolecraft.models.tool_calls.pythonic_body import PythonicBody
from rolecraft.models.tool_calls.registry import register_parser

BODY = PythonicBody(
    opens=("<|python_start|>", "<|python_tag|>"),
    closes=("<|python_end|>",),
)


STARTS = r"\[(?=\s*(?:[^\W\d]|\]|\Z))"
"""A bracket before a name, or an empty list: after any other, no call begins."""


@register_parser("pythonic")
def pythonic() -> Grammar:
    return Grammar(
        name="pythonic", opens=BODY.opens, also_opens=STARTS, body=BODY, write=BODY.write
    )
