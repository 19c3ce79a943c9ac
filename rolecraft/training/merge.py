"""An adapter merged into its base: a model folder of its own, proved to say what they said.

Invariant: the folder is there whole, with logits compared to those of base and adapter, or it is
not there. The product of the adapter's matrices is added in float32 and rounded once, to the number
format that each of the base's tensors is stored in.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rolecraft.errors import AdapterError, MissingExtra, ModelError, UsageError
from rolecraft.models._base_names import compare_bases
from rolecraft.models.adapter_files import base_shapes, check_fits, read_adapter
from rolecraft.models.model_folder import check_folder
from rolecraft.models.torch_extra import no_progress_bars, no_renaming_warnings, torch, transformers
from rolecraft.training.merged_folder import (
    Format,
    base_config,
    check_room,
    made_whole,
    one_format,
    part_of,
    remove_left_over,
    round_weights,
    stored_formats,
    write_model,
)
from rolecraft.training.model_card import Run, write_card

PROMPTS = (
    "What is the capital of France, and how do you know?",
    "def median(values: list[float]) -> float:\n",
    "Plan the work of three people who have one day to find out why a program loses data.",
    "问:感冒了应该吃什么药?答:",
)
"""What logits are compared on, unless other texts are given: through the chat template if there is
one."""

TOLERANCE: dict[str, float] = {"float32": 1e-4, "bfloat16": 0.1, "float16": 0.02}
"""How far a logit may move, as a share of the largest logit, or of the largest change that the
adapter makes to one, if that is more. Adding in another order moves it by
some 1e-6; storing every weight in 8 bits of mantissa (bfloat16) by some 1e-2, in 11 (float16) by
an eighth of that. Ten times as much means that something else went wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What a merge made, and how close it comes. Differences are of logits."""

    folder: Path
    base: str
    adapter: str
    dtype: str
    """Of the weights; `mixed` where the base's tensors have several."""
    prompts: int
    tokens: int
    largest: float
    """Merged and stored against base with adapter, in float32: the largest difference."""
    mean: float
    tolerance: float
    """What `largest` may be at most."""
    effect: float
    """The largest difference that the adapter makes to the base: what `largest` is small against,
    or the format is too coarse for what was learnt."""

    @property
    def lost(self) -> bool:
        """Whether rounding moves logits as much as the adapter does."""
        return self.effect > 0 and self.largest >= self.effect

    def record(self) -> dict[str, Any]:
        return {**asdict(self), "folder": str(self.folder)}


def merge(
    adapter: str | Path,
    out: str | Path,
    *,
    base: str | Path | None = None,
    dtype: Format | None = None,
    prompts: Sequence[str] = PROMPTS,
    tolerance: float | None = None,
    also_known_as: Sequence[str] = (),
    command: Sequence[str] = (),
    fetch: Callable[[str], Path] | None = None,
) -> Merged:
    """Merge the LoRA adapter in `adapter` into its base, and write the model to `out`.

    `base` is the folder of the base model (default: the one that the adapter names),
    `also_known_as` further names of it; `dtype` the number format of the weights (default: each as
    the base has it). `tolerance` is a share of the largest logit (default: `TOLERANCE`). `command`
    is what the model card calls the command that did this, and `fetch` brings a base that is no
    folder from a hub (default: transformers does). Tokenizer and chat template are the
    adapter's where it has them, else the base's. Needs peft, and 4 bytes of memory a parameter.

    Raises `AdapterError` for an adapter that is damaged or of another base, and where the merged
    model says something else; `ModelError` for a base that cannot be loaded; `UsageError` for a
    folder in use and a disk without room.
    """
    adapter, out = Path(adapter), Path(out)
    if dtype is not None and dtype not in TOLERANCE:
        raise UsageError(f"`dtype` is {dtype!r}; it is one of {list(TOLERANCE)}.")
    if not prompts:
        raise UsageError("`prompts` is empty: there is nothing to compare logits on.")
    if os.path.lexists(out) and not (out.is_dir() and not any(out.iterdir())):
        raise UsageError(f"`{out}` is there already. Name another folder.")
    source = _checked_base(adapter, base, also_known_as, fetch)
    formats = stored_formats(source, dtype)
    remove_left_over(out)
    check_room(out, source, dtype)
    tokenizer = _tokenizer(adapter, source)
    rows = [_ids(tokenizer, prompt) for prompt in prompts]

    model, plain, wanted = _merge(source, adapter, rows)
    round_weights(model, formats, default=dtype)
    part = out.parent / f"{part_of(out)}{os.getpid()}"
    with made_whole(part, out):
        write_model(model, tokenizer, part, source, dtype)
        del model  # what was written is loaded next
        found = _logits(_load(part), rows)
        kind = dtype or one_format(formats)
        share = TOLERANCE.get(kind, TOLERANCE["bfloat16"]) if tolerance is None else tolerance
        largest = max(_gap(a, b) for a, b in zip(found, wanted, strict=True))
        count = sum(each.numel() for each in wanted)
        total = sum((a - b).abs().sum().item() for a, b in zip(found, wanted, strict=True))
        effect = max(_gap(a, b) for a, b in zip(plain, wanted, strict=True))
        span = max(effect, *(each.abs().max().item() for each in wanted))
        merged = Merged(
            folder=out,
            base=str(base or read_adapter(adapter).base),
            adapter=str(adapter),
            dtype=kind,
            prompts=len(rows),
            tokens=sum(map(len, rows)),
            largest=largest,
            mean=total / count,
            tolerance=share * span,
            effect=effect,
        )
        if not merged.largest <= merged.tolerance:
            raise AdapterError(
                f"The merged model does not say what base and adapter say: its logits differ by up "
                f"to {merged.largest:.3g}, and {merged.tolerance:.3g} is allowed for {kind} (the "
                f"adapter itself changes them by up to {merged.effect:.3g}). Nothing was written. "
                f"Use `dtype='float32'` (`--dtype float32`), or serve base and adapter as they are."
            )
        figures = {k: v for k, v in merged.record().items() if k not in ("folder", "base")}
        run = Run.read(adapter)
        write_card(
            part,
            base=merged.base,
            adapter=str(adapter),
            run=run,
            merged=figures,
            made_by=command,
            name=out.resolve().name,
        )
        if out.is_dir():
            out.rmdir()  # empty: see above
        part.rename(out)
    return merged


def _checked_base(
    adapter: Path,
    base: str | Path | None,
    also_known_as: Sequence[str],
    fetch: Callable[[str], Path] | None,
) -> str | Path:
    """Where the base is, once adapter and base are known to fit. No weight is loaded."""
    files = read_adapter(adapter)
    if base is None and not files.base:
        raise UsageError(f"The adapter `{adapter}` does not say what its base is: give `base`.")
    source = base if base is not None else files.base
    check_folder(source)
    names = [str(source), *also_known_as]
    if files.base and compare_bases(files.base, names) == "another":
        raise AdapterError(
            f"The adapter `{adapter}` was trained on {files.base!r}, and `base` is "
            f"{str(source)!r}. Name the model it was trained on; if the two are the same, say so: "
            f"`also_known_as=({files.base!r},)`, or `--also-known-as {files.base}`."
        )
    if fetch is not None and not Path(source).is_dir():
        source = fetch(str(source))
    if Path(source).is_dir():
        if base_config(Path(source)).get("quantization_config"):
            raise UsageError(
                f"`{source}` holds quantised weights, into which nothing can be merged. Give the "
                f"model it was made from as `base`."
            )
        shapes = base_shapes(Path(source))
        if shapes is not None:
            check_fits(adapter, files.shapes, shapes)
    return source


def _tokenizer(adapter: Path, source: str | Path) -> Any:
    """The one that the adapter was trained with, chat template and all; else the base's."""
    own = (adapter / "tokenizer_config.json").is_file()
    folder = adapter if own else source
    try:
        return transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # each of the libraries underneath has errors of its own
        raise ModelError(
            f"`{folder}` holds no tokenizer that `transformers` can load: "
            f"{str(error).rstrip('. ')}. Save the tokenizer beside the weights."
        ) from error


def _ids(tokenizer: Any, prompt: str) -> list[int]:
    text = prompt
    if tokenizer.chat_template:
        message = [{"role": "user", "content": prompt}]
        text = tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
    ids: list[int] = tokenizer(text, add_special_tokens=text == prompt)["input_ids"]
    if not ids:
        raise UsageError(f"The prompt {prompt!r} has no token in this tokenizer. Give another.")
    return ids


def _merge(source: str | Path, adapter: Path, rows: Sequence[list[int]]) -> tuple[Any, Any, Any]:
    """The merged model in float32; the logits of the base alone, and with the adapter."""
    try:
        import peft
    except ImportError as error:
        raise MissingExtra("peft", "local", "Merging an adapter") from error
    base = _load(source)
    plain = _logits(base, rows)
    try:
        with no_renaming_warnings():
            wrapped = peft.PeftModel.from_pretrained(base, str(adapter), torch_device="cpu")
        wanted = _logits(wrapped.eval(), rows)
        merged = wrapped.merge_and_unload(safe_merge=True)
    except Exception as error:  # peft's own checks, and torch's of shapes
        raise AdapterError(
            f"peft cannot merge the adapter `{adapter}` into `{source}`: {error}"
        ) from error
    return merged, plain, wanted


def _load(source: str | Path) -> Any:
    try:
        with no_progress_bars():
            model: Any = transformers.AutoModelForCausalLM.from_pretrained(
                source, dtype=torch.float32, trust_remote_code=False
            )
    except Exception as error:  # each of the libraries underneath has errors of its own
        raise ModelError(
            f"`{source}` holds no model that `transformers` can load: {str(error).rstrip('. ')}. "
            f"Check the path; files that are cut off or damaged must be fetched or saved again."
        ) from error
    return model.eval()


def _logits(model: Any, rows: Sequence[list[int]]) -> list[Any]:
    """One tensor of tokens x vocabulary a prompt, in float32."""
    with torch.inference_mode():
        return [
            model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float() for ids in rows
        ]


def _gap(one: Any, other: Any) -> float:
    gap: float = (one - other).abs().max().item()
    return gap
