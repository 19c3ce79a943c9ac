"""A conversation as one exact, append-only sequence of tokens.

Invariant: the sequence is what the model saw and sampled, token for token; nothing in it is ever
tokenised again. What a call adds is rendered with the tokenizer's chat template, and only the new
end of the rendered text is tokenised. Where a template rewrites what it rendered before (Qwen3
drops earlier reasoning, for example), the old sequence cannot be continued truthfully: a new one
starts, under a new id, which shows as a new `session` in the trajectory's token spans.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from rolecraft.errors import NotRestorable
from rolecraft.models._hashing import hash64
from rolecraft.models.base import Completion, Session

if TYPE_CHECKING:
    from rolecraft.messages import Message
    from rolecraft.models.token_model import TokenModel


class TokenSession(Session):
    """The session of a `TokenModel`. `tokens` is its sequence so far."""

    model: TokenModel

    def __init__(
        self, model: TokenModel, *, role: str = "", system: str = "", seed: int = 0
    ) -> None:
        super().__init__(model, role=role, system=system, seed=seed)
        self.tokens: list[int] = []
        self.restarts = 0
        """How often the chat template rewrote history, so that a new sequence had to begin."""
        self._prompt = ""
        """The rendered conversation up to the last answer."""
        self._answer = ""
        self._end = ""
        """Text of the end token that the last answer was sampled with; empty if it had none."""
        self._restored: tuple[list[Message], Completion] | None = None
        """The last answer that came from a record, and the conversation before it."""

    @property
    def sequence_id(self) -> str:
        """Names the token sequence: the conversation's id, and a count after restarts."""
        name = self.id or f"{self.role}:{self.seed}"
        return f"{name}+{self.restarts}" if self.restarts else name

    def key(self, model_seed: int, call_seed: int | None, *, restarts: bool = False) -> int:
        """The random stream of the next call; `restarts` if it starts a new sequence."""
        seed = self.seed if call_seed is None else call_seed
        return hash64(_stream(model_seed, self.role, self.restarts + restarts), seed)

    def _restore(self, given: Completion) -> None:
        super()._restore(given)
        span = given.tokens
        if span is None:
            raise NotRestorable(
                f"The recorded answer of {self.given_by!r} in conversation {self.id!r} has no "
                f"tokens, and {self.model.name!r} counts them: it cannot go on with it. Use the "
                f"same kind of model, or fork before this conversation begins."
            )
        if span.start == 0:
            self.tokens = []
        self.restarts = int(span.session.rpartition("+")[2]) if "+" in span.session else 0
        self.tokens.extend(span.given)
        self.tokens.extend(span.sampled)
        self._restored = list(self.messages), given

    def _catch_up(self) -> None:
        """Render what came from a record, once something must be added to it."""
        if self._restored is not None:
            messages, given = self._restored
            self._restored = None
            self._prompt = self.model.render(messages)
            self._answer, self._end = self.model.as_sampled(given)

    def extend(self) -> tuple[str, list[int], bool]:
        """What the messages add: the rendered conversation, the new tokens, whether it restarts.

        Changes nothing: a call that fails leaves the sequence as it was; `commit` moves it on.
        """
        self._catch_up()
        text = self.model.render(self.messages)
        if not self.tokens:
            return text, self.model.encode(text), False
        rest = self._rest(text)
        if rest is None:
            return text, self.model.encode(text), True
        return text, self.model.encode(rest), False

    def commit(
        self, prompt: str, given: list[int], sampled: list[int], answer: str, end: str
    ) -> None:
        """Append one call's tokens. `end` is the text of the end token, if one was sampled."""
        self.tokens.extend(given)
        self.tokens.extend(sampled)
        self._prompt, self._answer, self._end = prompt, answer, end

    def restart(self) -> None:
        self.tokens = []
        self.restarts += 1

    def _rest(self, text: str) -> str | None:
        """The part of `text` that the sequence lacks; None if `text` does not continue it."""
        if not text.startswith(self._prompt):
            return None
        rest = text[len(self._prompt) :]
        # Templates commonly trim an answer; the whitespace stays in the sequence as sampled.
        for answer in (self._answer, self._answer.strip()):
            if rest.startswith(answer):
                return self._after_end(rest[len(answer) :])
        return None

    def _after_end(self, rest: str) -> str:
        """`rest` without the end token that was sampled, and without space written before it."""
        stripped = rest.lstrip()
        if self._end and stripped.startswith(self._end):
            return stripped[len(self._end) :]
        return rest


@lru_cache(1024)
def _stream(model_seed: int, role: str, restarts: int) -> int:
    return hash64(model_seed, role, restarts)
