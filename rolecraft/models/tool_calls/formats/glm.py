"""GLM 4.5 to 4.7: pairs of `<arg_key>` and `<arg_value>`, the second without line breaks."""

from __future__ import annotations

from rolecraft.models.tool_calls.grammar import ENDS, Grammar
from rolecraft.models.tool_calls.pairs_body import PairsBody
from rolecraft.models.tool_calls.registry import register_parser

_ENDS = (*ENDS, "<|user|>", "<|observation|>")


def _body(newline: str) -> PairsBody:
    return PairsBody(
        key_opens="<arg_key>",
        key_closes="</arg_key>",
        value_opens="<arg_value>",
        value_closes="</arg_value>",
        newline=newline,
        turn_ends=_ENDS,
    )


@register_parser("glm45")
def glm45() -> Grammar:
    body = _body("\n")
    return Grammar(name="glm45", opens=(body.opens,), body=body, write=body.write, ends=_ENDS)


@register_parser("glm47")
def glm47() -> Grammar:
    body = _body("")
    return Grammar(name="glm47", opens=(body.opens,), body=body, write=body.write, ends=_ENDS)
