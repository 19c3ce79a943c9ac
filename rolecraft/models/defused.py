"""Text in which a chat template finds none of its own control tokens.

Servers of open models commonly tokenize a whole conversation at once, so that a trace which says
`<|im_end|>` would end the message it is quoted in. A word joiner (U+2060, invisible) behind the
first character takes the token apart. Invariant: `restore(defuse(text)) == restore(text)`, and a
judge may copy such a place with or without the joiner: `restore` makes both the same.
"""

from __future__ import annotations

import re

_JOINER = "\u2060"
_NAMES = (
    "s|bos|eos|pad|unk|start_of_turn|end_of_turn|start_of_image|think|thinking|tool_call|tool_calls"
    "|tool_response|tool_result|function_call|extra_id_\\d+|SYS|sep|cls|mask"
)
_CONTROL = re.compile(
    rf"(?:<(?=[|\uff5c])|<(?=/?(?:{_NAMES})>)|<(?=</?SYS>>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT)\]))",
    re.IGNORECASE,
)
_TAKEN_APART = re.compile(f"(?<=[<\\[]){_JOINER}")


def defuse(text: str) -> str:
    """`text` with control tokens of chat templates taken apart."""
    return _CONTROL.sub(lambda found: found.group() + _JOINER, text)


def restore(text: str) -> str:
    """`text` as it was before `defuse`."""
    return _TAKEN_APART.sub("", text)
