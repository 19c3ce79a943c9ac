"""Chat templates of model families, a tokenizer that merges whatever it can, and a random model."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import pytest

from rolecraft.messages import Message, ToolCall
from rolecraft.models.base import Completion, Sampling, Tool
from rolecraft.models.token_model import Sampled, TokenModel, TokenRequest
from rolecraft.models.tool_calls import get_parser
from rolecraft.trajectories import Event, Trajectory

TEMPLATES = Path(__file__).parent / "templates"
CHATML = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]
DEEPSEEK = [
    *("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"),
    *("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>"),
    *("<｜tool▁call▁end｜>", "<｜tool▁sep｜>", "<｜tool▁outputs▁begin｜>"),
    *("<｜tool▁outputs▁end｜>", "<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>"),
]
KIMI = [
    *("<|im_system|>", "<|im_user|>", "<|im_assistant|>", "<|im_middle|>", "<|im_end|>"),
    *("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>"),
    *("<|tool_call_argument_begin|>", "<|tool_call_end|>", "[EOS]"),
]
GLM = [
    *("[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"),
    "<|endoftext|>",
]
LLAMA3 = [
    *("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
    *("<|eom_id|>", "<|end_of_text|>", "<|python_tag|>"),
]
LLAMA4 = [
    *("<|begin_of_text|>", "<|header_start|>", "<|header_end|>", "<|eot|>", "<|eom|>"),
    *("<|end_of_text|>", "<|python_start|>", "<|python_end|>"),
]
MISTRAL = [
    *("<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
    *("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[TOOL_RESULTS]", "[TOOL_CONTENT]"),
    *("[/TOOL_RESULTS]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"),
]
HARMONY = [
    *("<|start|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|end|>"),
    *("<|call|>", "<|return|>", "<|endoftext|>"),
]


@dataclass(frozen=True)
class Family:
    """A template, its special tokens, and how its models end turns and write calls."""

    name: str
    special: list[str]
    ends: list[str]
    """The first ends an answer, the last one that calls tools."""
    parser: str
    added: list[str] = field(default_factory=list)
    """Tokens of their own that are not special."""
    thinks: bool = False
    rewrites: bool = False
    """Whether the template changes what it wrote of earlier turns."""

    @property
    def template(self) -> str:
        return (TEMPLATES / f"{self.name}.jinja").read_text("utf-8")


TAGS = ["<tool_call>", "</tool_call>", "<think>", "</think>"]
FAMILIES = {
    family.name: family
    for family in (
        Family("hermes", CHATML, ["<|im_end|>"], "hermes", TAGS[:2]),
        Family("qwen25", CHATML, ["<|im_end|>", "<|endoftext|>", "<|im_end|>"], "qwen", TAGS[:2]),
        Family("qwen3", CHATML, ["<|im_end|>"], "qwen", TAGS, thinks=True, rewrites=True),
        Family("qwen3_coder", CHATML, ["<|im_end|>"], "qwen3_coder", TAGS[:2]),
        Family("deepseek_v3", DEEPSEEK, ["<｜end▁of▁sentence｜>"], "deepseek_v3", rewrites=True),
        Family("deepseek_v3_1", DEEPSEEK, ["<｜end▁of▁sentence｜>"], "deepseek_v3_1", TAGS[2:]),
        Family("glm45", GLM, ["<|user|>", "<|observation|>"], "glm45", TAGS, True, True),
        Family("glm47", GLM, ["<|user|>", "<|observation|>"], "glm47", TAGS, True, True),
        Family("kimi_k2", KIMI, ["<|im_end|>"], "kimi_k2"),
        Family("llama3", LLAMA3, ["<|eot_id|>", "<|eom_id|>", "<|eot_id|>"], "llama3_json"),
        Family("llama4", LLAMA4, ["<|eot|>"], "llama4_pythonic"),
        Family("longcat", ["</longcat_s>"], ["</longcat_s>"], "longcat"),
        Family("mistral", MISTRAL, ["</s>"], "mistral"),
        Family("mistral_v3", MISTRAL, ["</s>"], "mistral", rewrites=True),
        Family(
            "gpt_oss", HARMONY, ["<|return|>", "<|call|>"], "gpt_oss", thinks=True, rewrites=True
        ),
    )
}
TOOLS = (
    Tool(
        name="look",
        description="Look at a place.",
        parameters={
            "type": "object",
            "properties": {"place": {"type": "string"}, "times": {"type": "integer"}},
        },
    ),
    Tool(
        name="write",
        description="Write a text.",
        parameters={"type": "object", "properties": {"text": {"type": "string"}}},
    ),
)
WORDS = [
    "aa",
    "ab",
    "ba",
    "bb",
    "aab",
    " ",
    "  ",
    "\n",
    "\n\n",
    "é",
    "漢",
    "🙂",
    '"',
    "{",
    "}",
    "user",
]


@cache
def _backend() -> str:
    """A byte-level BPE that has learned to merge across words, lines and markers."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=900,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    draw = random.Random(0)
    texts = ["".join(draw.choices(WORDS, k=40)) for _ in range(200)]
    texts += ['{"name": "look", "arguments": {"place": "aab", "times": 2}}\n'] * 50
    texts += [family.template for family in FAMILIES.values()]
    backend.train_from_iterator(texts, trainer)
    return str(backend.to_str())


@lru_cache(100_000)
def _tokens(text: str) -> tuple[int, ...]:
    """Tokens of text without special tokens: the same for all families."""
    return tuple(_shared().encode(text, add_special_tokens=False).ids)


@cache
def _shared() -> Any:
    from tokenizers import Tokenizer

    return Tokenizer.from_str(_backend())


@cache
def tokenizer_of(name: str) -> Any:
    import transformers
    from tokenizers import AddedToken, Tokenizer

    family = FAMILIES[name]
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(_backend()),
        bos_token=family.special[0],
        eos_token=family.ends[0],
        additional_special_tokens=family.special,
        chat_template=family.template,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.add_tokens([AddedToken(text, special=False) for text in family.added])
    return tokenizer


class RandomModel(TokenModel):
    """Samples answers at random: texts, thoughts, calls, broken calls, cut-off ones, any tokens.

    What is written is cut into tokens at random as well, so hardly ever as the tokenizer would.
    """

    real = False

    def __init__(self, family: Family, *, broken: float = 0.2, **settings: Any) -> None:
        tokenizer = tokenizer_of(family.name)
        self.family = family
        self.broken = broken
        self.calls: list[tuple[TokenRequest, Sampled]] = []
        self.script: list[tuple[str, str]] = []
        """Texts and their ends to be sampled before anything at random."""
        settings.setdefault("parser", family.parser)
        super().__init__(
            tokenizer,
            name=family.name,
            ends=tokenizer.convert_tokens_to_ids(family.ends),
            **settings,
        )

    async def sample(self, request: TokenRequest) -> Sampled:
        draw = random.Random(f"{request.key}/{len(request.ids)}")
        ids, finish = self._write(draw, request.max_tokens)
        sampled = Sampled(
            ids=ids,
            logprobs=[-draw.random() for _ in ids],
            finish=finish,
            version=draw.randrange(3),
            adapter=f"r@{draw.randrange(2)}",
        )
        self.calls.append((request, sampled))
        return sampled

    def _write(self, draw: random.Random, limit: int) -> tuple[list[int], Any]:
        if self.script:
            text, end = self.script.pop(0)
        elif draw.random() < self.broken / 4:
            ids = [draw.randrange(len(self.tokenizer)) for _ in range(draw.randint(1, 12))]
            while ids[:-1] and self.ends & set(ids[:-1]):
                ids = [token for token in ids if token not in self.ends] or [5]
            return ids, "stop" if ids[-1] in self.ends else "length"
        else:
            text, end = random_answer(self.family, draw)
            if draw.random() < self.broken:
                text = text[: draw.randrange(len(text) + 1)] + words(draw, 2)
        ids = self.cut(text, draw)
        ids = [token for token in ids if token not in self.ends]
        if len(ids) >= limit or (not self.script and draw.random() < self.broken / 2 and ids):
            return ids[: max(1, min(limit, draw.randint(1, len(ids))))], "length"
        return [*ids, self.tokenizer.convert_tokens_to_ids(end)], "stop"

    def cut(self, text: str, draw: random.Random) -> list[int]:
        """Tokens of `text`, cut at random places first; special tokens stay whole."""
        ids: list[int] = []
        at = 0
        special = sorted({*self.family.special, *self.family.added}, key=len, reverse=True)
        marks = re.compile("|".join(map(re.escape, special)))
        while at < len(text):
            found = marks.search(text, at)
            if found is not None and found.start() == at:
                ids.append(self.tokenizer.convert_tokens_to_ids(found[0]))
                at = found.end()
                continue
            ahead = len(text) if found is None else found.start()
            to = min(at + draw.randint(1, 9), ahead)
            ids += _tokens(text[at:to])
            at = to
        return ids


def words(draw: random.Random, most: int) -> str:
    return "".join(draw.choices(WORDS, k=draw.randint(0, most)))


def random_answer(family: Family, draw: random.Random) -> tuple[str, str]:
    """An answer as models of the family write it, and the token that ends it."""
    called = draw.random() < 0.6
    thought = words(draw, 5) if family.thinks and draw.random() < 0.8 else ""
    text = words(draw, 6)
    calls = [random_call(draw, n, family) for n in range(draw.choice([1, 1, 2]))] if called else []
    return written(family, thought, text, calls), family.ends[-1 if called else 0]


def random_call(draw: random.Random, number: int, family: Family) -> ToolCall:
    arguments = draw.choice(
        [
            {"place": words(draw, 4), "times": draw.randint(0, 99)},
            {"text": words(draw, 6)},
            {},
        ]
    )
    name = "write" if "text" in arguments else "look"
    call_id = f"functions.{name}:{number}" if family.parser == "kimi_k2" else ""
    return ToolCall(name, arguments, call_id)


def written(family: Family, thought: str, text: str, calls: Sequence[ToolCall]) -> str:
    rendered = get_parser(family.parser).render(calls) if calls else ""
    if family.name == "gpt_oss":
        analysis = f"<|channel|>analysis<|message|>{thought}<|end|><|start|>assistant"
        before = analysis if thought else ""
        if not calls:
            return f"{before}<|channel|>final<|message|>{text}"
        return before + rendered.removeprefix("<|start|>assistant").removesuffix("<|call|>")
    before = f"<think>\n{thought}\n</think>\n\n" if thought else ""
    return before + text + ("\n" if text and calls else "") + rendered


def plain_call(family: Family) -> ToolCall:
    """One call that is the same in every test."""
    call_id = "functions.look:0" if family.parser == "kimi_k2" else ""
    return ToolCall("look", {"place": "aab", "times": 2}, call_id)


@dataclass
class Talk:
    """A conversation as it went."""

    model: RandomModel
    session: Any
    answers: list[Completion]

    @property
    def trajectory(self) -> Trajectory:
        events = [
            Event("model_call", role="r", content=answer.text, tokens=answer.tokens, seq=at)
            for at, answer in enumerate(self.answers)
        ]
        return Trajectory(id="t", events=events)


async def converse(
    model: RandomModel,
    seed: int,
    *,
    turns: int = 4,
    tools: Sequence[Tool] = TOOLS,
    environment: Callable[[random.Random], str] = lambda draw: words(draw, 8),
    system: str = "",
) -> Talk:
    """Ask, answer every call that comes, ask again: `turns` answers in all."""
    draw = random.Random(f"environment/{seed}")
    session = model.session("r", system=system, seed=seed)
    answers: list[Completion] = []
    new = [Message(environment(draw))]
    for _ in range(turns):
        answer = await session.generate(
            new, tools=tools, sampling=Sampling(max_tokens=draw.choice([400, 400, 9]))
        )
        answers.append(answer)
        new = [
            Message(environment(draw), role="tool", metadata={"tool_call_id": call.id})
            for call in answer.tool_calls
        ] or [Message(environment(draw))]
    return Talk(model, session, answers)


class Kit:
    FAMILIES = FAMILIES
    TOOLS = TOOLS
    Family = Family
    RandomModel = RandomModel
    tokenizer_of = staticmethod(tokenizer_of)
    converse = staticmethod(converse)
    words = staticmethod(words)
    written = staticmethod(written)
    call = staticmethod(plain_call)


@pytest.fixture(scope="session")
def kit() -> type[Kit]:
    return Kit
