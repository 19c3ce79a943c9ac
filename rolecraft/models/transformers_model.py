"""A language model in this process: transformers, exact tokens, calls batched across sessions.

For small models, tests and training. Each answer carries the tokens that were given and sampled,
with the log-probability of each under the distribution it was drawn from. Sampling depends on the
weights, the seeds and the position alone, so a run repeats whatever else runs beside it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from rolecraft._log import log
from rolecraft.errors import ModelError, UsageError
from rolecraft.messages import Message
from rolecraft.models._batching import Batcher
from rolecraft.models._choices import Node, choice_tree
from rolecraft.models._decoding import Row, decode
from rolecraft.models._pieces import Pieces
from rolecraft.models._plain_text import PlainText
from rolecraft.models._token_session import TokenSession
from rolecraft.models._torch import torch, transformers
from rolecraft.models.base import Completion, Model, Sampling, Session, Tool
from rolecraft.trajectories.events import TokenSpan, Usage

Out = TypeVar("Out")

# Distinct short texts whose rendering or tokens are kept: training plays the same tasks many times.
# One of the longest costs about 60 kB. Longer ones, which are mostly long conversations and never
# come again, are rendered and tokenised anew: for n calls, n whole renderings, which the template
# needs, but only what is new is tokenised.
CACHED_PROMPTS = 1024
CACHED_CHARACTERS = 4000


class TransformersModel(Model):
    """A causal language model of `transformers` with its tokenizer.

    `module` is the torch module, `tokenizer` its fast tokenizer, which needs a chat template.
    `seed` makes all sampling repeatable. `max_batch` bounds the answers written at once (memory:
    each holds a key-value cache), `max_tokens` an answer whose `Sampling` sets no limit.
    `template` are extra arguments of the chat template, such as `{"enable_thinking": False}`.

    `Sampling.temperature` and `top_p` are 1 when left None; temperature 0 takes the likeliest
    token. With `choices`, `max_tokens` and `stop` play no part: an answer is one whole choice.
    """

    # Nothing leaves this process and nothing is paid: tests may use it.
    real = False

    def __init__(
        self,
        module: Any,
        tokenizer: Any,
        *,
        name: str = "transformers",
        seed: int = 0,
        max_batch: int = 256,
        max_tokens: int = 512,
        device: str | None = None,
        template: Mapping[str, Any] | None = None,
    ) -> None:
        if not getattr(tokenizer, "chat_template", None):
            raise UsageError(
                f"The tokenizer of {name!r} has no chat template, so messages cannot be put to it. "
                f"Use an instruction-tuned model, or set `tokenizer.chat_template`."
            )
        if not (max_batch >= 1 and max_tokens >= 1):
            raise UsageError(
                f"`max_batch` and `max_tokens` want numbers from 1, got {max_batch!r} and "
                f"{max_tokens!r}."
            )
        self.name = name
        self.seed = seed
        self.tokenizer = tokenizer
        self.module = (module if device is None else module.to(device)).eval()
        self.max_tokens = max_tokens
        self.version = 0
        """Policy version: whoever changes the weights (in the worker, see `run`) adds one."""
        self.ends = _end_tokens(module, tokenizer, name)
        self._end = (
            tokenizer.eos_token_id if tokenizer.eos_token_id in self.ends else min(self.ends)
        )
        self._end_texts = {end: tokenizer.decode([end]) for end in self.ends}
        self._context: int | None = getattr(module.config, "max_position_embeddings", None)
        self._template = dict(template or {})
        self._batcher: Batcher[Row, tuple[Row, int]] = Batcher(
            self._answer, max_batch=max_batch, name=name
        )
        self._plain = PlainText(tokenizer, name)
        self._warned = False
        # Caches per instance: `lru_cache` on methods would keep every model alive.
        self._render_once = lru_cache(CACHED_PROMPTS)(self._render_uncached)
        self._encode_once = lru_cache(CACHED_PROMPTS)(self._encode_uncached)
        self._tree = lru_cache(CACHED_PROMPTS)(self._tree_uncached)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        name: str | None = None,
        dtype: str = "auto",
        device: str | None = None,
        **settings: Any,
    ) -> TransformersModel:
        """Load a folder written by `save` or `save_pretrained`, or a model of the Hugging Face hub.

        `device` defaults to `cuda` where there is one. `settings` are those of the constructor.
        Raises `ModelError` if there is no model at `path`.
        """
        folder = Path(path)
        if not folder.is_dir() and (folder.is_absolute() or str(path).startswith(".")):
            raise ModelError(f"There is no model folder `{path}`. Check the path.")
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(path)
            module = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=dtype)
        except Exception as error:  # each of the libraries underneath has errors of its own
            raise ModelError(
                f"`{path}` holds no model and tokenizer that `transformers` can load: {error}. "
                f"Check the path; files that are cut off or damaged must be fetched or saved again."
            ) from error
        return cls(
            module,
            tokenizer,
            name=name or str(path),
            device=device or ("cuda" if torch.cuda.is_available() else "cpu"),
            **settings,
        )

    def save(self, folder: str | Path) -> None:
        """Write weights and tokenizer to a folder that `load` reads."""
        self.module.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    def session(self, role: str = "", *, system: str = "", seed: int = 0) -> TokenSession:
        return TokenSession(self, role=role, system=system, seed=seed)

    def estimate_usd(
        self, session: Session, sampling: Sampling, tools: Sequence[Tool] = ()
    ) -> float:
        return 0.0

    def estimate_tokens(
        self, session: Session, sampling: Sampling, tools: Sequence[Tool] = ()
    ) -> int:
        assert isinstance(session, TokenSession)
        _, given, restarts = session.extend()
        prompt = len(given) if restarts else len(session.tokens) + len(given)
        if sampling.choices is not None:
            return prompt + self._tree(sampling.choices).depth
        return prompt + (sampling.max_tokens or self.max_tokens)

    async def run(self, function: Callable[[], Out]) -> Out:
        """Run `function` between batches, in the thread that samples: there weights may change."""
        return await self._batcher.call(function)

    def as_sampled(self, answer: Completion) -> tuple[str, str]:
        """The text of an answer as the template will show it, and that of its end token."""
        sampled = answer.tokens.sampled if answer.tokens is not None else []
        end = self._end_texts.get(sampled[-1], "") if answer.finish_reason == "stop" else ""
        return self._plain.mark(answer.text), end

    async def aclose(self) -> None:
        await self.run(lambda: None)
        self._batcher.close()

    async def _complete(
        self, session: Session, tools: Sequence[Tool], sampling: Sampling
    ) -> Completion:
        assert isinstance(session, TokenSession)
        if tools:
            raise UsageError(
                f"`{self.name}` runs in this process and cannot be offered tools yet; it was given "
                f"{[tool.name for tool in tools]!r}. Ask for one of `Sampling(choices=...)` and "
                f"let an action call the tool."
            )
        prompt, given, restarts = session.extend()
        row = self._row(session, given, sampling, restarts=restarts)
        row, version = await self._batcher.submit(row)
        if restarts:
            self._note_restart(session)
            session.restart()
        start = len(session.tokens)
        sampled = row.sampled
        end = self._end_texts.get(sampled[-1], "") if row.finish == "stop" else ""
        text = self._text(row, sampled, sampling)
        session.commit(prompt, given, sampled, self._plain.mark(text), end)
        restricted = any(ids is not None for ids in row.support)
        return Completion(
            text=text,
            usage=Usage(row.prompt, len(sampled), 0.0),
            finish_reason=row.finish or "unknown",
            tokens=TokenSpan(
                session=session.sequence_id,
                start=start,
                given=given,
                sampled=sampled,
                logprobs=row.logprobs,
                version=version,
                temperature=row.temperature,
                support=row.support if restricted else None,
            ),
        )

    def render(self, messages: Sequence[Message]) -> str:
        """The conversation as the chat template writes it, up to where the answer begins.

        Whatever a message says that spells a special token is marked, so that `encode` reads it as
        ordinary text and only the template's own special tokens count.
        """
        conversation = tuple(
            (message.api_role, self._plain.mark(message.content)) for message in messages
        )
        if sum(len(content) for _, content in conversation) > CACHED_CHARACTERS:
            return self._render_uncached(conversation)
        return self._render_once(conversation)

    def encode(self, text: str) -> list[int]:
        """The tokens of a rendered text. No special tokens are added: the template wrote them.

        Raises `UsageError` for text that the tokenizer cannot spell, or only as a special token.
        """
        short = len(text) <= CACHED_CHARACTERS
        return list(self._encode_once(text) if short else self._encode_uncached(text))

    def _row(
        self, session: TokenSession, given: list[int], sampling: Sampling, *, restarts: bool
    ) -> Row:
        temperature = 1.0 if sampling.temperature is None else float(sampling.temperature)
        top_p = 1.0 if sampling.top_p is None else float(sampling.top_p)
        max_tokens = self.max_tokens if sampling.max_tokens is None else sampling.max_tokens
        if not (0.0 <= temperature < float("inf") and 0.0 < top_p <= 1.0 and max_tokens >= 1):
            raise UsageError(
                f"`Sampling` wants temperature >= 0, 0 < top_p <= 1 and max_tokens >= 1, got "
                f"{sampling.temperature!r}, {sampling.top_p!r} and {sampling.max_tokens!r}."
            )
        ids = [*given] if restarts else session.tokens + given
        tree = None if sampling.choices is None else self._tree(sampling.choices)
        if self._context is not None:
            room = self._context - len(ids)
            if room < (1 if tree is None else tree.depth):
                raise ModelError(
                    f"The conversation of role {session.role!r} is {len(ids)} tokens long; with an "
                    f"answer it exceeds the {self._context} tokens that `{self.name}` can read. "
                    f"Shorten the prompt, or open a new session."
                )
            max_tokens = min(max_tokens, room)
        listen = None
        if session.on_delta is not None and tree is None:
            listen = Pieces(
                lambda sampled: self._decode([t for t in sampled if t not in self.ends]),
                _posting(session.deliverer()),
                stop=sampling.stop,
            )
        return Row(
            ids=ids,
            key=session.key(self.seed, sampling.seed, restarts=restarts),
            temperature=temperature,
            top_p=top_p,
            max_tokens=max_tokens,
            choices=tree,
            stopped=self._stopped(sampling.stop) if sampling.stop and tree is None else None,
            listen=listen,
        )

    def _answer(self, rows: Sequence[Row]) -> list[tuple[Row, int]]:
        """One batch, in the worker thread, with the policy version that answered it."""
        decode(self.module, rows, ends=self.ends)
        return [(row, self.version) for row in rows]

    def _text(self, row: Row, sampled: list[int], sampling: Sampling) -> str:
        if row.choices is not None:
            return row.choices.choice or ""
        if sampled[-1] in self.ends:
            sampled = sampled[:-1]
        text = self._decode(sampled)
        cuts = [at for at in (text.find(stop) for stop in sampling.stop) if at >= 0]
        return text[: min(cuts)] if cuts else text

    def _decode(self, ids: Sequence[int]) -> str:
        # Special tokens are left out: no model can put the end of a turn into another's prompt.
        text: str = self.tokenizer.decode(
            ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def _stopped(self, stop: tuple[str, ...]) -> Callable[[Sequence[int]], bool]:
        # A character takes at most four tokens (one per byte), so this window holds a whole stop
        # string whose last token has just come.
        window = 4 * max(map(len, stop)) + 4

        def stopped(sampled: Sequence[int]) -> bool:
            text = self._decode(sampled[-window:])
            return any(end in text for end in stop)

        return stopped

    def _render_uncached(self, conversation: tuple[tuple[str, str], ...]) -> str:
        from jinja2.exceptions import TemplateError  # comes with transformers' chat templates

        try:
            text: str = self.tokenizer.apply_chat_template(
                [{"role": role, "content": content} for role, content in conversation],
                tokenize=False,
                add_generation_prompt=True,
                **self._template,
            )
        except TemplateError as error:
            raise UsageError(
                f"The chat template of `{self.name}` refuses the conversation "
                f"{[role for role, _ in conversation]!r}: {error}"
            ) from error
        return text

    def _encode_uncached(self, text: str) -> tuple[int, ...]:
        try:
            return tuple(self._plain.encode(text))
        except UsageError:
            raise
        except Exception as error:  # the tokenizers library raises plain `Exception`
            raise UsageError(
                f"The tokenizer of `{self.name}` cannot spell {text!r}: {error}"
            ) from error

    def _tree_uncached(self, choices: tuple[str, ...]) -> Node:
        spelled = [self.encode(self._plain.mark(choice)) for choice in choices]
        return choice_tree(choices, spelled, self._end)

    def _note_restart(self, session: TokenSession) -> None:
        if not self._warned:
            self._warned = True
            log.warning(
                f"The chat template of `{self.name}` rewrites earlier turns (role "
                f"{session.role!r}), so each such turn starts a new token sequence. Training still "
                f"works, on more and longer sequences. This is said once."
            )


def _posting(deliver: Callable[[str], None]) -> Callable[[str], None]:
    """`deliver`, in the thread of the running event loop, whichever thread calls."""
    loop = asyncio.get_running_loop()

    def post(piece: str) -> None:
        with suppress(RuntimeError):  # the loop was closed, and nobody waits any more
            loop.call_soon_threadsafe(deliver, piece)

    return post


def _end_tokens(module: Any, tokenizer: Any, name: str) -> frozenset[int]:
    """The ids that end an answer: those of the generation settings and of the tokenizer."""
    configured = getattr(getattr(module, "generation_config", None), "eos_token_id", None)
    ends = set(configured) if isinstance(configured, (list, tuple)) else {configured}
    known: set[int] = {end for end in (*ends, tokenizer.eos_token_id) if end is not None}
    if not known:
        raise UsageError(
            f"The tokenizer of {name!r} has no end token, so no answer could ever end. "
            f"Set `tokenizer.eos_token`."
        )
    return frozenset(known)
