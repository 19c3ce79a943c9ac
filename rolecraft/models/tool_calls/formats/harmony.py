"""Harmony, the format of gpt-oss: messages in channels, of which some are sent to tools.

Source: OpenAI's description of the format for gpt-oss.
"""

from __future__ import annotations

from rolecraft.models.reasoning import ReasoningFormat
from rolecraft.models.tool_calls.grammar import Grammar
from rolecraft.models.tool_calls.harmony_body import CALL, END, RETURN, HarmonyBody
from rolecraft.models.tool_calls.registry import register_parser

BODY = HarmonyBody()


@register_parser("gpt_oss")
def gpt_oss() -> Grammar:
    return Grammar(
        name="gpt_oss",
        opens=BODY.opens,
        body=BODY,
        begin=BODY.begin,
        write=BODY.write,
        # Only for an answer that begins in its reasoning: all others have messages.
        reasoning=ReasoningFormat(
            name="harmony", opens=(), closes=(END,), drops=(CALL, RETURN), strays=True
        ),
    )
