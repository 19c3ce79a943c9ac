"""LongCat: the JSON of Hermes, `{"name": ..., "arguments": {...}}`, between markers of its own.

Source: the chat template of Meituan's LongCat-Flash.
"""

from rolecraft.models.reasoning import get_format
from rolecraft.models.tool_calls.grammar import ENDS, Grammar
from rolecraft.models.tool_calls.json_body import Ends, JSONBody
from rolecraft.models.tool_calls.json_calls import write_calls
from rolecraft.models.tool_calls.registry import register_parser

OPEN, CLOSE = "<longcat_tool_call>", "</longcat_tool_call>"


@register_parser("longcat")
def longcat() -> Grammar:
    return Grammar(
        name="longcat",
        opens=(OPEN,),
        body=JSONBody(Ends((CLOSE,), (OPEN,), opens=(OPEN,))),
        write=lambda calls: write_calls(calls, OPEN, CLOSE),
        ends=(*ENDS, "</longcat_s>"),
        reasoning=get_format("longcat"),
    )
