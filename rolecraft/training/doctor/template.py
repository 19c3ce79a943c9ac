"""Whether the chat template only ever appends.

A conversation is trained as one token sequence as long as each turn's rendering continues the one
before. Where the template rewrites an earlier turn, a new sequence starts: nothing is wrong with
it, but its beginning is read, and its answers scored, once more.

What is asked are the model's own sessions, with answers that are written here instead of sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rolecraft.errors import RolecraftError, UsageError
from rolecraft.messages import Message, ToolCall
from rolecraft.models.base import Tool
from rolecraft.models.token_model import Sampled, TokenModel, TokenRequest
from rolecraft.training.doctor.finding import Finding, Verdict, number
from rolecraft.training.doctor.probe import asked
from rolecraft.trajectories.in_words import one_line

NAME = "chat template"

_LOOK = Tool(
    name="look",
    description="Look something up.",
    parameters={"type": "object", "properties": {"q": {"type": "string"}}},
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model says at one point."""

    calls: int = 0
    thinks: bool = False


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation to try. After an answer with calls their results follow, else a question."""

    name: str
    answers: Sequence[Answer]
    system: bool = False


_PLAIN, _CALLS = Answer(), Answer(calls=1)
TALKS = (
    Talk("questions", [_PLAIN] * 3),
    Talk("questions with a system prompt", [_PLAIN] * 3, system=True),
    Talk("calls of tools", [_CALLS, Answer(calls=2), _PLAIN, _CALLS, _PLAIN]),
    Talk("calls of tools with a system prompt", [_CALLS, _PLAIN, _CALLS, _PLAIN], system=True),
    Talk("reasoning", [Answer(thinks=True)] * 3),
    Talk(
        "reasoning and calls of tools",
        [Answer(1, thinks=True), Answer(1, thinks=True), Answer(thinks=True), _PLAIN],
    ),
)


@dataclass(slots=True)
class Tried:
    """What became of a conversation."""

    talk: Talk
    forks: list[tuple[int, str]] = field(default_factory=list)
    """Number of the answer, from 1, before which a new sequence began, and why."""
    tokens: int = 0
    """Of all its sequences together."""
    last: int = 0
    """Of the last one, which is the whole conversation."""
    refused: str = ""
    """Why it cannot be had with this model."""

    @property
    def cost(self) -> float:
        """Tokens to train on, over those of one sequence."""
        return self.tokens / max(self.last, 1)

    @property
    def thinks(self) -> bool:
        return any(answer.thinks for answer in self.talk.answers)


class _Told(TokenModel):
    """`model` as far as text and tokens go, with answers that somebody else writes."""

    real = False

    def __init__(self, model: TokenModel) -> None:
        # Its template, reader and settings, whatever they were made from.
        self.__dict__.update(vars(model))
        self.on_rewrite = "fork"
        self._warned = True  # the finding says it
        self._context = None
        self.says = ""
        self.opens = ""
        """What an answer that thinks begins with, unless the template has written it."""

    async def sample(self, request: TokenRequest) -> Sampled:
        end = self.tokenizer.decode(request.ids[-16:]).rstrip()
        says = self.says if end.endswith(self.opens) else f"{self.opens}\n{self.says}"
        try:
            ids = self.tokenizer(says, add_special_tokens=False)["input_ids"]
        except Exception as error:  # the tokenizers library raises plain `Exception`
            raise UsageError(f"the tokenizer cannot spell {says!r}: {error}") from error
        ids = [*ids, self._end]
        return Sampled(ids=ids, logprobs=[-1.0] * len(ids), finish="stop")


async def try_talk(model: TokenModel, talk: Talk) -> Tried:
    """Have the conversation. Raises nothing: what the model cannot do is said."""
    told, tried = _Told(model), Tried(talk)
    try:
        await _have(told, talk, tried)
    except RolecraftError as error:
        tried.refused = " ".join(str(error).split())
    return tried


async def _have(told: _Told, talk: Talk, tried: Tried) -> None:
    question, other = asked(told)
    tools = [_LOOK] if any(answer.calls for answer in talk.answers) else []
    session = told.session("doctor", system=other if talk.system else "")
    new = [Message(question, role="user")]
    lengths: dict[str, int] = {}
    for turn, answer in enumerate(talk.answers, 1):
        says, thought = _turned(other, turn), ""
        told.opens = ""
        if answer.thinks:
            told.opens, closes = _markers(told)
            thought = f"{says}\n{closes}\n\n"
        said = says
        if answer.calls:
            calls = [
                ToolCall("look", {"q": says}, f"call{turn:04d}{n}") for n in range(answer.calls)
            ]
            said = told.reader.parser.render(calls)
        told.says = thought + said
        completion = await session.generate(new, tools=tools)
        span = completion.tokens
        assert span is not None
        if span.rewrite:
            tried.forks.append((turn, span.rewrite))
        lengths[span.session] = span.start + len(span.given) + len(span.sampled)
        tried.tokens, tried.last = sum(lengths.values()), lengths[span.session]
        if completion.tool_calls:
            new = [
                Message(_turned(question, turn), "tool", metadata={"tool_call_id": call.id})
                for call in completion.tool_calls
            ]
        else:
            new = [Message(_turned(question, turn), role="user")]


def _turned(text: str, by: int) -> str:
    """Another text of the same words: some templates ask which message *equals* the last one."""
    words = text.split()
    by %= len(words)
    return " ".join(words[by:] + words[:by])


def _markers(told: TokenModel) -> tuple[str, str]:
    """Around what the model thinks. Raises `UsageError` where the template knows of no thoughts."""
    try:
        form = told.reader.parser.grammar.reasoning
    except UsageError:  # a model without tools
        form = None
    known = [*zip(form.opens, form.closes, strict=False)] if form is not None else []
    for opens, closes in (*known, ("<think>", "</think>")):
        if opens.strip() in told.template.source or closes.strip() in told.template.source:
            return opens.strip(), closes.strip()
    raise UsageError("the template writes no reasoning")


async def check_template(model: TokenModel, talks: Sequence[Talk] = TALKS) -> Finding:
    """Have all conversations. A fork fails, but where nothing but reasoning is dropped."""
    tried = [await try_talk(model, talk) for talk in talks]
    had = [each for each in tried if not each.refused]
    if not had:
        return Finding(
            check=NAME,
            verdict="fail",
            found=f"No conversation can be had: {tried[0].refused}",
            advice="Set `tokenizer.chat_template` to the one that the model was made with.",
        )
    forked = [each for each in had if each.forks]
    cost = max(each.cost for each in had)
    verdict: Verdict = "ok"
    found = f"Every turn of {len(had)} conversations continues the one before"
    advice = ""
    if forked:
        verdict = "warn" if all(each.thinks for each in forked) else "fail"
        found = "; ".join(_in_words(each) for each in forked)
        advice = (
            "Correct, but the beginning is read again at each fork. Take `on_rewrite='keep'`, or "
            "set a template that only appends. Switching reasoning off helps where the template "
            "leaves no empty thought in prompts, as Qwen3's does: docs/token-exact.md."
        )
        if verdict == "fail":
            advice = (
                "Conversations of several turns are trained as many sequences, and the beginning "
                "is read again in each. Set `tokenizer.chat_template` to one that only appends, or "
                "take `on_rewrite='keep'`."
            )
    not_had = [f"{each.talk.name} ({one_line(each.refused, 90)})" for each in tried if each.refused]
    if not_had:
        found += f". Not tried: {'; '.join(not_had)}"
    return Finding(
        check=NAME,
        verdict=verdict,
        value=f"{sum(len(each.forks) for each in had)} forks, {number(cost)} times the tokens",
        limit="0 forks",
        found=found,
        advice=advice,
        numbers={
            "forks": sum(len(each.forks) for each in had),
            "cost": cost,
            "conversations": len(had),
        },
    )


def _in_words(tried: Tried) -> str:
    turns = ", ".join(f"answer {turn} ({why})" for turn, why in tried.forks)
    return (
        f"{tried.talk.name}: a new sequence begins before {turns}, {number(tried.cost)} times the "
        f"tokens"
    )
