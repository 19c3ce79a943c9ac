"""Typed questions: ask a session, get a validated value.

A `Literal` becomes a choice (local models can sample nothing else); any other type becomes a JSON
Schema in the prompt, with the descriptions and examples of its fields. A person is asked in words,
field by field. An answer that is not of the type is asked again with the reason, at most `retries`
times, and then is an `InvalidAnswer`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal, get_args, get_origin

from rolecraft.errors import InvalidAnswer
from rolecraft.messages import Message
from rolecraft.models.base import Completion, Sampling, Session
from rolecraft.models.near_json import NotJSON, json_values

Check = Callable[[Any], object]
"""Looks at an answer of the right type; raises `ValueError` with the reason for another one."""


async def put_question(
    session: Session,
    prompt: str,
    *,
    returns: Any = str,
    sampling: Sampling | None = None,
    check: Check | None = None,
    retries: int = 2,
) -> Any:
    """Ask `prompt` in `session` and return an answer of type `returns`.

    `check` may refuse an answer that has the type: it raises `ValueError`, and the question is
    asked again with its text. Raises `InvalidAnswer` after `retries` further attempts, and what
    `Session.generate` raises.
    """
    read: Callable[[Completion], Any] = _read_text
    if returns is str:
        pass
    elif get_origin(returns) is Literal:
        by_text = texts_of(returns)
        sampling = replace(sampling or Sampling(), choices=tuple(by_text))
        read = partial(_read_choice, by_text)
    elif session.model.person:
        from rolecraft.models import _in_words

        return await _in_words.put_question(
            session, prompt, returns=returns, check=check, retries=retries
        )
    else:
        from rolecraft.models.forms import form_of

        form = form_of(returns)
        prompt = f"{prompt}\n\nAnswer with JSON only, of this JSON Schema:\n{form.text}"
        read = partial(_read_json, form.adapter)
    problem = reason = text = ""
    for _ in range(retries + 1):
        completion = await session.generate([Message(prompt)], sampling=sampling)
        text = completion.text
        try:
            answer = read(completion)
            if check is not None:
                check(answer)
        except ValueError as error:  # `_Unreadable`, and what `check` raises
            from rolecraft.models.forms import reason_of

            problem = reason_of(error)
            reason = error.reason if isinstance(error, _Unreadable) else problem
        else:
            return answer
        prompt = f"That answer is not valid: {problem}"
    raise InvalidAnswer(
        f"Model {session.model.name!r} gave no valid {getattr(returns, '__name__', returns)} in "
        f"{retries + 1} attempts. Its last answer was {text!r}. {reason.rstrip('.')}."
    )


class _Unreadable(ValueError):
    """An answer is not of the type that was asked for; says to the model what to do.

    `reason` is for people, who need not be told how to answer.
    """

    def __init__(self, told: str, reason: str) -> None:
        self.reason = reason
        super().__init__(told)


def _read_text(completion: Completion) -> str:
    return completion.text


def _read_choice(by_text: dict[str, Any], completion: Completion) -> Any:
    return read_choice(by_text, completion.text)


def texts_of(literal: Any) -> dict[str, Any]:
    """The values of a `Literal` by their texts."""
    return {str(value): value for value in get_args(literal)}


def read_choice(by_text: dict[str, Any], text: str) -> Any:
    """The value that `text` names; case, quotes and full stops do not matter. Or `ValueError`."""
    answer = text.strip()
    if answer in by_text:
        return by_text[answer]
    plain = answer.strip(".`'\"").lower()
    loose = [value for choice, value in by_text.items() if choice.lower() == plain]
    if len(loose) != 1:
        choices = ", ".join(by_text)
        wrong = f"{answer!r} is none of the choices"
        raise _Unreadable(f"{wrong}. Answer with one of: {choices}", f"{wrong}: {choices}")
    return loose[0]


def _read_json(adapter: Any, completion: Completion) -> Any:
    """The one value of the type in a reply; words, and values of other types, may be around it."""
    from pydantic import ValidationError

    from rolecraft.models.forms import flaws

    again = "Answer again, with JSON only."
    cut = completion.finish_reason == "length"
    try:
        values = json_values(completion.text, cut=cut)
    except NotJSON as error:
        short = " Be shorter: the answer was cut off." if cut else ""
        raise _Unreadable(f"{error}. {again}{short}", str(error)) from None
    answers, problems = [], []
    for value in values:
        try:
            answer = adapter.validate_json(value)
        except ValidationError as error:
            problems.append((len(value), flaws(error)))
        else:
            if answer not in answers:
                answers.append(answer)
    if len(answers) == 1:
        return answers[0]
    if answers:
        wrong = f"It has {len(answers)} different answers in it"
        raise _Unreadable(f"{wrong}. Answer with one of them.", wrong)
    told = max(problems)[1] if problems else "There is no JSON in it"
    raise _Unreadable(f"{told}. {again}", told)
