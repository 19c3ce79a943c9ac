"""Formats by name."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from rolecraft.errors import UnknownName, UsageError
from rolecraft.models.tool_calls.grammar import Grammar
from rolecraft.models.tool_calls.parser import ToolCallParser, UnknownTools

_OURS = {
    "glm45": "glm",
    "glm47": "glm",
    "gpt_oss": "harmony",
    "hermes": "hermes",
    "deepseek_v3": "deepseek",
    "deepseek_v3_1": "deepseek",
    "kimi_k2": "kimi",
    "llama": "llama",
    "llama3_json": "llama",
    "longcat": "longcat",
    "mistral": "mistral",
    "qwen": "qwen",
    "pythonic": "pythonic",
    "qwen3_coder": "qwen3_coder",
}
"""Names of our formats, and the module of each."""
ALIASES = {
    "deepseek_r1": "deepseek_v3",
    "deepseek_v31": "deepseek_v3_1",
    "deepseekv3": "deepseek_v3",
    "deepseekv31": "deepseek_v3_1",
    "glm4_moe": "glm45",
    "glm47_moe": "glm47",
    "gpt-oss": "gpt_oss",
    "harmony": "gpt_oss",
    "kimi": "kimi_k2",
    "llama3": "llama3_json",
    "llama4": "pythonic",
    "llama4_json": "llama3_json",
    "llama4_pythonic": "pythonic",
    "openai": "gpt_oss",
    "qwen2": "qwen",
    "qwen25": "qwen",
    "qwen2_5": "qwen",
    "qwen3": "qwen",
    "qwen3_xml": "qwen3_coder",
    "qwq": "qwen",
}
"""Names under which the field knows the same formats."""

_LISTED = ("llama4_json", "llama4_pythonic")
"""Aliases that are listed, because other tools have parsers of their own for them."""

_registered: dict[str, Grammar] = {}


def register_parser(name: str) -> Callable[[Callable[[], Grammar]], Callable[[], Grammar]]:
    """Register the grammar that the decorated function makes, under `name`.

    The function is called once, here. Raises `UsageError` if the name is taken, or if the function
    makes no `Grammar`.
    """
    if not isinstance(name, str) or not name:
        raise UsageError(f'Write `@register_parser("NAME")`: a name is missing, got {name!r}.')

    def register(make: Callable[[], Grammar]) -> Callable[[], Grammar]:
        if name in _registered or (name in _OURS and not make.__module__.startswith(__package__)):
            raise UsageError(
                f"A tool-call parser named {name!r} is registered already: `get_parser({name!r})` "
                f"gives it. Choose another name for yours."
            )
        grammar = make()
        if not isinstance(grammar, Grammar):
            raise UsageError(
                f"`@register_parser({name!r})`: the function has to return a `Grammar`, it "
                f"returned {grammar!r}."
            )
        _registered[name] = grammar
        return make

    return register


def get_parser(
    name: str, *, repair: bool = True, unknown_tools: UnknownTools = "diagnose"
) -> ToolCallParser:
    """The parser of the format `name`, such as `hermes` or `qwen3_coder`.

    Without `repair`, what is not exactly in the format is no call. With `unknown_tools="call"`, a
    call of a tool that was not offered is a call like any other, as it would be from an API, and
    not just a diagnostic. Raises `UnknownName` for a name that nobody registered; it lists those
    that are known.
    """
    grammar = _registered.get(name) or _load(ALIASES.get(name, name))
    if grammar is None:
        raise UnknownName(
            "Tool-call parser",
            name,
            parser_names(),
            hint="Register one of your own with `@register_parser`.",
        )
    return ToolCallParser(grammar, repair=repair, unknown_tools=unknown_tools)


def parser_names() -> list[str]:
    """The names of all formats, sorted; of aliases, those that are formats elsewhere."""
    return sorted({*_OURS, *_registered, *_LISTED})


def _load(name: str) -> Grammar | None:
    if name not in _registered and name in _OURS:
        import_module(f"rolecraft.models.tool_calls.formats.{_OURS[name]}")
    return _registered.get(name)
