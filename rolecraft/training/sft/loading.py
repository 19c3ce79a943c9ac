"""What is trained: the base model, in the precision the device has, and the adapter on it.

An adapter that is gone on from is checked against the base's files before any weight is loaded.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rolecraft.errors import AdapterError, MissingExtra, ModelError, UsageError
from rolecraft.models._base_names import compare_bases
from rolecraft.models.adapter_files import CONFIG, base_shapes, check_fits, read_adapter
from rolecraft.models.model_folder import check_folder
from rolecraft.models.torch_extra import (
    no_progress_bars,
    no_renaming_warnings,
    torch,
    transformers,
)
from rolecraft.training.ranks import local_rank
from rolecraft.training.sft.libraries import peft
from rolecraft.training.sft.settings import ALPHA, DROPOUT, RANK, TARGETS, SFTSettings

Warn = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Device:
    """What is computed with, and how."""

    name: str
    """`cuda` or `cpu`."""
    bf16: bool
    attention: str


def choose_device(settings: SFTSettings) -> Device:
    """The device, precision and attention for `settings`. Raises `UsageError` for what it lacks."""
    cuda = torch.cuda.is_available()
    has_bf16 = cuda and torch.cuda.is_bf16_supported()
    bf16 = has_bf16 if settings.precision == "auto" else settings.precision == "bf16"
    flash = cuda and bf16 and find_spec("flash_attn") is not None
    attention: str = settings.attention
    if attention == "auto":
        attention = "flash_attention_2" if flash else "sdpa"
    elif attention == "flash_attention_2" and not flash:
        lacks = (
            "there is no CUDA device"
            if not cuda
            else "the package `flash_attn` is not installed"
            if find_spec("flash_attn") is None
            else "it computes in bf16 only"
        )
        raise UsageError(f"`attention='flash_attention_2'`, and {lacks}. Use 'auto' or 'sdpa'.")
    if settings.quantised and find_spec("bitsandbytes") is None:
        raise MissingExtra("bitsandbytes", "quantised", f"`method={settings.method!r}`")
    return Device("cuda" if cuda else "cpu", bf16, attention)


def check_adapter(settings: SFTSettings, model: str | Path) -> None:
    """Raise `AdapterError` or `UsageError` if `settings.adapter` cannot be gone on from.

    It must belong to the base `model`, and keep its rank and alpha.

    Only the adapter and the headers of the base's files are read.
    """
    if settings.adapter is None:
        return
    folder = Path(settings.adapter)
    files = read_adapter(folder)
    if settings.rank is not None and settings.rank != files.rank:
        raise UsageError(
            f"The adapter `{folder}` has rank {files.rank}, and `rank` is {settings.rank}. A rank "
            f"cannot be changed by training: leave `rank` out, or begin a fresh adapter."
        )
    alpha = json.loads((folder / CONFIG).read_text("utf-8")).get("lora_alpha")
    if settings.alpha is not None and settings.alpha != alpha:
        raise UsageError(
            f"The adapter `{folder}` has alpha {alpha}, and `alpha` is {settings.alpha}. It would "
            f"change what the adapter does: leave `alpha` out."
        )
    names = [settings.model, str(model)]
    if files.base and compare_bases(files.base, names) == "another":
        raise AdapterError(
            f"The adapter `{folder}` was trained on {files.base!r}, and the base model here is "
            f"{settings.model!r}. Train on the model it belongs to, or begin a fresh adapter."
        )
    shapes = base_shapes(Path(model)) if Path(model).is_dir() else None
    if shapes is not None:
        check_fits(folder, files.shapes, shapes)


def load_tokenizer(path: str | Path, warn: Warn) -> Any:
    """The tokenizer of a base model, with a token to pad with.

    One without a pad token is padded with its end token, which changes nothing: what is padded is
    neither attended to nor trained on. Raises `ModelError` if there is none to load.
    """
    check_folder(path)
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(path, trust_remote_code=False)
    except Exception as error:  # each of the libraries underneath has errors of its own
        raise ModelError(
            f"`{path}` holds no tokenizer that `transformers` can load: {str(error).rstrip('. ')}. "
            f"Check the path; the tokenizer's files belong beside the weights."
        ) from error
    if tokenizer.pad_token_id is None:
        if tokenizer.eos_token is None:
            raise UsageError(
                f"The tokenizer of `{path}` has neither a pad token nor an end token. Set one "
                f"(`tokenizer.pad_token = ...`) and save the tokenizer beside the weights."
            )
        tokenizer.pad_token = tokenizer.eos_token
        warn(
            f"The tokenizer of `{path}` has no pad token; its end token {tokenizer.eos_token!r} "
            f"is used, which is not trained on where it pads."
        )
    return tokenizer


def load_model(settings: SFTSettings, device: Device, path: str | Path) -> Any:
    """The base model, frozen or not as it came, on its device.

    Weights that stay frozen are in bf16 where it computes in bf16; weights that are trained are in
    float32, since bf16 cannot hold the small changes of an optimiser's step.
    """
    options: dict[str, Any] = {
        "attn_implementation": device.attention,
        "trust_remote_code": False,  # a model is weights: its own programs are not run
    }
    if settings.quantised:
        options["quantization_config"] = _quantisation(settings)
        options["device_map"] = _place(device)
    half = device.bf16 and settings.method != "full"
    options["dtype"] = torch.bfloat16 if half else torch.float32
    try:
        with no_progress_bars():
            model = transformers.AutoModelForCausalLM.from_pretrained(path, **options)
    except Exception as error:  # each of the libraries underneath has errors of its own
        raise ModelError(
            f"`{path}` holds no model that `transformers` can load: {str(error).rstrip('. ')}. "
            f"Check the path; files that are cut off or damaged must be fetched or saved again."
        ) from error
    if settings.quantised:
        return peft.prepare_model_for_kbit_training(
            model, use_gradient_checkpointing=settings.gradient_checkpointing
        )
    return model


def with_adapter(settings: SFTSettings, model: Any) -> Any:
    """`model` with what is trained: a fresh adapter, one that is gone on from, or all of it."""
    if settings.method == "full":
        return model
    if settings.adapter is not None:
        with no_renaming_warnings():
            wrapped = peft.PeftModel.from_pretrained(model, settings.adapter, is_trainable=True)
        if settings.dropout is not None:
            _set_dropout(wrapped, settings.dropout)
        return wrapped
    rank = settings.rank or RANK
    targets = settings.targets or TARGETS
    config = peft.LoraConfig(
        r=rank,
        lora_alpha=settings.alpha or (ALPHA if settings.rank is None else 2 * rank),
        lora_dropout=DROPOUT if settings.dropout is None else settings.dropout,
        target_modules="all-linear" if targets == TARGETS else list(targets),
        task_type="CAUSAL_LM",
    )
    try:
        with torch.random.fork_rng(), no_renaming_warnings():
            torch.manual_seed(settings.seed)
            return peft.get_peft_model(model, config)
    except ValueError as error:
        kinds = sorted(
            {
                name.rpartition(".")[2]
                for name, module in model.named_modules()
                if isinstance(module, torch.nn.Linear)
            }
        )
        raise UsageError(
            f"`targets` {list(targets)} cannot be adapted: {str(error).rstrip('. ')}. The base "
            f"model has these linear layers: {', '.join(f'`{kind}`' for kind in kinds)}."
        ) from error


def _set_dropout(model: Any, rate: float) -> None:
    """Give another dropout to an adapter that is gone on from, which says its own otherwise."""
    model.peft_config["default"].lora_dropout = rate
    for module in model.modules():
        if isinstance(module, peft.tuners.lora.LoraLayer):
            module.lora_dropout["default"] = (
                torch.nn.Dropout(p=rate) if rate else torch.nn.Identity()
            )


def _place(device: Device) -> dict[str, int] | None:
    """Where a quantised model is loaded to: it cannot be moved afterwards.

    torch's current device is the first one still, in each of a distributed run's processes.
    """
    return {"": local_rank()} if device.name == "cuda" else None


def _quantisation(settings: SFTSettings) -> Any:
    config: Any = transformers.BitsAndBytesConfig
    if settings.method == "qlora-8":
        return config(load_in_8bit=True)
    return config(  # arXiv 2305.14314, section 3
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )


def name_base(folder: Path, name: str) -> None:
    """Let the adapter in `folder` say that its base is called `name`.

    peft writes the path that the base was loaded from, which for a model of the hub is a folder of
    this machine's cache.
    """
    path = folder / CONFIG
    if path.is_file():
        config = json.loads(path.read_text("utf-8"))
        config["base_model_name_or_path"] = name
        path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", "utf-8")
