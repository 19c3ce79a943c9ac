"""Answers that were given once and need not be paid for again: one small file an answer.

Invariant: an answer is found again for exactly the question that it was given to. What a question
is made of (the model and its server, the whole conversation, tools, sampling, the number of the
sample) is hashed into the file's name, so nothing in the folder can go stale. A file is written
whole or not at all, so a killed process loses only the answers that were still under way, and
several processes may share a folder. A file that cannot be read is no answer, and is told.

An answer of which nothing can be used is not kept: one that is empty, that the provider withheld or
that was cut off at the token limit. Whoever asks again may be luckier.

The files hold what the model said and its reasoning. What it was asked is kept as a hash only, and
of keys nothing is kept, nor part of the hash.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from rolecraft._log import log
from rolecraft.errors import RolecraftError
from rolecraft.messages import Message, ToolCall
from rolecraft.models.base import DEFAULT_SAMPLING, Completion, Model, Sampling, Tool
from rolecraft.trajectories.events import Usage
from rolecraft.trajectories.whole_file import write_whole

VERSION = 1
"""Of the files. A prompt that changes needs none: the prompt is part of the question."""


class CacheError(RolecraftError):
    """The folder of a cache cannot be written."""


def question(
    model: Model,
    messages: Sequence[Message],
    *,
    tools: Sequence[Tool] = (),
    sampling: Sampling | None = None,
    seed: int | None = 0,
    repetition: int = 0,
) -> str:
    """The name of a question: equal for equal questions, different for all others.

    `repetition` counts the samples that are taken of one question.
    """
    asked = {
        "version": VERSION,
        "model": identity_of(model),
        "messages": [_said(message) for message in messages],
        "tools": [asdict(tool) for tool in tools],
        "sampling": asdict(sampling) if sampling and sampling != DEFAULT_SAMPLING else None,
        "seed": seed,
    }
    if repetition:
        asked["repetition"] = repetition
    text = json.dumps(asked, sort_keys=True, default=repr)  # in ASCII, lone surrogates too
    return blake2b(text.encode(), digest_size=20).hexdigest()


@runtime_checkable
class Identified(Protocol):
    """A model that says itself what decides on its answers."""

    def identity(self) -> dict[str, Any]:
        """What, besides the question, decides on its answers; in types of JSON. No keys."""


def identity_of(model: Model) -> dict[str, Any]:
    """Who answers: two servers may have models of one name, and defaults of a model are asked."""
    if isinstance(model, Identified):
        return model.identity()
    own = {name: getattr(model, name, None) for name in ("base_url", "extra", "sampling")}
    return {"kind": type(model).__name__, "name": model.name, **own}


def _said(message: Message) -> list[Any]:
    metadata = dict(message.metadata or {})
    calls = metadata.pop("tool_calls", None) or ()
    return [message.role, message.content, [_call(call) for call in calls], metadata]


def worth_keeping(answer: Completion) -> bool:
    """True for an answer that is whole and not empty, whatever it says."""
    whole = answer.finish_reason not in ("length", "content_filter")
    whole = whole and not any(call.incomplete for call in answer.tool_calls)
    return whole and bool((answer.text or "").strip() or answer.tool_calls)


class PromptCache:
    """The answers in a folder, which is made when the first one is kept."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def get(self, name: str) -> Completion | None:
        """The answer to a question; None if there is none, or its file cannot be read."""
        path = self._path(name)
        try:
            answer = _read(json.loads(path.read_bytes()))
            return answer if worth_keeping(answer) else None
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            log.warning("{}: not an answer, so the model is asked again: {}", path, error)
            return None

    def put(self, name: str, model: str, answer: Completion) -> None:
        """Keep an answer that is worth it. Raises `CacheError` if the disk refuses."""
        if not worth_keeping(answer):
            return
        path = self._path(name)
        line = {
            "version": VERSION,
            "model": model,
            "text": answer.text,
            "reasoning": answer.reasoning,
            "tool_calls": [_call(call) for call in answer.tool_calls],
            "finish_reason": answer.finish_reason,
            "usage": asdict(answer.usage),
            "attempts": answer.attempts,
        }
        if answer.provider_fields:
            line["provider_fields"] = answer.provider_fields
        if answer.model:
            line["answered_by"] = answer.model
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, json.dumps(line))
        except OSError as error:
            raise CacheError(
                f"The answer of {model!r} cannot be kept in `{self.folder}`: "
                f"{error.strerror or error}. Name another folder, or ask without a cache."
            ) from error

    def __len__(self) -> int:
        return sum(1 for _ in self.folder.glob("??/*.json"))

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def clear(self, *, older_than: float = 0.0) -> int:
        """Delete the answers that were kept at least `older_than` seconds ago; how many there were.

        Raises `CacheError` if the disk refuses. Answers that another process keeps meanwhile stay.
        """
        until, deleted = time.time() - older_than, 0
        # Also what a killed process had begun to write.
        for path in (*self.folder.glob("??/*.json"), *self.folder.glob("??/.*.tmp")):
            try:
                if path.stat().st_mtime > until:
                    continue
                path.unlink()
            except FileNotFoundError:
                continue  # another process was quicker
            except OSError as error:
                raise CacheError(
                    f"`{path}` cannot be deleted: {error.strerror or error}."
                ) from error
            deleted += path.suffix == ".json"
        return deleted

    def _path(self, name: str) -> Path:
        return self.folder / name[:2] / f"{name}.json"

    def __repr__(self) -> str:
        return f"PromptCache({str(self.folder)!r})"


def _call(call: ToolCall) -> dict[str, Any]:
    row = asdict(call)
    if not call.repairs:  # so that answers from before calls had repairs keep their names
        del row["repairs"]
    return row


def _read(line: dict[str, Any]) -> Completion:
    if line["version"] != VERSION:
        raise ValueError(f"version {line['version']!r}, this Rolecraft knows {VERSION}")
    return Completion(
        text=line["text"],
        reasoning=line["reasoning"],
        tool_calls=[
            ToolCall(**{**call, "repairs": tuple(call.get("repairs", ()))})
            for call in line["tool_calls"]
        ],
        usage=Usage(**line["usage"]),
        finish_reason=line["finish_reason"],
        attempts=line["attempts"],
        provider_fields=line.get("provider_fields", {}),
        model=line.get("answered_by", ""),
    )
