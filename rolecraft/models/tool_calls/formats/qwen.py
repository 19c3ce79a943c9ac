r"""Qwen 2.5, QwQ and Qwen3: the calls of Hermes, each in three lines of its own.

The prompt format of the older Qwen-Agent is read as well:
`✿FUNCTION✿: name\n✿ARGS✿: {...}\n✿RESULT✿: ...\n✿RETURN✿: the answer`. A model stops at ✿RESULT✿;
if it goes on, what it writes there is an invented result, and no content.

Sources: the chat template of Qwen2.5-Instruct; Qwen-Agent's `fncall_prompts/qwen_fncall_prompt.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from rolecraft.models.reasoning import get_format
from rolecraft.models.tool_calls.grammar import Bodies, Grammar
from rolecraft.models.tool_calls.json_body import Ends, JSONBody, read_json, taking
from rolecraft.models.tool_calls.json_calls import write_calls
from rolecraft.models.tool_calls.marks import Marks
from rolecraft.models.tool_calls.registry import register_parser
from rolecraft.models.tool_calls.source import Reading, Source
from rolecraft.models.tool_calls.written_names import begins_name

OPEN, CLOSE = "<tool_call>", "</tool_call>"
FUNCTION, ARGS, RESULT, RETURN = "✿FUNCTION✿", "✿ARGS✿", "✿RESULT✿", "✿RETURN✿"
_FLOWERS = Marks((FUNCTION, ARGS, RESULT, RETURN))
_AFTER_NAME = Marks((FUNCTION, ARGS, RESULT, RETURN, OPEN, "\n"))
_ARGS = Marks((ARGS,))
_COLON = Marks((":", "："))
_ENDS = Ends((), (FUNCTION, RESULT, RETURN, OPEN), opens=(FUNCTION, OPEN))


@dataclass(frozen=True, slots=True)
class _Legacy:
    """What begins at a marker of Qwen-Agent's old format."""

    def read(self, source: Source, opened: str) -> Reading[None]:
        raw = opened + ((yield from source.marker(_COLON)) or "")
        if opened == RETURN:
            source.framed()
            return
        if opened == RESULT and not source.calls and not source.diagnostics:
            source.say(raw)
            return
        if opened == RESULT:
            parts: list[str] = []
            marker = yield from source.until(_FLOWERS, parts)
            if marker is not None:
                source.unread(marker)
            if (text := "".join(parts)).strip():
                source.diagnose("text after calls", text, "a model can't know the result")
            return
        raw += yield from source.blanks()
        header: list[str] = []
        marker = yield from source.until(_AFTER_NAME, header)
        name = "".join(header).strip()
        raw = "".join((raw, *header))
        if marker == "\n":
            raw += "\n" + (yield from source.blanks())
            marker = yield from source.marker(_ARGS)
        if marker == ARGS and name:
            raw += ARGS + ((yield from source.marker(_COLON)) or "")
            yield from read_json(source, _ENDS, raw, taking(name), name=name)
            return
        if marker is not None:
            source.unread(marker)
        ended = marker is None and source.at == len(source.text)
        if ended and begins_name(name, source.tools):
            source.cut(raw, name=name)
        else:
            source.malformed(raw, f"a name and {ARGS} are expected after {FUNCTION}")


@register_parser("qwen")
def qwen() -> Grammar:
    json, legacy = JSONBody(Ends((CLOSE,), (OPEN, FUNCTION), opens=(OPEN, FUNCTION))), _Legacy()
    return Grammar(
        name="qwen",
        opens=(OPEN, FUNCTION, RESULT, RETURN),
        body=Bodies({OPEN: json, FUNCTION: legacy, RESULT: legacy, RETURN: legacy}),
        write=lambda calls: write_calls(calls, f"{OPEN}\n", f"\n{CLOSE}"),
        reasoning=get_format("qwen3"),
    )
