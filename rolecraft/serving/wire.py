"""Answers as OpenAI's API writes them: chat completions, plain ones, and both in chunks."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterable, Sequence
from typing import Any

from rolecraft.messages import ToolCall
from rolecraft.models.token_model import TokenModel
from rolecraft.serving.answering import Answered, Piece

# `content_filter` never comes: nothing is withheld here.
_FINISH = {"stop": "stop", "length": "length", "tool_calls": "tool_calls"}


class Writer:
    """Writes the answers to one request. `called` is the model's name as the client said it."""

    def __init__(self, model: TokenModel, called: str, *, chat: bool, token_ids: bool) -> None:
        self._model, self.chat, self._token_ids = model, chat, token_ids
        kind = "chat.completion" if chat else "text_completion"
        self._kind = kind
        self._head = {
            "id": f"{'chatcmpl' if chat else 'cmpl'}-{secrets.token_hex(12)}",
            "object": kind,
            "created": int(time.time()),
            "model": called,
        }

    # --- whole -------------------------------------------------------------------------------

    def whole(self, answers: Sequence[Answered]) -> dict[str, Any]:
        body: dict[str, Any] = {
            **self._head,
            "system_fingerprint": self._served(answers[0]),
            "choices": [self._choice(at, answered) for at, answered in enumerate(answers)],
            "usage": usage(answers),
        }
        if self.chat and self._token_ids:
            body["prompt_token_ids"] = answers[0].order.ids
        return body

    def _choice(self, index: int, answered: Answered) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": index}
        if self.chat:
            message: dict[str, Any] = {
                "role": "assistant",
                "content": None if answered.calls and not answered.text else answered.text,
                "refusal": None,
            }
            if answered.reasoning:
                message["reasoning_content"] = answered.reasoning
            if answered.calls:
                message["tool_calls"] = [_call(call) for call in answered.calls]
            choice["message"] = message
        else:
            choice["text"] = answered.text
        return {**choice, **self._end(answered)}

    # --- in chunks ---------------------------------------------------------------------------

    def begin(self, index: int) -> dict[str, Any]:
        """The first chunk of a chat's answer."""
        return self._chunk([self._delta(index, {"role": "assistant", "content": ""})])

    def piece(self, piece: Piece) -> dict[str, Any]:
        """A chunk for one piece of an answer."""
        if piece.whole is not None:
            delta = self._delta(piece.index, {})
            delta.update(self._end(piece.whole))
            return self._chunk([delta], self._served(piece.whole))
        if not self.chat:
            return self._chunk([self._delta(piece.index, {}, text=piece.text)])
        said: dict[str, Any] = {}
        if piece.reasoning:
            said["reasoning_content"] = piece.reasoning
        if piece.text:
            said["content"] = piece.text
        if piece.call is not None:
            at, call = piece.call
            said["tool_calls"] = [{"index": at, **_call(call)}]
        return self._chunk([self._delta(piece.index, said)])

    def used(self, answers: Sequence[Answered]) -> dict[str, Any]:
        """The last chunk, where it was asked for."""
        return {**self._chunk([]), "usage": usage(answers)}

    def _chunk(self, choices: list[dict[str, Any]], served: str | None = None) -> dict[str, Any]:
        kind = "chat.completion.chunk" if self.chat else self._kind
        chunk = {**self._head, "object": kind, "choices": choices}
        return chunk if served is None else {**chunk, "system_fingerprint": served}

    def _delta(self, index: int, said: dict[str, Any], *, text: str = "") -> dict[str, Any]:
        about = {"delta": said} if self.chat else {"text": text}
        return {"index": index, **about, "logprobs": None, "finish_reason": None}

    # --- both --------------------------------------------------------------------------------

    def _end(self, answered: Answered) -> dict[str, Any]:
        end: dict[str, Any] = {
            "logprobs": self._logprobs(answered),
            "finish_reason": _FINISH.get(answered.finish, "stop"),
        }
        if self._token_ids:
            end["token_ids"] = answered.sampled.ids
            if not self.chat:
                end["prompt_token_ids"] = answered.order.ids
        return end

    def _served(self, answered: Answered) -> str:
        """What answered: the adapter with its version, or the base model with its own."""
        sampled = answered.sampled
        return sampled.adapter or f"{self._model.name}@{sampled.version}"

    def _logprobs(self, answered: Answered) -> dict[str, Any] | None:
        reported = answered.sampled.reported
        if reported is None:
            return None
        pairs = list(zip(answered.sampled.ids, reported, strict=True))
        if self.chat:
            return {
                "content": [
                    {
                        **self._token(token, logprob),
                        "top_logprobs": [self._token(other, its) for other, its in likeliest],
                    }
                    for token, (logprob, likeliest) in pairs
                ],
                "refusal": None,
            }
        texts = [self._text(token) for token, _ in pairs]
        offsets, at = [], 0
        for text in texts:
            offsets.append(at)
            at += len(text)
        return {
            "tokens": texts,
            "token_logprobs": [_finite(logprob) for _, (logprob, _) in pairs],
            "top_logprobs": [
                {self._text(other): _finite(its) for other, its in likeliest}
                for _, (_, likeliest) in pairs
            ],
            "text_offset": offsets,
        }

    def _token(self, token: int, logprob: float) -> dict[str, Any]:
        text = self._text(token)
        # Part of a character has no text of its own; OpenAI's field may be null then.
        cut = "\ufffd" in text
        return {
            "token": text,
            "logprob": _finite(logprob),
            "bytes": None if cut else list(text.encode()),
        }

    def _text(self, token: int) -> str:
        text: str = self._model.tokenizer.decode(
            [token], skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return text


def _finite(logprob: float) -> float:
    """OpenAI's word for what is impossible, since JSON has no infinity."""
    return max(logprob, -9999.0)


def usage(answers: Iterable[Answered]) -> dict[str, int]:
    """Tokens of a request: each prompt once, each answer."""
    listed = list(answers)
    # One prompt with several answers is read once, and billed once by OpenAI.
    prompts = {id(answered.order): len(answered.order.ids) for answered in listed}
    prompt = sum(prompts.values())
    answer = sum(len(answered.sampled.ids) for answered in listed)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": answer,
        "total_tokens": prompt + answer,
    }


def encode(body: dict[str, Any]) -> bytes:
    """A body in UTF-8. Half a character becomes U+FFFD: models and clients may write one."""
    text = json.dumps(body, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace")


def _call(call: ToolCall) -> dict[str, Any]:
    # Of a call that was cut off the client gets the text, which is no JSON: so it can tell.
    written = call.raw if call.incomplete else json.dumps(call.arguments, ensure_ascii=False)
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": written},
    }
