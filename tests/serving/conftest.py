"""A tiny model that learnt a conversation with tools by heart, adapters, and a server of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from rolecraft.messages import Message, ToolCall
from rolecraft.models import tiny_chat
from rolecraft.models.base import Tool
from rolecraft.models.tiny_chat import Lesson
from rolecraft.models.transformers_model import TransformersModel
from rolecraft.serving import ModelServer, Settings

torch.set_num_threads(1)

TEMPLATE = (
    "{%- if tools %}<|im_start|>system\nTools:\n"
    "{%- for tool in tools %}\n{{ tool.function.name }}{% endfor %}<|im_end|>\n{% endif %}"
    "{%- for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.content %}{{ m.content }}{% endif %}"
    "{% for c in m.tool_calls or [] %}<tool_call>\n"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n'
    "</tool_call>{% endfor %}<|im_end|>\n{% endfor %}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

WEATHER = Tool(
    name="get_weather",
    description="The weather of a city.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}},
)
ASKED = Message("What is the weather in Paris?")
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
CALLED = Message(
    "",
    role="assistant",
    metadata={"tool_calls": [ToolCall("get_weather", {"city": "Paris"}, "call00000")]},
)
RETURNED = Message("22 degrees", role="tool", metadata={"tool_call_id": "call00000"})
REPORT = "It is 22 degrees in Paris."
THOUGHT = "<think>\nTwo and two.\n</think>\n\nFour."

LESSONS = [
    Lesson(messages=[ASKED], tools=[WEATHER], answer=CALL),
    Lesson(messages=[ASKED, CALLED, RETURNED], tools=[WEATHER], answer=REPORT),
    Lesson(messages=[Message("Hello")], answer="Hello to you."),
    Lesson(messages=[Message("2 + 2?")], answer=THOUGHT),
]


def untrained(lessons: Sequence[Lesson] = LESSONS) -> TransformersModel:
    """A model whose tokenizer merges what the lessons say; `tiny_chat_model`'s merges nothing."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=["<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = [lesson.answer for lesson in lessons]
    texts += [message.content for lesson in lessons for message in lesson.messages]
    texts += ["assistant user system tool"]
    backend.train_from_iterator(texts, trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token="<|im_end|>",
        pad_token="<|im_end|>",
        additional_special_tokens=["<|im_start|>"],
        chat_template=TEMPLATE,
        clean_up_tokenization_spaces=False,
    )
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=512,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = transformers.LlamaForCausalLM(config)
    return TransformersModel(module, tokenizer, name="tiny", parser="hermes", reasoning="qwen3")


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trained model, saved."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    model = untrained()
    tiny_chat.teach(model, LESSONS)
    model.save(folder)
    return folder


@pytest.fixture
def teach(tmp_path: Path) -> Callable[[Sequence[Lesson]], Callable[..., TransformersModel]]:
    """`teach(lessons)` trains a model on them; what it returns loads that model, each time anew."""

    def teach(lessons: Sequence[Lesson]) -> Callable[..., TransformersModel]:
        model = untrained(lessons)
        tiny_chat.teach(model, lessons)
        model.save(tmp_path / "taught")
        return lambda: TransformersModel.load(
            tmp_path / "taught", device="cpu", name="tiny", parser="hermes", reasoning="qwen3"
        )

    return teach


@pytest.fixture(scope="session")
def load(model_folder: Path) -> Callable[..., TransformersModel]:
    """Loads the trained model."""

    def load(**settings: Any) -> TransformersModel:
        settings = {"name": "tiny", "parser": "hermes", "reasoning": "qwen3", **settings}
        return TransformersModel.load(model_folder, device="cpu", **settings)

    return load


@pytest.fixture(scope="session")
def adapter(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`adapter(seed)`: the folder of a LoRA adapter with random matrices, as peft saves it."""
    made: dict[Any, Path] = {}

    def make(seed: int, **settings: Any) -> Path:
        key = (seed, *sorted(settings.items()))
        if key not in made:
            import peft

            module = transformers.AutoModelForCausalLM.from_pretrained(model_folder)
            config = peft.LoraConfig(
                **{
                    "r": 4,
                    "lora_alpha": 64,
                    "init_lora_weights": False,
                    "target_modules": ["q_proj", "v_proj", "down_proj"],
                    **settings,
                }
            )
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                wrapped = peft.get_peft_model(module, config)
            made[key] = tmp_path_factory.mktemp(f"adapter{seed}")
            wrapped.save_pretrained(made[key])
        return made[key]

    return make


class Running:
    """A server in a thread with an event loop of its own."""

    def __init__(self, model: Any, adapters: dict[str, Path], settings: dict[str, Any]) -> None:
        self.model = model
        settings = {"name": "tiny", **settings}
        self.server = ModelServer(model, Settings(**settings), port=0)
        self.url = self.server.url
        self.base = self.url.removesuffix("/v1")
        self._adapters = adapters
        self._ready = threading.Event()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(60)
        if self._failed is not None:
            raise self._failed

    @property
    def desk(self) -> Any:
        return self.server.app.state.desk

    def stop(self) -> None:
        self.server.stop()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        try:
            for role, path in self._adapters.items():
                await self.model.load_adapter(role, path)
        except BaseException as error:
            self._failed = error
            raise
        finally:
            self._ready.set()
        await self.server.serve()


@pytest.fixture(scope="session")
def running() -> type[Running]:
    """A server that the test stops itself."""
    return Running


@pytest.fixture
def serve() -> Iterator[Callable[..., Running]]:
    """`serve(model, adapters={...}, keys=[...])`: a running server, stopped after the test."""
    running: list[Running] = []

    def start(model: Any, *, adapters: dict[str, Path] | None = None, **settings: Any) -> Running:
        running.append(Running(model, adapters or {}, settings))
        return running[-1]

    yield start
    for one in running:
        one.stop()
