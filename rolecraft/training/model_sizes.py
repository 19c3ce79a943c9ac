"""What a base model's files say of its sizes, without loading a weight.

Its settings are read by transformers, which knows each architecture's names for them; of its
safetensors files only the headers are read.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rolecraft.errors import ModelError

BYTES = {
    "F64": 8,
    "I64": 8,
    "F32": 4,
    "I32": 4,
    "U32": 4,
    "BF16": 2,
    "F16": 2,
    "I16": 2,
    "I8": 1,
    "U8": 1,
    "BOOL": 1,
    "F8_E4M3": 1,
    "F8_E5M2": 1,
}
"""Bytes of a number, by the names of https://github.com/huggingface/safetensors#format."""

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSizes:
    """A causal language model's widths, in numbers, and its parameters."""

    hidden: int
    """Width of the residual stream."""
    layers: int
    heads: int
    key_value_heads: int
    head: int
    """Width of one attention head."""
    intermediate: int
    """Width of the feed-forward block, of all experts that one token goes through."""
    vocabulary: int
    gated: bool
    """Whether the feed-forward block multiplies by a gate (SwiGLU), as Llama's and Qwen's do."""
    tied: bool
    """Whether the output layer shares the embeddings' weights."""
    matrices: Mapping[str, Shape]
    """The weights inside the layers with two axes or more, by module: what LoRA can be put on, and
    what is quantised."""
    embeddings: int
    """Parameters of the input embeddings."""
    output: int
    """Parameters of the output layer; 0 where it is tied."""
    others: int
    """Parameters of norms and biases."""
    stored: int
    """Bytes of all tensors in the files."""
    quantised: bool
    """Whether the files hold quantised weights, which stay as they are."""

    @property
    def query(self) -> int:
        """Width of all queries of a token."""
        return self.heads * self.head

    @property
    def key(self) -> int:
        """Width of all keys of a token, and of all values."""
        return self.key_value_heads * self.head

    @property
    def in_matrices(self) -> int:
        return sum(map(math.prod, self.matrices.values()))

    @property
    def parameters(self) -> int:
        return self.in_matrices + self.embeddings + self.output + self.others


def read_sizes(folder: str | Path) -> ModelSizes:
    """The sizes of the model in `folder`, a local one.

    Raises `ModelError` if it has no readable settings or no safetensors files.
    """
    from rolecraft.models.torch_extra import transformers

    folder = Path(folder)
    try:
        found: Any = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False)
        config = found.get_text_config()
    except Exception as error:  # of whatever its settings make transformers do
        raise ModelError(
            f"`{folder}` holds no settings of a model that `transformers` knows: "
            f"{str(error).rstrip('. ')}. Check the path."
        ) from error
    tensors = stored_tensors(folder)
    tied = bool(getattr(config, "tie_word_embeddings", False))
    matrices: dict[str, Shape] = {}
    embeddings = output = others = 0
    for name, (shape, _) in tensors.items():
        module, numbers = name.removesuffix(".weight"), math.prod(shape)
        if module.endswith(("lm_head", "embed_out")):
            output += 0 if tied else numbers
        elif len(shape) < 2:
            others += numbers
        elif any(part.isdecimal() for part in name.split(".")):
            matrices[module] = shape
        else:
            embeddings += numbers
    hidden = int(config.hidden_size)
    heads = int(config.num_attention_heads)
    return ModelSizes(
        hidden=hidden,
        layers=int(config.num_hidden_layers),
        heads=heads,
        key_value_heads=int(getattr(config, "num_key_value_heads", None) or heads),
        head=int(getattr(config, "head_dim", None) or hidden // heads),
        intermediate=_intermediate(config),
        vocabulary=int(config.vocab_size),
        gated=any("gate_proj" in name or "gate_up_proj" in name for name in matrices),
        tied=tied or not output,
        matrices=matrices,
        embeddings=embeddings,
        output=output,
        others=others,
        stored=sum(math.prod(shape) * BYTES.get(dtype, 2) for shape, dtype in tensors.values()),
        quantised=bool(getattr(config, "quantization_config", None)),
    )


def stored_tensors(path: str | Path) -> dict[str, tuple[Shape, str]]:
    """Shape and number format of every tensor in a safetensors file or a model's folder.

    From the headers alone. Raises `ModelError` if there is none, or one cannot be read.
    """
    from safetensors import SafetensorError, safe_open

    folder = Path(path)
    files = sorted(folder.glob("*.safetensors")) if folder.is_dir() else [folder]
    if not files:
        raise ModelError(
            f"`{folder}` has no `*.safetensors` file, so its sizes are not known. Save the model "
            f"with `save_pretrained`."
        )
    found: dict[str, tuple[Shape, str]] = {}
    for path in files:
        try:
            with safe_open(path, framework="pt") as file:
                for name in file.keys():  # noqa: SIM118 - no mapping
                    part = file.get_slice(name)
                    found[name] = (tuple(part.get_shape()), part.get_dtype())
        except (SafetensorError, OSError) as error:
            raise ModelError(
                f"`{path}` cannot be read: {error}. Fetch or save the model again."
            ) from error
    return found


def stored_format(folder: str | Path) -> str:
    """The number format of most of a model's weights, as torch names it: "float32", "bfloat16".

    Empty for one that weights are not computed in. Raises as `stored_tensors` does.
    """
    sizes: Counter[str] = Counter()
    for shape, dtype in stored_tensors(folder).values():
        sizes[dtype] += math.prod(shape)
    most = max(sizes, key=lambda name: sizes[name], default="")
    return {"F64": "float64", "F32": "float32", "BF16": "bfloat16", "F16": "float16"}.get(most, "")


def _intermediate(config: Any) -> int:
    """The width that one token goes through: of so many experts as it is sent to, and shared ones.

    Mixtral (arXiv 2401.04088, section 2.1) names them `num_experts_per_tok`; GPT-2's default is
    four times the hidden width.
    """
    dense = getattr(config, "intermediate_size", None) or getattr(config, "n_inner", None)
    each = getattr(config, "moe_intermediate_size", None)
    experts = getattr(config, "num_experts_per_tok", None)
    if not experts:
        return int(dense or 4 * config.hidden_size)
    shared = getattr(config, "shared_expert_intermediate_size", None) or 0
    return int(experts * (each or dense) + shared)
