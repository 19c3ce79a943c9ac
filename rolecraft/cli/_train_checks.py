"""What `rolecraft train` looks at before anything is sampled: the doctor's quick checks.

What would poison the training stops it, with the way out; what would not is a warning, the memory
included, which is an estimate.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rolecraft.cli._doctor_table import WORDS
from rolecraft.cli._exits import ExitCode
from rolecraft.cli._output import Output

if TYPE_CHECKING:
    from rolecraft.models.transformers_model import TransformersModel
    from rolecraft.training import AdapterSettings
    from rolecraft.training.doctor import Finding
    from rolecraft.training.rl.config import TrainConfig

_WAY_ON = "Nothing was played. `rolecraft doctor` says more; --no-checks trains all the same."


def tell_memory(
    folder: Path | None, config: TrainConfig, adapters: AdapterSettings | None, output: Output
) -> None:
    """Say whether the memory will do for the model in `folder`, before a weight is loaded.

    None is the scenario's untrained model.
    """
    from rolecraft.errors import ModelError
    from rolecraft.models.torch_extra import torch
    from rolecraft.training import Algorithm
    from rolecraft.training.doctor.finding import skipped
    from rolecraft.training.doctor.throughput import MEMORY, Load, check_memory
    from rolecraft.training.model_sizes import stored_format

    if folder is None:
        found = skipped(MEMORY, "the untrained model is made here, and takes a few MiB.")
    else:
        try:
            found = check_memory(
                folder,
                dtype=stored_format(folder),
                device="cuda" if torch.cuda.is_available() else "cpu",
                algorithm=config.make_algorithm() or Algorithm(),
                load=Load(),
                adapters=adapters,
                loaded=False,
                copies=int(config.asynchronous and adapters is None),
            )
        except ModelError as error:
            found = skipped(MEMORY, str(error))
    _tell(found, output, stops=False)


async def check_model(
    model: TransformersModel, adapters: AdapterSettings | None, output: Output
) -> None:
    """Say how the doctor finds `model`. Raises `SystemExit` where training would be poisoned."""
    from rolecraft.training.doctor import before_training

    found = []
    async for finding in before_training(model, adapters):
        found.append(finding)
        _tell(finding, output, stops=finding.verdict == "fail")
    if any(finding.verdict == "fail" for finding in found):
        for finding in found:
            output.result(finding.to_dict())
        output.warn(_WAY_ON)
        raise SystemExit(ExitCode.GATE)


def _tell(finding: Finding, output: Output, *, stops: bool) -> None:
    """One line; with what to do where something is to be done, and with why where it `stops`."""
    word = WORDS[finding.verdict] if stops or finding.verdict != "fail" else WORDS["warn"]
    measured = finding.value or finding.found.rstrip(".")
    if finding.limit:
        measured += f" (limit: {finding.limit})"
    if finding.verdict in ("ok", "skipped"):
        output.note(f"{word}: {finding.check}: {measured}")
        return
    words = [f"{word}: {finding.check}: {measured}"]
    if finding.value and stops:
        words.append(finding.found.rstrip("."))
    text = ". ".join(words)
    output.warn(f"{text}. {finding.advice}" if finding.advice else f"{text}.")
