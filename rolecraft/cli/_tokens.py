"""The tokens of a run's model calls: which were injected, which the model generated, and how.

A record has the numbers of tokens. Their text is the tokenizer's to say: one that is named, or that
of the model as the record names it, if its files are on this machine. Nothing is fetched for a name
that only stands in a record.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from rolecraft.cli._exits import CommandLineError
from rolecraft.cli._output import Output
from rolecraft.errors import MissingExtra, UnknownName
from rolecraft.trajectories.in_words import one_line

if TYPE_CHECKING:
    from rolecraft.trajectories import TokenSpan, Trajectory

_PART = "\N{REPLACEMENT CHARACTER}"
"""What the bytes of a token decode to where they are only a part of a character."""


def token_records(
    trajectory: Trajectory, *, role: str | None = None, tokenizer: str | None = None
) -> list[dict[str, Any]]:
    """A record for each model call that has tokens, by role, in the order of the calls.

    `role` leaves only that one's; `tokenizer` is a folder or a name on the Hugging Face hub. Raises
    `CommandLineError` for a role that is not there, and for a tokenizer that cannot be loaded.
    """
    if role is not None and role not in trajectory.roles:
        raise CommandLineError(f"`--role`: {UnknownName('Role', role, trajectory.roles)}")
    loaded: dict[str, Any] = {}
    given = None if tokenizer is None else _named(tokenizer)
    by_role: dict[str, list[dict[str, Any]]] = {}
    calls: Counter[str] = Counter()
    for event in trajectory.of("model_call"):
        calls[event.role] += 1
        if event.tokens is None or role not in (None, event.role):
            continue
        model = str(event.data.get("model") or "")
        if given is None and model not in loaded:
            loaded[model] = _of_model(model)
        by_role.setdefault(event.role, []).append(
            {
                "role": event.role,
                "call": calls[event.role],
                "seq": event.seq,
                "round": event.time,
                "model": model,
                "session": event.tokens.session,
                "start": event.tokens.start,
                "version": event.tokens.version,
                "adapter": event.tokens.adapter,
                "temperature": event.tokens.temperature,
                "top_p": event.tokens.top_p,
                "rewrite": event.tokens.rewrite,
                "tokens": _tokens(event.tokens, given or loaded[model]),
            }
        )
    return [record for records in by_role.values() for record in records]


def say_tokens(trajectory: Trajectory, records: Sequence[dict[str, Any]], output: Output) -> None:
    """Each call with a line for each of its tokens; then what is not to be seen, and why."""
    for record in records:
        output.say(_heading(record), style="bold")
        output.say(_origin(record))
        at = record["start"]
        lines = [_HEAD, *(_line(at + index, each) for index, each in enumerate(record["tokens"]))]
        output.say("\n".join(lines) + "\n")
    bare = sum(event.tokens is None for event in trajectory.of("model_call"))
    if bare or not records:
        output.note(
            f"Model calls without tokens: {bare}. Only models in this process and in vLLM give "
            f"theirs to the record."
        )
    unread = dict.fromkeys(
        record["model"]
        for record in records
        if record["tokens"] and all(token["text"] is None for token in record["tokens"])
    )
    if unread:
        names = ", ".join(f"`{name}`" for name in unread)
        output.note(
            f"No tokenizer of {names} could be loaded here, so tokens are shown without their "
            f"text. Name its folder: --tokenizer PATH."
        )


_HEAD = f"{'at':>8} {'token':>8}  {'':<9} {'log-prob':>9}  text"


def _line(at: int, token: dict[str, Any]) -> str:
    origin = "generated" if token["generated"] else "injected"
    logprob = "" if token["logprob"] is None else f"{token['logprob']:.4f}"
    text = "" if token["text"] is None else json.dumps(token["text"], ensure_ascii=False)
    return f"{at:>8} {token['id']:>8}  {origin:<9} {logprob:>9}  {text}".rstrip()


def _heading(record: dict[str, Any]) -> str:
    generated = sum(token["generated"] for token in record["tokens"])
    return (
        f"{record['role'] or '-'}, call {record['call']} (event {record['seq']}, round "
        f"{record['round']}): {len(record['tokens']) - generated} injected, {generated} generated"
    )


def _origin(record: dict[str, Any]) -> str:
    """Which policy generated it, where in which sequence, and how."""
    parts = [
        f"policy version {record['version']}",
        f"adapter {record['adapter']}" if record["adapter"] else "",
        f"sequence {record['session']}",
        f"temperature {record['temperature']:g}",
        f"top_p {record['top_p']:g}" if record["top_p"] != 1 else "",
    ]
    line = ", ".join(filter(None, parts))
    return line + (f"; {record['rewrite']}" if record["rewrite"] else "")


def _tokens(span: TokenSpan, tokenizer: Any) -> list[dict[str, Any]]:
    ids = [*span.given, *span.sampled]
    texts = [None] * len(ids) if tokenizer is None else _texts(ids, tokenizer)
    # A damaged record may have fewer log-probabilities than tokens.
    logprobs = [*[None] * len(span.given), *span.logprobs][: len(ids)]
    return [
        {"id": token, "text": text, "generated": at >= len(span.given), "logprob": logprob}
        for at, (token, text, logprob) in enumerate(zip_longest(ids, texts, logprobs))
    ]


def _texts(ids: Sequence[int], tokenizer: Any) -> list[str | None]:
    """What each token adds to the text; None for one that the tokenizer does not know.

    A token that is a part of a character only is spelled as the vocabulary does.
    """

    def decode(*tokens: int) -> str:
        text: str = tokenizer.decode(
            list(tokens), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return text

    texts: list[str | None] = []
    before: int | None = None
    for token in ids:
        if not 0 <= token < len(tokenizer):
            texts.append(None)
            before = None
            continue
        text = decode(token)
        if _PART in text:
            text = str(tokenizer.convert_ids_to_tokens(token))
        elif before is not None and (both := decode(before, token)).startswith(decode(before)):
            # Some tokenizers write the space before a word only where something is before it.
            text = both.removeprefix(decode(before))
        texts.append(text)
        before = token
    return texts


def _named(path: str) -> Any:
    from rolecraft.models.model_folder import check_folder

    check_folder(path)
    try:
        return _load(path)
    except MissingExtra:
        raise
    except Exception as error:  # each of the libraries underneath has errors of its own
        raise CommandLineError(
            f"`--tokenizer {path}` cannot be loaded: {one_line(str(error), 300)}"
        ) from error


def _of_model(name: str) -> Any:
    """The tokenizer of a model as a record names it; None if it cannot be loaded from here.

    `say_tokens` tells that, and `--tokenizer` why.
    """
    try:
        return _load(name, local_files_only=True) if name else None
    except Exception:  # as above: the name may be that of anything
        return None


def _load(path: str, **options: Any) -> Any:
    from rolecraft.models.torch_extra import no_progress_bars, transformers

    with no_progress_bars():
        return transformers.AutoTokenizer.from_pretrained(path, trust_remote_code=False, **options)
