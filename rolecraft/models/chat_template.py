"""The chat template of a tokenizer: from turns to text, from text to tokens.

Invariant: what a message, a call or a tool says is ordinary text for the model. Only the template
writes control tokens.

Templates differ in what they want (arguments of calls as objects or as JSON text, None or an empty
text beside calls) and in what they write (some leave tools out, or the results of calls). Nothing
but the template says which it is, so it is asked: once, with a conversation made for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

from rolecraft.errors import UsageError
from rolecraft.models._locality import is_local
from rolecraft.models._plain_text import PlainText
from rolecraft.models._turns import Form, Turn

# Distinct short texts whose rendering or tokens are kept: training plays the same tasks many times.
# One of the longest costs about 60 kB. Longer ones, which are mostly long conversations and never
# come again, are rendered and tokenised anew.
CACHED_PROMPTS = 1024
CACHED_CHARACTERS = 4000


class TemplateRefuses(UsageError):
    """The chat template raises an error for this conversation."""


class ChatTemplate:
    """Renders conversations with the chat template of `tokenizer`, and tokenises the text.

    `settings` are extra arguments of the template; `name` is the model's, for errors. Raises
    `UsageError` if the tokenizer has no template.
    """

    def __init__(
        self, tokenizer: Any, *, name: str, settings: Mapping[str, Any] | None = None
    ) -> None:
        if not getattr(tokenizer, "chat_template", None):
            raise UsageError(
                f"The tokenizer of {name!r} has no chat template, so messages cannot be put to it. "
                f"Use an instruction-tuned model, or set `tokenizer.chat_template`."
            )
        self._tokenizer = tokenizer
        self._name = name
        self.arguments: Mapping[str, Any] = dict(settings or {})
        """The extra arguments."""
        self.settings = json.dumps(self.arguments, sort_keys=True, default=str)
        """The extra arguments, as JSON."""
        self.plain = PlainText(tokenizer, name)
        self.local = is_local(self.source)
        """Whether messages are written one by one (see `_locality`)."""
        self.whole = False
        """Whether all of a conversation is always rendered. Set where less turned out wrong."""
        # Caches per instance: `lru_cache` on methods would keep every template alive.
        self._render_once = lru_cache(CACHED_PROMPTS)(self._render)
        self._encode_once = lru_cache(CACHED_PROMPTS)(self._encode)

    @property
    def source(self) -> str:
        """The template as it is written; those of several templates one after the other."""
        template = self._tokenizer.chat_template
        return template if isinstance(template, str) else "\n".join(template.values())

    def render(self, turns: Sequence[Turn], tools: str = "", *, opens_answer: bool = True) -> str:
        """The conversation as text, marked as its turns are; `tools` as `written_tools` has them.

        With `opens_answer` it goes up to where the model's answer begins. Raises `TemplateRefuses`.
        """
        form = self.form if tools or any(turn.more for turn in turns) else Form()
        length = sum(len(turn.content) + len(turn.more) for turn in turns) + len(tools)
        render = self._render if length > CACHED_CHARACTERS else self._render_once
        return render(tuple(turns), tools, opens_answer, form)

    def encode(self, text: str) -> list[int]:
        """The tokens of a rendered text. No special tokens are added: the template wrote them.

        Raises `UsageError` for text that the tokenizer cannot spell, or only as a special token.
        """
        return list(
            self._encode(text) if len(text) > CACHED_CHARACTERS else self._encode_once(text)
        )

    @cached_property
    def form(self) -> Form:
        """What the template wants, and what it writes, found by trying.

        Where it refuses every form of a call, or leaves the call out, `shows_results` is False.
        """
        shows_tools = _TOOL in self._tried([Turn("user", "hello")], Form(), TRIED_TOOLS)
        best = Form(shows_tools=shows_tools, shows_results=False)
        for as_text in (False, True):
            for none in (False, True):
                form = Form(as_text, none, shows_tools, True)
                shown = self._tried(_CALLED, form, TRIED_TOOLS)
                # A template that expects text prints an object as Python does.
                if _NAME in shown and _RESULT in shown and _ARGUMENT in shown:
                    if "{'" not in shown and "None" not in shown and '\\"' not in shown:
                        return form
                    if not best.shows_results:
                        best = form
        return best

    def _tried(self, turns: Sequence[Turn], form: Form, tools: str) -> str:
        try:
            return self._render(tuple(turns), tools, True, form)
        except TemplateRefuses:
            return ""

    def _render(self, turns: tuple[Turn, ...], tools: str, opens_answer: bool, form: Form) -> str:
        from jinja2.exceptions import TemplateError  # comes with transformers' chat templates

        try:
            text: str = self._tokenizer.apply_chat_template(
                [turn.member(form) for turn in turns],
                tools=_read(tools) if tools else None,
                tokenize=False,
                add_generation_prompt=opens_answer,
                **self.arguments,
            )
        except (TemplateError, TypeError, ValueError, KeyError, AttributeError) as error:
            # Of a template that was written for other members, or raises for these roles.
            raise TemplateRefuses(
                f"The chat template of `{self._name}` refuses the conversation "
                f"{[turn.role for turn in turns]!r}: {error}"
            ) from error
        return text

    def _encode(self, text: str) -> tuple[int, ...]:
        try:
            return tuple(self.plain.encode(text))
        except UsageError:
            raise
        except Exception as error:  # the tokenizers library raises plain `Exception`
            raise UsageError(
                f"The tokenizer of `{self._name}` cannot spell {text!r}: {error}"
            ) from error


@lru_cache(64)
def _read(tools: str) -> Any:
    return json.loads(tools)


# What the template is tried with, here and in `_trial`. The id has the nine letters and digits that
# Mistral's demands.
_TOOL, _NAME, _ARGUMENT, _RESULT, _ID = "lookatit", "lookatit", "thisone", "wasgiven", "call00000"
TRIED_TOOLS = json.dumps(
    [
        {
            "type": "function",
            "function": {
                "name": _TOOL,
                "description": "Look.",
                "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
            },
        }
    ]
)
_CALLED = (
    Turn("user", "hello"),
    Turn(
        "assistant",
        "",
        json.dumps(
            {
                "tool_calls": [
                    {
                        "id": _ID,
                        "type": "function",
                        "function": {"name": _NAME, "arguments": {"q": _ARGUMENT}},
                    }
                ]
            }
        ),
    ),
    Turn("tool", _RESULT, json.dumps({"tool_call_id": _ID, "name": _NAME})),
)
