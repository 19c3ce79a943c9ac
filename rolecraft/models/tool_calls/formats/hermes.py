"""Hermes: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, once for each call.

Source: the chat templates of Nous Research's Hermes 2 Pro and Hermes 3.
"""

from rolecraft.models.tool_calls.grammar import Grammar
from rolecraft.models.tool_calls.json_body import Ends, JSONBody
from rolecraft.models.tool_calls.json_calls import write_calls
from rolecraft.models.tool_calls.registry import register_parser

OPEN, CLOSE = "<tool_call>", "</tool_call>"


@register_parser("hermes")
def hermes() -> Grammar:
    return Grammar(
        name="hermes",
        opens=(OPEN,),
        body=JSONBody(Ends((CLOSE,), (OPEN,), opens=(OPEN,))),
        write=lambda calls: write_calls(calls, f"{OPEN}\n", f"\n{CLOSE}"),
    )
