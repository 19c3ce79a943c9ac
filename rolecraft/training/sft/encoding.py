"""From samples to token sequences, and which of their tokens are trained.

Invariant: a trained turn is seen exactly as at inference time: what comes before it is the prompt
that the chat template writes for it, and trained are the rest of the turn as the template writes
it, reasoning, text and calls, and the token that ends it. The header that opens an answer is part
of the prompt, so it is not trained; nor is what templates write behind the end of a turn. No
markers in the template (`{% generation %}`) are needed for that.

Where a template writes earlier turns otherwise once later ones follow (Qwen3 drops their
reasoning), a conversation becomes several sequences; in each, only the turns are trained that
no earlier one had.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rolecraft.errors import UsageError
from rolecraft.models.chat_template import ChatTemplate
from rolecraft.training.sft.pieces import NOT_TRAINED, CannotSpell, PieceTokens
from rolecraft.training.sft.samples import (
    BROKEN_CALL,
    AnySample,
    Sample,
    TextSample,
    TokenSample,
)
from rolecraft.training.sft.written import NotEncodable, Written, answer

__all__ = ["NOT_TRAINED", "Encoded", "Encoder", "NotEncodable", "Tokens"]


@dataclass(slots=True)
class Tokens:
    """One token sequence. Both lists are equally long."""

    ids: list[int] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)
    """The token's id where it is trained, `NOT_TRAINED` elsewhere."""

    @property
    def trained(self) -> int:
        return len(self.labels) - self.labels.count(NOT_TRAINED)

    def given(self, ids: Iterable[int]) -> None:
        before = len(self.ids)
        self.ids += ids
        self.labels += [NOT_TRAINED] * (len(self.ids) - before)

    def learned(self, ids: Iterable[int]) -> None:
        before = len(self.ids)
        self.ids += ids
        self.labels += self.ids[before:]


@dataclass(slots=True)
class Encoded:
    """The sequences of one sample."""

    sequences: list[Tokens]
    lost_reasoning: int = 0
    """Trained turns whose reasoning the chat template does not write."""
    exact: bool = False
    """Whether they are the tokens of a local model, as they were recorded."""


class Encoder:
    """Makes token sequences with `tokenizer`; `name` is the model's, for errors.

    `template` are extra arguments of the chat template, such as `{"enable_thinking": False}`;
    `ends` the ids that end an answer besides the tokenizer's own end token (those of the model's
    generation settings). Raises `UsageError` for a tokenizer without an end token.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        name: str,
        template: Mapping[str, Any] | None = None,
        ends: Collection[int] = (),
    ) -> None:
        if tokenizer.eos_token_id is None:
            raise UsageError(
                f"The tokenizer of `{name}` has no end token, so no answer could ever end. Set "
                f"`tokenizer.eos_token` to the token that ends its answers."
            )
        self._tokenizer = tokenizer
        self._name = name
        self._pieces = PieceTokens(tokenizer, name)
        self.template: ChatTemplate | None = None
        if getattr(tokenizer, "chat_template", None):
            self.template = ChatTemplate(tokenizer, name=name, settings=template)
        self._ends: dict[str, int] = {
            text: end
            for end in (tokenizer.eos_token_id, *ends)
            if end < len(tokenizer) and (text := tokenizer.convert_ids_to_tokens(end))
        }
        """Texts of the tokens that end an answer."""
        # Of special tokens, all that were added, too: many tokenizers name few of theirs.
        added = getattr(tokenizer, "added_tokens_decoder", {})
        special = {*tokenizer.all_special_ids, *(n for n, token in added.items() if token.special)}
        self._closing = {
            tokenizer.convert_ids_to_tokens(token): token
            for token in special - {tokenizer.bos_token_id, tokenizer.unk_token_id, None}
        } | self._ends
        """Tokens that end a turn where a template writes them at its end."""
        self._begins: list[int] | None = None

    def encode(self, sample: AnySample) -> Encoded:
        """The sequences of a sample.

        Raises `NotEncodable`, and `UsageError` for a conversation where there is no template.
        """
        try:
            return self._encode(sample)
        except (CannotSpell, UnicodeEncodeError) as error:  # the latter: half a character
            raise NotEncodable("the tokenizer cannot spell it") from error

    def _encode(self, sample: AnySample) -> Encoded:
        match sample:
            case TokenSample():
                return self._recorded(sample)
            case TextSample() if self.template is None:
                return Encoded([self._text(sample)])
            case TextSample():
                return self._conversation(sample.as_conversation())
            case Sample():
                return self._conversation(sample)

    def reads(self, sample: TokenSample) -> bool:
        """Whether the tokens were written by this tokenizer, as far as the record shows.

        Every answer is looked for where it was sampled, and what the model was told anywhere: a
        short answer can stand in the tokens of another tokenizer by chance.
        """
        said = [(each, *where) for each in sample.sequences for where in each.said]
        size = len(self._tokenizer)
        if not said or any(max(each.ids, default=0) >= size for each in sample.sequences):
            return False
        if not all(text in self._decoded(each.ids[begin:end]) for each, begin, end, text in said):
            return False
        turns = sample.otherwise.turns
        told = [text for turn in turns if not turn.sampled and (text := turn.content.strip())]
        whole = [self._decoded(each.ids) for each in sample.sequences]
        return not told or any(text in one for text in told for one in whole)

    def _decoded(self, ids: Sequence[int]) -> str:
        """Without control tokens: nobody's words are in their names."""
        text: str = self._tokenizer.decode(
            ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def _recorded(self, sample: TokenSample) -> Encoded:
        if not self.reads(sample):
            return self._conversation(sample.otherwise)
        made = [
            Tokens(
                list(each.ids),
                [
                    token if trained else NOT_TRAINED
                    for token, trained in zip(each.ids, each.trained, strict=True)
                ],
            )
            for each in sample.sequences
        ]
        return Encoded(made, exact=True)

    # --- plain text ---------------------------------------------------------------------------

    def _text(self, sample: TextSample) -> Tokens:
        made = Tokens()
        made.given(self._beginning())
        made.given(self._pieces.first(self._pieces.mark(sample.prompt)))
        made.learned(self._pieces.next(self._pieces.mark(sample.completion)))
        made.learned([self._tokenizer.eos_token_id])
        return made

    def _beginning(self) -> list[int]:
        """What the tokenizer puts before every text: mostly one token or none."""
        if self._begins is None:
            bare = self._tokenizer.encode("a", add_special_tokens=False)
            whole = self._tokenizer.encode("a")
            at = next((n for n in range(len(whole)) if whole[n : n + len(bare)] == bare), 0)
            self._begins = list(whole[:at])
        return self._begins

    # --- conversations ------------------------------------------------------------------------

    def _conversation(self, sample: Sample) -> Encoded:
        if self.template is None:
            raise self.no_template()
        if any("raw" in call for turn in sample.turns for call in turn.tool_calls):
            raise NotEncodable(BROKEN_CALL)
        talk = Written(self.template, sample)
        encoded = Encoded([])
        known: list[str] = []
        for at, turn in enumerate(sample.turns):
            if turn.role != "assistant" or not turn.sampled:
                continue
            if not (turn.content.strip() or turn.tool_calls):
                continue
            prompt = talk.render(at, opens_answer=True)
            said = answer(talk, at, prompt, closing=self._closing, ends=self._ends)
            encoded.lost_reasoning += said.lost_reasoning
            # What went before, with the token that ended it. Where the template did not write that
            # token it may still begin the next turn, or stand nowhere in the text.
            before = next((text for text in known if prompt.startswith(text)), None)
            if before is None:
                encoded.sequences.append(Tokens())
                encoded.sequences[-1].given(self._pieces.first(prompt))
            else:
                encoded.sequences[-1].given(self._pieces.next(prompt[len(before) :]))
            encoded.sequences[-1].learned(self._pieces.next(said.text))
            end = said.end or self._tokenizer.eos_token
            encoded.sequences[-1].learned([self._closing[end]])
            known = [prompt + said.text + end]
            if not said.ended:
                known.append(prompt + said.text)
        return encoded

    def no_template(self) -> UsageError:
        """What to say where conversations are there and no template is."""
        return UsageError(
            f"The tokenizer of `{self._name}` has no chat template, as those of base models have "
            f"none, so conversations cannot be written for it. Name a file with one "
            f"(`--template FILE`), or train on `prompt` and `completion`, which need none."
        )
