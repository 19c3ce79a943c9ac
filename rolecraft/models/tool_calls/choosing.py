"""Which format a model writes, by its chat template or its name.

The template is the better evidence: it writes the calls of earlier turns, which the model
continues. A name decides only where no template does. Neither is guessed at: what is unknown, or
could be two things, is None with a reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Choice:
    """A format of tool calls, or none, and why."""

    format: str | None
    """A name for `get_parser`."""
    why: str
    """The evidence that decided, or what was missing, in words."""


def choose_format(model: str = "", template: str = "") -> Choice:
    """The format of a model, by the text of its chat template, else by its name.

    `model` may have an organisation and folders before it: `Qwen/Qwen3-8B`, `./models/qwen3-8b`.
    """
    found = {name: marker for name, marker, fits in _TEMPLATES if fits(template)}
    if "<tool_call>" in template and not found:
        name = "qwen" if "qwen" in f"{model} {template}".lower() else "hermes"
        found = {name: "<tool_call>"}
    if len(found) == 1:
        ((name, marker),) = found.items()
        return Choice(name, f"the chat template has `{marker}`")
    if found:
        both = " and ".join(f"`{marker}` ({name})" for name, marker in found.items())
        return Choice(None, f"the chat template has {both}: it could be either format")
    return _by_name(model)


def _by_name(model: str) -> Choice:
    if not model:
        return Choice(None, "there is no chat template with calls in it, and no name")
    # The folder that a model stands in may have the name of another one.
    name = re.sub(r"[\s_]+", "-", re.split(r"[/\\]", model.rstrip("/\\"))[-1].lower())
    if untaught := _OTHERS.search(name):
        return Choice(None, f"its name {model!r} has `{untaught[0]}`: such models write no calls")
    matches = {form: pattern.search(name) for form, pattern in _NAMES}
    found = {form: match[0] for form, match in matches.items() if match}
    for tuned in _TUNED:  # of one family, and named after what it was made from as well
        if tuned in found:
            found = {tuned: found[tuned]}
    if len(found) == 1:
        ((form, said),) = found.items()
        return Choice(form, f"its name has `{said}`")
    if found:
        both = " and ".join(f"`{said}` ({form})" for form, said in found.items())
        return Choice(None, f"its name {model!r} has {both}: it could be either format")
    return Choice(
        None, f"its name {model!r} is of no known family, and no chat template with calls was given"
    )


_NAMES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (form, re.compile(pattern))
    for form, pattern in (
        ("hermes", r"(?<!open)hermes-?[2-4]"),
        ("qwen3_coder", r"qwen-?3-?coder"),
        ("qwen", r"qwen-?2[.-]5|qwen-?3(?![.\d]|-?coder)|qwq"),
        ("deepseek_v3_1", r"deepseek-?v3[.-]1"),
        ("deepseek_v3", r"deepseek-?v3(?![.\d]|-1)|deepseek-?r1"),
        ("glm45", r"glm-?4[.-][56]"),
        ("glm47", r"glm-?4[.-]7"),
        ("kimi_k2", r"kimi-?k2"),
        ("llama", r"llama-?3[.-][1-3]|llama-?4"),
        ("longcat", r"longcat"),
        ("mistral", r"mistral|mixtral|ministral|devstral|magistral|codestral"),
        ("gpt_oss", r"gpt-?oss"),
    )
)
_OTHERS = re.compile(r"openhermes")
"""Families that are named after one of the above as well, and were not taught its calls."""
_TUNED = ("hermes", "deepseek_v3")
"""Families that were made from models of others: `Hermes-3-Llama-3.1`, `R1-Distill-Qwen`."""


def _has(*markers: str, lacks: str = "") -> Callable[[str], bool]:
    return lambda template: (
        all(marker in template for marker in markers) and not (lacks and lacks in template)
    )


_CALLS = "<｜tool▁calls▁begin｜>"
# What a template writes between two parts is a string of Jinja, where a line break may be escaped.
_GLM47 = re.compile(r"</arg_key>[^\n\\]{0,40}<arg_value>")
_TEMPLATES: tuple[tuple[str, str, Callable[[str], bool]], ...] = (
    ("deepseek_v3", f"{_CALLS}` and `json` fences of `", _has(_CALLS, "```json")),
    ("deepseek_v3_1", _CALLS, _has(_CALLS, lacks="```json")),
    ("kimi_k2", "<|tool_calls_section_begin|>", _has("<|tool_calls_section_begin|>")),
    ("glm47", "</arg_key><arg_value>", lambda text: bool(_GLM47.search(text))),
    ("glm45", "<arg_key>", lambda text: "<arg_key>" in text and not _GLM47.search(text)),
    ("qwen3_coder", "<function=", _has("<function=", "<parameter=", lacks="<seed:tool_call>")),
    ("longcat", "<longcat_tool_call>", _has("<longcat_tool_call>")),
    ("mistral", "[TOOL_CALLS]", _has("[TOOL_CALLS]")),
    ("gpt_oss", "<|channel|>", _has("<|channel|>", "<|message|>")),
    ("qwen", "✿FUNCTION✿", _has("✿FUNCTION✿")),
    ("llama", "<|python_tag|>", _has("<|python_tag|>")),
    ("llama", "<|python_start|>", _has("<|python_start|>")),
    (
        "llama",
        '<|start_header_id|>` and `"parameters"',
        _has("<|start_header_id|>", '"parameters"', lacks="<tool_call>"),
    ),
)
"""What stands in the templates of each format that stands in no other's."""
