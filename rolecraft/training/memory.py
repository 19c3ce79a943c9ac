"""How much memory fine-tuning will take, said before a weight is loaded.

Everything follows from shapes: the model's settings and the headers of its files say what the
weights weigh, and the batch what is kept between forward and backward pass. Two moments can be the
peak: the loss, when all activations are there, and the end of the backward pass, when all
gradients are. The larger one is the estimate; each of its parts is counted by one function here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rolecraft.errors import UsageError
from rolecraft.training.device_memory import GIB, gib
from rolecraft.training.model_sizes import ModelSizes

Method = Literal["lora", "qlora-4", "qlora-8", "full"]
Attention = Literal["sdpa", "eager", "flash_attention_2"]
Format = Literal["float32", "bfloat16", "float16"]
Moment = Literal["the loss", "the backward pass", "the optimiser's step"]

SIZE: Mapping[Format, int] = {"float32": 4, "bfloat16": 2, "float16": 2}
"""Bytes of a number."""

LOSS_TOKENS, LOSS_WORDS = 4096, 32768
"""TRL's loss goes through the logits in tiles of so many tokens and words of the vocabulary
(`trl.kernels.chunked_logprob.TOKEN_CHUNK_SIZE`, `trl.trainer.utils`)."""

LOSS_COPIES = 7
"""Copies of a tile in float32 that live at a time without Triton: in the backward pass of
`trl.kernels.chunked_logprob._backward_tile` two forms of the logits, log-probabilities,
probabilities, their gradient, and two intermediates of the line that adds to it."""

RESERVE_SHARE = 0.05
"""Of all that is counted: what an allocator loses between its blocks, and what is not counted
(norms, rotary embeddings, the batch itself)."""
RESERVE = {"cpu": 16 << 20, "cuda": 512 << 20}
"""Bytes on top: a thread's scratch space; on a GPU the kernels and workspaces of cuBLAS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one training step is asked to do. Raises `UsageError` for what cannot be.

    `batch` are the sequences of a micro-batch, of `length` tokens each (the longest); `accumulate`
    how many micro-batches make a step. `packed`: documents in one row, which attention keeps apart.
    """

    batch: int
    length: int
    accumulate: int = 1
    method: Method = "lora"
    rank: int = 8
    targets: Sequence[str] | Literal["all-linear"] = "all-linear"
    """Modules that get a LoRA matrix, by the last part of their names."""
    dropout: float = 0.0
    """Of LoRA."""
    weights: Format = "float32"
    """What the base's weights are held in; quantised ones by `method`."""
    compute: Format = "float32"
    """What matrices are multiplied in: another than `weights` is autocast."""
    gradient_checkpointing: bool = False
    attention: Attention = "sdpa"
    packed: bool = False
    padded: bool = True
    """Whether sequences of a batch have different lengths, so that attention needs a mask."""
    optimiser_bytes: int = 0
    """Of one trained parameter; 0 stands for AdamW, whose two moments have the weights' format."""
    device: Literal["cpu", "cuda"] = "cpu"

    def __post_init__(self) -> None:
        for name in ("batch", "length", "accumulate", "rank"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise UsageError(f"`{name}` wants a whole number from 1, got {value!r}.")

    @property
    def tokens(self) -> int:
        """Tokens of a micro-batch, padding included."""
        return self.batch * self.length


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The memory that a step takes at its peak, part by part, in bytes."""

    parts: Mapping[str, int]
    """weights, gradients, optimiser, activations, logits, reserve."""
    moment: Moment
    """When the peak is."""
    trained: int
    """Parameters that are trained."""
    step: Step

    @property
    def total(self) -> int:
        return sum(self.parts.values())

    def in_gib(self) -> dict[str, float]:
        """Each part and the total in GiB, for tables and JSON."""
        found = {name: size / GIB for name, size in self.parts.items()}
        return {**found, "total": self.total / GIB}

    def in_words(self) -> str:
        """One line for people."""
        parts = ", ".join(f"{name} {gib(size)}" for name, size in self.parts.items() if size)
        return f"about {gib(self.total)} at its peak, in {self.moment}: {parts}"


def estimate(sizes: ModelSizes, step: Step) -> Estimate:
    """The peak of a run: the moment of a step that takes most, part by part."""
    trained = trained_parameters(sizes, step)
    weights = weight_bytes(sizes, step)
    gradients = trained * _trained_size(step)
    # Kept from one micro-batch to the next; with a single one they begin at nothing each time.
    kept = gradients if step.accumulate > 1 else 0
    optimiser = trained * (step.optimiser_bytes or 2 * _trained_size(step))
    layer = layer_bytes(sizes, step)
    if step.gradient_checkpointing:
        # The input of each layer; the rest of one layer at a time is computed again.
        inputs = step.tokens * sizes.hidden * _stream(step)
        activations = sizes.layers * inputs
        again = layer - inputs + backward_bytes(sizes, step)
    else:
        activations = sizes.layers * layer
        again = backward_bytes(sizes, step)
    activations += mask_bytes(step) + 3 * step.tokens * sizes.hidden * 4  # the last norm, the head
    loss, of_the_head = loss_bytes(sizes, step)
    moments: dict[Moment, tuple[int, int, int]] = {  # gradients, activations, logits
        "the loss": (max(kept, of_the_head), activations, loss),
        "the backward pass": (max(kept, of_the_head), activations + again, 0),
        "the optimiser's step": (gradients, 0 if not step.gradient_checkpointing else again, 0),
    }
    moment = max(moments, key=lambda name: sum(moments[name]))
    now, activations, logits = moments[moment]
    parts = {
        "weights": weights,
        "gradients": now,
        "optimiser": optimiser,
        "activations": activations,
        "logits": logits,
    }
    parts["reserve"] = int(RESERVE_SHARE * sum(parts.values())) + RESERVE[step.device]
    return Estimate(parts=parts, moment=moment, trained=trained, step=step)


def trained_parameters(sizes: ModelSizes, step: Step) -> int:
    """All of them, or those of LoRA: rank x (width in + width out) for each matrix that gets one
    (Hu et al., arXiv 2106.09685, section 4.1).
    """
    if step.method == "full":
        return sizes.parameters
    return sum(
        step.rank * (shape[0] + shape[1])
        for name, shape in sizes.matrices.items()
        if len(shape) == 2 and _targeted(name, step)
    )


def weight_bytes(sizes: ModelSizes, step: Step) -> int:
    """The weights, LoRA's matrices among them, and what autocast keeps of them.

    4 bits are NF4 with double quantisation: 0.5 bytes and 0.127 bits a number (Dettmers et al.,
    arXiv 2305.14314, section 3). 8 bits are one byte, and a float32 for each row (arXiv 2208.07339,
    section 3). Embeddings, output layer and norms are never quantised, and peft holds them in
    float32 then (`prepare_model_for_kbit_training`). Autocast holds the matrices
    in the format it computes in as well, until the backward pass is over
    (https://docs.pytorch.org/docs/stable/amp.html).
    """
    plain = (sizes.embeddings + sizes.output + sizes.others) * _stream(step)
    if sizes.quantised:
        base = sizes.stored
    elif step.method == "qlora-4":
        base = int(sizes.in_matrices * (0.5 + 0.127 / 8)) + plain
    elif step.method == "qlora-8":
        rows = sum(shape[0] for shape in sizes.matrices.values())
        base = sizes.in_matrices + 4 * rows + plain
    else:
        base = sizes.parameters * SIZE[step.weights]
    if step.method != "full":
        base += trained_parameters(sizes, step) * _trained_size(step)
    if step.weights != step.compute:
        # What is trained stays in autocast's cache. A frozen weight is cast for one product, and
        # the backward pass needs that copy: of one layer only, where the others come later again.
        copies = sizes.in_matrices * SIZE[step.compute]
        if step.method == "full":
            base += copies
        elif step.method == "lora":
            base += copies // (sizes.layers if step.gradient_checkpointing else 1)
    return base


def layer_bytes(sizes: ModelSizes, step: Step) -> int:
    """What one decoder layer keeps for its backward pass.

    After Korthikanti et al. (arXiv 2205.05198, section 4.1), who count tensor by tensor for GPT's
    layer; here for transformers' Llama (pre-norm, RMSNorm in float32, rotary positions, SwiGLU),
    for each of N tokens. A frozen matrix keeps no input: nothing asks for its gradient.
    """
    size, stream = SIZE[step.compute], _stream(step)
    full = step.method == "full"
    # Every matrix then has a copy of its input in its own format; LoRA's, by way of theirs.
    cast = size != (stream if full else max(stream, _trained_size(step)))
    norms = 2 * sizes.hidden * (4 + (stream if full else 0))

    def inputs(width: int, *names: str) -> int:
        """What the matrices that read one tensor keep of it."""
        readers = sum(1 for name in names if full or _targeted(name, step))
        if readers and not full and step.dropout > 0:  # each has its own, and what it drops
            noise = size if step.device == "cpu" else 1
            return readers * width * (size + noise)
        return width * size * (readers if cast else min(readers, 1))

    masked = _masked(step)
    keys = sizes.query if masked and step.attention != "flash_attention_2" else sizes.key
    attention = size * (sizes.query + 2 * keys)
    heads_T2 = step.batch * sizes.heads * step.length**2
    squares = 0
    if step.attention == "eager":  # softmax in float32, and its copy in the model's format
        squares = heads_T2 * (4 + (size if size != 4 else 0))
        attention = size * (sizes.query + 2 * sizes.query)
    elif masked and step.attention == "sdpa":  # each layer keeps its own mask of numbers
        squares = _rows(step) * size
    out = 0 if step.attention == "eager" else sizes.query * size + 4 * sizes.heads
    if step.attention == "eager":
        out = inputs(sizes.query, "o_proj")
    feed = sizes.intermediate * size * (3 if sizes.gated else 1)
    per_token = (
        norms
        + inputs(sizes.hidden, "q_proj", "k_proj", "v_proj")
        + attention
        + out
        + inputs(sizes.hidden, *(("gate_proj", "up_proj") if sizes.gated else ("up_proj",)))
        + feed
        + inputs(sizes.intermediate, "down_proj")
    )
    return step.tokens * per_token + squares


def backward_bytes(sizes: ModelSizes, step: Step) -> int:
    """What the backward pass of one layer holds of its own at a time.

    The gradients of two tensors as wide as the feed-forward block (what was kept is let go as they
    come), and those of the residual stream and of a norm's input; with eager attention those of
    the scores before and after softmax, in float32.
    """
    size = SIZE[step.compute]
    held = step.tokens * (2 * sizes.intermediate * size + 3 * sizes.hidden * 4)
    if step.attention == "eager":
        held = max(held, 3 * 4 * step.batch * sizes.heads * step.length**2)
    return held


def loss_bytes(sizes: ModelSizes, step: Step) -> tuple[int, int]:
    """The logits with the copies that the loss makes; and the output layer's gradient then.

    All of them would be tokens x vocabulary x 4 bytes, several times. TRL's loss computes them tile
    by tile and never holds them whole: a tile in the format of computing, on a processor (which
    has no Triton) `LOSS_COPIES` in float32 of it too, and in float32 the gradients of the hidden
    states and, where it is trained, of the output layer.
    """
    size = SIZE[step.compute]
    tokens = min(step.tokens, LOSS_TOKENS)
    tile = tokens * min(sizes.vocabulary, LOSS_WORDS)
    copies = LOSS_COPIES * 4 if step.device == "cpu" else 0
    head = (sizes.output or sizes.embeddings) * 4 if step.method == "full" else 0
    return tile * (size + copies) + 2 * step.tokens * sizes.hidden * 4, head


def mask_bytes(step: Step) -> int:
    """The mask that all layers share: a byte for each pair of tokens of a row."""
    return _rows(step) if _masked(step) and step.attention != "flash_attention_2" else 0


def _masked(step: Step) -> bool:
    return step.packed or (step.padded and step.batch > 1)


def _rows(step: Step) -> int:
    """Pairs of tokens that stand in one row."""
    return step.batch * step.length**2


def _targeted(name: str, step: Step) -> bool:
    return step.targets == "all-linear" or name.rpartition(".")[2] in step.targets


def _trained_size(step: Step) -> int:
    """Bytes of a trained number. peft keeps LoRA's in float32 (`autocast_adapter_dtype`), but TRL
    those of a quantised base in bfloat16, after arXiv 2305.14314.
    """
    if step.method == "full":
        return SIZE[step.weights]
    return 2 if step.method.startswith("qlora") else 4


def _stream(step: Step) -> int:
    """Bytes of a number between layers: embeddings begin it in the weights' format. Those of a
    quantised base are float32: peft's `prepare_model_for_kbit_training`.
    """
    return 4 if step.method.startswith("qlora") else SIZE[step.weights]
