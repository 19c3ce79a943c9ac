"""The engine that `rolecraft serve` serves with: which one, and its settings by name."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from rolecraft.cli._exits import CommandLineError
from rolecraft.cli._output import Output
from rolecraft.errors import UnknownName
from rolecraft.models.model_folder import check_folder

if TYPE_CHECKING:
    from rolecraft.models.token_model import TokenModel

Engine = Literal["auto", "transformers", "vllm"]

# They have an option of their own, or are no one value.
_NOT_SET = {
    *("self", "cls", "path", "module", "tokenizer", "settings", "engine"),
    *("name", "parser", "reasoning", "max_tokens", "template", "on_rewrite", "also_known_as"),
}


def load_engine(
    spec: str,
    engine: Engine,
    output: Output,
    *,
    name: str,
    parser: str | None,
    reasoning: str | None,
    adapters: int,
    also_known_as: Sequence[str] = (),
    chosen: Mapping[str, Any],
) -> TokenModel:
    """The model that `spec` names. `chosen` are settings: see `named_settings`.

    Raises `CommandLineError` for a setting that the engine does not have.
    """
    prefix, colon, path = spec.partition(":")
    if colon and prefix in ("transformers", "vllm"):
        if engine not in ("auto", prefix):
            raise CommandLineError(f"`{spec}` and `--engine {engine}` contradict each other.")
        engine = "vllm" if prefix == "vllm" else "transformers"
    else:
        path = spec
    check_folder(path)
    why = "as asked"
    if engine == "auto":
        found = find_spec("vllm") is not None
        engine = "vllm" if found else "transformers"
        why = "vLLM is installed" if found else "vLLM is not installed"
    settings: dict[str, Any] = {"name": name, "also_known_as": tuple(also_known_as)}
    if parser is not None:
        settings["parser"] = parser
    if reasoning is not None:
        settings["reasoning"] = reasoning
    if engine == "vllm":
        from rolecraft.models.vllm_model import VLLMModel

        # What it writes is about its start; stdout is for what this command says.
        os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
        output.say(f"Engine: vLLM ({why}).")
        known = _known(VLLMModel)
        own = {key: chosen[key] for key in chosen.keys() & known.keys()}
        _check_kinds(own, known)
        rest = {key: value for key, value in chosen.items() if key not in own}
        settings |= {"max_adapters": max(adapters, 8), **own}
        return VLLMModel(path, engine=rest, **settings)
    from rolecraft.models.transformers_model import TransformersModel

    known = _known(TransformersModel.load, TransformersModel)
    if unknown := sorted(chosen.keys() - known.keys()):
        raise CommandLineError(
            f"`--set {unknown[0]}=...`: the engine transformers has no such setting. It has "
            f"{', '.join(f'`{each}`' for each in sorted(known))}; `--engine vllm` has others."
        )
    _check_kinds(chosen, known)
    output.say(f"Engine: transformers, in this process ({why}).")
    return TransformersModel.load(path, **settings, **chosen)


def named_settings(texts: Sequence[str]) -> dict[str, Any]:
    """`NAME=VALUE` by name; a value that is JSON is what it says there, any other is a text.

    Raises `CommandLineError` for what is not of that form, or is named twice.
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name.isidentifier() and equals):
            raise CommandLineError(f"`--set {text}`: write NAME=VALUE.")
        if name in found:
            raise CommandLineError(f"`--set {text}`: `{name}` is set twice.")
        if name in _NOT_SET:
            raise CommandLineError(
                f"`--set {text}`: `{name}` is not set so. See `rolecraft serve --help`."
            )
        try:
            found[name] = json.loads(value)
        except (ValueError, RecursionError):
            found[name] = value
    return found


def check_formats(tool_format: str | None, reasoning_format: str | None) -> None:
    """Raise what an unknown name raises, before a model is loaded for minutes."""
    from rolecraft.models.reasoning import get_format
    from rolecraft.models.tool_calls import get_parser

    if tool_format is not None:
        try:
            get_parser(tool_format)
        except UnknownName as error:  # again, without the hint for who writes Python
            raise UnknownName("Tool-call parser", error.name, error.known) from None
    if reasoning_format not in (None, "none"):
        get_format(str(reasoning_format))


def formats_in_words(
    model: TokenModel, tool_format: str | None, reasoning_format: str | None
) -> list[str]:
    """How the answers of `model` are read, and why so: a line each."""
    from rolecraft.models.reasoning import format_of
    from rolecraft.models.tool_calls import choose_format

    name, template = model.name, model.template.source
    choice = choose_format(name, template)
    if tool_format is not None:
        calls = f"{tool_format} (as asked)."
    elif choice.format is not None:
        calls = f"{choice.format} ({choice.why})."
    else:
        calls = f"no format found ({choice.why}); `--tool-format NAME` sets one."
    found = format_of(name, template)
    if reasoning_format is not None:
        thoughts = f"{reasoning_format} (as asked)."
    elif found is not None:
        thoughts = f"{found.name} (by the model's name or chat template)."
    else:
        thoughts = "none found; `--reasoning-format NAME` sets one."
    return [f"Tool calls: {calls}", f"Reasoning: {thoughts}"]


def _known(*made_by: Callable[..., Any]) -> dict[str, Any]:
    """The settings that can be given to these, and what they are otherwise."""
    return {
        name: parameter.default
        for each in made_by
        for name, parameter in inspect.signature(each).parameters.items()
        if name not in _NOT_SET
    }


def _check_kinds(chosen: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    for name, value in chosen.items():
        for kind, called in ((int, "a whole number"), (str, "a text")):
            if type(known[name]) is kind and type(value) is not kind:
                raise CommandLineError(f"`--set {name}={value}`: `{name}` wants {called}.")
