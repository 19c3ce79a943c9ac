"""Lists of questions and answers: `data: ["问:…", "答:…"]`, as HuatuoGPT has them."""

from __future__ import annotations

import re

from rolecraft.training.sft.layouts.layout import Fields, Layout, answer_of, facts_of, json_of
from rolecraft.training.sft.samples import BadRow, Sample, Turn

_ASKS = ("问题", "问", "question", "q", "user", "human", "用户", "患者")
_ANSWERS = ("回答", "答案", "答", "answer", "a", "assistant", "gpt", "助手", "医生")
_PREFIX = re.compile(rf"\s*({'|'.join((*_ASKS, *_ANSWERS))})\s*[::]\s*", re.IGNORECASE)


def _read(row: Fields) -> Sample:
    said = json_of(row["data"], "`data`")
    if not isinstance(said, list) or not all(isinstance(text, str) for text in said):
        raise BadRow("has no list of texts as `data`")
    marked = [_PREFIX.match(text) for text in said]
    named = all(found is not None for found in marked)
    turns: list[Turn] = []
    for at, (text, found) in enumerate(zip(said, marked, strict=True)):
        asks = at % 2 == 0  # they alternate, unless each says what it is
        if found is not None:
            said_to_ask = found[1].lower() in _ASKS
            if not named and said_to_ask != asks:
                raise BadRow(f"has {text[:20]!r} as `data[{at}]`, out of turn")
            asks, text = said_to_ask, text[found.end() :]
        text = text.strip()
        if turns and turns[-1].role == ("user" if asks else "assistant"):
            whose = "questions" if asks else "answers"
            raise BadRow(f"has two {whose} one after the other, `data[{at - 1}]` and `data[{at}]`")
        turns.append(Turn("user", text) if asks else answer_of(text, calls=False))
    if turns and turns[0].role == "assistant":
        raise BadRow("begins with an answer that nobody asked for")
    return Sample(turns=turns, facts=facts_of(row))


QUESTION_ANSWER = Layout(
    "question-answer",
    "`data`: [question, answer, ...]",
    lambda row: "data" in row and isinstance(row["data"], (list, str)),
    _read,
)
