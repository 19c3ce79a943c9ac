"""A real vLLM, a tiny random model for it, and adapters for that, all made on the spot.

vLLM for CPUs has an environment of its own: `make test-vllm`, which `make test CI=true` runs too.
In another environment these tests skip, saying so; with `CI=true` they fail instead.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

CONTEXT = 256
END = "<|im_end|>"
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEXT = (
    "The planner asks the critic, and the critic says what is wrong with the plan.",
    "Register a holds 4. Read register b, add both, and answer with one digit: yes or no?",
)

# Small and quick to start.
ENGINE = {"enforce_eager": True, "max_num_seqs": 64, "kv_cache_memory_bytes": 1 << 28}


@pytest.fixture(scope="session")
def _vllm() -> None:
    if find_spec("vllm") is None:
        reason = "needs vLLM: `make test-vllm` installs it into an environment of its own"
        if os.environ.get("CI") in ("true", "1"):
            pytest.fail(f"{reason}, and `make test CI=true` does so")
        pytest.skip(reason)
    os.environ["HF_HUB_OFFLINE"] = "1"  # nothing here needs the internet
    os.environ["OMP_NUM_THREADS"] = "1"
    # Kernels compiled on the spot take longer than these tests, and want a C++ compiler.
    os.environ["TORCHDYNAMO_DISABLE"] = "1"


def make_tokenizer() -> Any:
    """A byte-level BPE with merges of its own, and the special tokens of ChatML."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.train_from_iterator(
        TEXT * 4,
        trainers.BpeTrainer(
            vocab_size=400,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            special_tokens=["<|endoftext|>", "<|im_start|>", END],
        ),
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token=END,
        pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>"],
        chat_template=TEMPLATE,
    )


@pytest.fixture(scope="session")
def base(_vllm: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Qwen2 of two layers, 0.1 M parameters, far from uniform, with its tokenizer."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    folder = tmp_path_factory.mktemp("models") / "tiny-qwen2"
    tokenizer = make_tokenizer()
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=False,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = Qwen2ForCausalLM(config)
        for weight in module.parameters():
            if weight.ndim == 2:
                torch.nn.init.normal_(weight, std=0.15)
    module.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


MakeAdapter = Callable[..., Path]


@pytest.fixture(scope="session")
def make_adapter(base: Path, tmp_path_factory: pytest.TempPathFactory) -> MakeAdapter:
    """`make_adapter(seed)`: a folder with a LoRA adapter, saved by peft, of a visible effect."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    def make(seed: int, *, rank: int = 4, of: Path = base, **config: Any) -> Path:
        folder = tmp_path_factory.mktemp("adapter")
        settings = {"target_modules": ["q_proj", "v_proj", "o_proj", "up_proj"], **config}
        module = get_peft_model(
            AutoModelForCausalLM.from_pretrained(of, dtype="float32"),
            LoraConfig(r=rank, lora_alpha=2 * rank, **settings),
        )
        random = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for name, weight in module.named_parameters():
                if "lora_" in name:
                    weight.copy_(torch.randn(weight.shape, generator=random) * 0.25)
        module.save_pretrained(folder)
        return folder

    return make


@pytest.fixture(scope="session")
def reference(base: Path) -> Callable[..., Any]:
    """`reference(adapter)`: transformers' module, with peft's adapter on it if one is given."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    def load(adapter: Path | None = None) -> Any:
        module = AutoModelForCausalLM.from_pretrained(base, dtype="float32").eval()
        return module if adapter is None else PeftModel.from_pretrained(module, adapter).eval()

    return load


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def model(base: Path) -> AsyncIterator[Any]:
    """One engine for the tests of several files: it takes from half a minute to minutes to start.

    The last of them, in `test_vllm_model.py`, kills it.
    """
    from rolecraft.models.vllm_model import VLLMModel

    made = VLLMModel(
        str(base),
        name="tiny",
        seed=3,
        dtype="float32",
        max_tokens=24,
        max_rank=8,
        max_adapters=4,
        engine=ENGINE,
    )
    await made.prepare()
    yield made
    await made.aclose()
