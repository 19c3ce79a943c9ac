r"""DeepSeek V3 and R1, and V3.1: a section of calls between markers with wide bars.

- V3: `function`, `<｜tool▁sep｜>`, the name, a line break, and the arguments in a JSON code fence.
- V3.1: the name, `<｜tool▁sep｜>`, and the bare arguments.

Each parser reads both. Source: the chat templates of DeepSeek-V3-0324, R1-0528 and V3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rolecraft.messages import ToolCall
from rolecraft.models.reasoning import get_format
from rolecraft.models.tool_calls.grammar import Grammar
from rolecraft.models.tool_calls.json_calls import header_name, write_arguments
from rolecraft.models.tool_calls.registry import register_parser
from rolecraft.models.tool_calls.section_body import Header, SectionBody
from rolecraft.models.tool_calls.source import Source

BEGIN, END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
CALL, SEP, CLOSE = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"


def _header(source: Source, head: str, label: str) -> Header | None:
    """In V3 the name is the label, and the head the kind of the call."""
    name = label or head
    if not name or "\n" in name or SEP in name or (label and head != "function"):
        return None
    return Header(name)


_BODY = SectionBody(
    opens=(BEGIN,),
    closes=(END,),
    call_opens=CALL,
    header_ends=SEP,
    call_closes=CLOSE,
    header=_header,
    fenced=True,
)


def _grammar(name: str, call: Callable[[ToolCall], str]) -> Grammar:
    def write(calls: Sequence[ToolCall]) -> str:
        return f"{BEGIN}{''.join(map(call, calls))}{END}" if calls else ""

    return Grammar(
        name=name,
        opens=(BEGIN, CALL),
        body=_BODY,
        good=_BODY.good,
        write=write,
        reasoning=get_format("deepseek_r1"),
    )


@register_parser("deepseek_v3")
def deepseek_v3() -> Grammar:
    return _grammar(
        "deepseek_v3",
        lambda call: (
            f"{CALL}function{SEP}{header_name(call)}\n```json\n{write_arguments(call)}\n```{CLOSE}"
        ),
    )


@register_parser("deepseek_v3_1")
def deepseek_v3_1() -> Grammar:
    return _grammar(
        "deepseek_v3_1",
        lambda call: f"{CALL}{header_name(call)}{SEP}{write_arguments(call)}{CLOSE}",
    )
