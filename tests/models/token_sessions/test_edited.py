"""What a program does to earlier answers is what the model reads, and it forks with a reason."""

from __future__ import annotations

from typing import Any

import pytest

from rolecraft.errors import NotRestorable
from rolecraft.messages import Message
from rolecraft.models.base import Completion

SECRET = "bb aab bb"


async def talked(kit: Any, name: str = "qwen25", turns: int = 3, **settings: Any) -> Any:
    """A session with `turns` answers; the first one says a secret."""
    family = kit.FAMILIES[name]
    model = kit.RandomModel(family, broken=0, **settings)
    said = [SECRET, *["aa"] * (turns + 3)]
    model.script = [(kit.written(family, "", text, []), family.ends[0]) for text in said]
    session = model.session("r")
    for n in range(turns):
        await session.generate([Message(f"ab{n}")])
    return session


def read(session: Any) -> str:
    """What the last answer was given to read."""
    request, _ = session.model.calls[-1]
    return str(session.model.tokenizer.decode(request.ids))


@pytest.mark.parametrize("turns", [1, 2, 3, 40])
@pytest.mark.parametrize("how", ["replaced", "edited in place"])
async def test_an_edited_answer_is_what_the_model_reads(kit: Any, how: str, turns: int) -> None:
    session = await talked(kit, turns=turns)
    if how == "replaced":
        session.messages[1] = Message("redacted", role="assistant")
    else:
        session.messages[1].content = "redacted"
    answer = await session.generate([Message("ba")])
    assert (answer.tokens.start, answer.tokens.rewrite) == (0, "an answer edited")
    assert SECRET not in read(session)
    assert "redacted" in read(session)
    on = await session.generate([Message("ba")])
    assert (on.tokens.start > 0, on.tokens.rewrite) == (True, "")


async def test_a_call_that_is_edited_in_place_is_read_as_it_stands(kit: Any) -> None:
    family = kit.FAMILIES["qwen25"]
    model = kit.RandomModel(family, broken=0)
    model.script = [(kit.written(family, "", "", [kit.call(family)]), family.ends[-1])]
    model.script += [("aa", family.ends[0])] * 2
    session = model.session("r")
    asked = await session.generate([Message("ab")], tools=kit.TOOLS)
    (call,) = asked.tool_calls
    result = Message("ba", role="tool", metadata={"tool_call_id": call.id})
    await session.generate([result], tools=kit.TOOLS)
    call.arguments["place"] = "redacted"
    answer = await session.generate([Message("ab")], tools=kit.TOOLS)
    assert answer.tokens.rewrite == "an answer edited"
    assert "redacted" in read(session)


async def test_answers_that_are_removed_are_not_read(kit: Any) -> None:
    session = await talked(kit)
    del session.messages[:2]
    answer = await session.generate([Message("ba")])
    assert (answer.tokens.start, answer.tokens.rewrite) == (0, "messages removed")
    assert SECRET not in read(session)


async def test_the_sequence_can_be_kept_and_says_once_that_an_answer_was_edited(kit: Any) -> None:
    session = await talked(kit, on_rewrite="keep")
    session.messages[1].content = "redacted"
    answer = await session.generate([Message("ba")])
    assert (answer.tokens.start > 0, answer.tokens.rewrite) == (True, "an answer edited")
    on = await session.generate([Message("ba")])
    assert (on.tokens.start > 0, on.tokens.rewrite) == (True, "")


def restored(model: Any, record: list[Completion], role: str) -> Any:
    session = model.session(role)
    answers = iter(record)
    session.on_ask = lambda *_: next(answers, None)
    return session


@pytest.mark.parametrize("role", ["C++ coder", "R+2", "+", "r"])
async def test_a_conversation_of_any_name_is_restored(kit: Any, role: str) -> None:
    """Qwen3 drops thoughts at the second question, so the names of its sequences get a number."""
    family = kit.FAMILIES["qwen3"]
    model = kit.RandomModel(family, broken=0)
    model.script = [(kit.written(family, "ab", "bb", []), family.ends[0])] * 4
    session = model.session(role)
    record = [await session.generate([Message("ab")]) for _ in range(3)]
    assert session.restarts
    again = restored(model, record, role)
    for _ in record:
        await again.generate([Message("ab")])
    assert (again.tokens, again.restarts) == (session.tokens, session.restarts)
    first, second = [await each.generate([Message("ab")]) for each in (session, again)]
    assert first.tokens.given == second.tokens.given
    assert first.tokens.session == second.tokens.session


async def test_a_record_with_a_gap_is_not_gone_on_with(kit: Any) -> None:
    session = await talked(kit, turns=0)
    record = [await session.generate([Message("ab")]) for _ in range(3)]
    again = restored(session.model, [record[0], record[2]], "r")
    await again.generate([Message("ab")])
    with pytest.raises(NotRestorable, match=r"'r:0' has gaps: its next answer begins at token"):
        await again.generate([Message("ab")])
    late = restored(session.model, record[1:], "r")
    with pytest.raises(NotRestorable, match="has gaps"):
        await late.generate([Message("ab")])
