"""Qwen3-Coder: `<function=NAME>` with one `<parameter=KEY>` for each argument."""

from __future__ import annotations

from rolecraft.models.tool_calls.grammar import Grammar
from rolecraft.models.tool_calls.pairs_body import PairsBody
from rolecraft.models.tool_calls.registry import register_parser

BODY = PairsBody(
    function_opens="<function=",
    function_closes="</function>",
    name_ends=">",
    key_opens="<parameter=",
    key_closes=">",
    value_closes="</parameter>",
    newline="\n",
    framed=True,
)


@register_parser("qwen3_coder")
def qwen3_coder() -> Grammar:
    return Grammar(
        name="qwen3_coder",
        opens=(BODY.opens, BODY.function_opens),
        body=BODY,
        write=BODY.write,
    )
