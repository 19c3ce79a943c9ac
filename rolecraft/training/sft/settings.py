"""The settings of a supervised fine-tuning, checked when they are made.

Invariant: settings that exist can be trained with, as far as that is known without looking at the
model, the data or the machine. They are written beside what they made (`settings.json`), and a run
that is resumed goes on with the same ones.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

from rolecraft.errors import UnknownName, UsageError
from rolecraft.trajectories.whole_file import write_whole

Method = Literal[
    "lora",  # low-rank matrices beside frozen weights (arXiv 2106.09685)
    "qlora-4",  # the same, the frozen weights in 4 bits, NF4 (arXiv 2305.14314)
    "qlora-8",  # the same, the frozen weights in 8 bits (arXiv 2208.07339)
    "full",  # all weights
]
Precision = Literal[
    "auto",  # bf16 where the device computes in it, else fp32
    "bf16",
    "fp32",
]
Attention = Literal[
    "auto",  # FlashAttention where it is installed and the device runs it, else SDPA
    "flash_attention_2",
    "sdpa",
    "eager",
]

Overlong = Literal[
    "leave-out",  # and count it
    "truncate",  # keep the beginning, if anything in it is trained
    "split",  # divide a conversation at turns of the user; what is still too long is left out
]

SETTINGS = "settings.json"
"""In the folder of a run."""

RANK, ALPHA, DROPOUT, TARGETS = 16, 32, 0.05, ("all-linear",)
"""Of a fresh adapter. Alpha is twice the rank, a usual choice; every linear layer is adapted and
the dropout is 0.05, both as in QLoRA (arXiv 2305.14314, section 4 and appendix B.2)."""

FRESH_RATE, CONTINUED_RATE, FULL_RATE = 2e-4, 1e-5, 1e-5
"""Peak learning rates: of a fresh adapter that of QLoRA (arXiv 2305.14314, table 9); of weights
that were trained before, that of the HuatuoGPT run this command was made after."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SFTSettings:
    """How to fine-tune. Raises `UsageError` for what cannot be meant.

    Defaults without another source are those of the HuatuoGPT run: batches of 4 accumulated to 16
    samples, 2 epochs, 5 % linear warm-up and cosine decay, an evaluation every 200 steps, the last
    5 checkpoints.
    """

    model: str
    """Folder of the base model, or its name on the hub."""
    revision: str | None = None
    """Of a model on the hub: a branch, tag or commit; None: `main`."""
    commit: str | None = None
    """What that was when the run began, which notes it here: a resumed run gets the same one."""
    data: tuple[str, ...]
    """Files, folders or names on the hub."""
    output: Path
    """Folder for all that the run makes."""
    adapter: str | None = None
    """Folder of an adapter to go on from; its rank, alpha and targets are kept."""
    roles: tuple[str, ...] = ()
    """One adapter for each of these roles, trained on its turns; none: one, of all there is."""
    split: str | None = None
    """Of data that has splits, this one; None: that of training."""
    min_reward: float | None = None
    """Of recorded runs only those with at least this reward."""
    without_failures: tuple[str, ...] = ()
    """No recorded runs in which one of these modes was found; `any` for all modes."""
    stop_reasons: tuple[str, ...] = ()
    """Of recorded runs only those that stopped for one of these reasons."""
    skip_broken: bool = False
    """Leave out rows that are no samples, and count them, rather than refuse the data."""
    overlong: Overlong = "leave-out"
    template: str | None = None
    """File with a chat template (Jinja), instead of the tokenizer's own."""
    template_settings: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of the chat template, such as `{"enable_thinking": False}`."""
    method: Method = "lora"
    rank: int | None = None
    """None: that of `adapter`, else 16."""
    alpha: int | None = None
    """None: that of `adapter`, else 32, or twice a rank that is given."""
    dropout: float | None = None
    """None: that of `adapter`, else 0.05."""
    targets: tuple[str, ...] | None = None
    """Names of modules to adapt, or `all-linear`. None: those of `adapter`, else `all-linear`."""
    precision: Precision = "auto"
    attention: Attention = "auto"
    batch: int = 4
    """Samples at once on each device."""
    accumulate: int = 4
    """Batches to each step of the optimiser."""
    auto_batch: bool = False
    """Halve the batch when memory runs out; a step sees as many samples as before."""
    gradient_checkpointing: bool = True
    """Compute activations twice rather than keep them: less memory, about 20 % more time."""
    packing: bool = False
    """Fill rows of `max_length` tokens with several samples each, which do not see each other."""
    max_length: int = 1024
    """Longest sample in tokens. TRL's default."""
    epochs: float = 2.0
    max_steps: int | None = None
    """Steps of the optimiser, instead of `epochs`."""
    rate: float | None = None
    """Peak learning rate. None: 2e-4 for a fresh adapter, 1e-5 to go on with one or for all
    weights."""
    warm_up: float = 0.05
    """Share of the steps in which the rate rises linearly; afterwards it falls as a cosine to 0."""
    weight_decay: float = 0.0
    """AdamW's. Low rank is regularisation enough: none, as in QLoRA."""
    clip: float = 1.0
    """Largest norm of a step's gradient. transformers' default; 0 for no limit."""
    eval_share: float = 0.01
    """Share of the samples that is kept for evaluation."""
    eval_steps: int = 200
    save_steps: int = 200
    """What a kill costs at most. The HuatuoGPT run saved every 1000."""
    keep: int = 5
    """Checkpoints to keep; the best one is kept besides."""
    patience: int | None = None
    """Stop after so many evaluations without a better loss, and keep the best weights. None: never,
    and keep the last ones."""
    log_steps: int = 1
    """Steps to each line of the log."""
    threads: int | None = None
    """CPU threads. None: as many as torch takes."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise UnknownName(f"`{name}`:", str(getattr(self, name)), allowed)
        if not self.model:
            raise UsageError("`model` is empty. Name the folder of the base model.")
        if not self.data:
            raise UsageError("`data` is empty: there is nothing to learn from. Name a file.")
        for name in ("batch", "accumulate", "max_length", "eval_steps", "save_steps", "keep"):
            self._at_least(name, 1)
        for name in ("rank", "alpha", "max_steps", "patience", "log_steps", "threads"):
            self._at_least(name, 1)
        self._at_least("seed", 0)
        self._between("epochs", 0.0, math.inf, open_start=True)
        self._between("rate", 0.0, 1.0, open_start=True)
        self._between("clip", 0.0, math.inf)
        self._between("weight_decay", 0.0, 1.0)
        for name in ("dropout", "warm_up", "eval_share"):
            self._between(name, 0.0, 1.0)
        if len(set(self.roles)) < len(self.roles):
            raise UsageError(f"`roles` names a role twice: {list(self.roles)}.")
        self._check_together()

    def _check_together(self) -> None:
        if self.method == "full":
            given = [n for n in ("rank", "alpha", "dropout", "targets") if getattr(self, n)]
            if given:
                raise UsageError(
                    f"`{given[0]}` is of an adapter, and `method='full'` trains all weights. Leave "
                    f"it out, or use `method='lora'`."
                )
            if self.adapter is not None:
                raise UsageError(
                    "`method='full'` trains all weights, and cannot go on from an adapter. Merge "
                    "it into its base first, and train the merged model."
                )
        if self.adapter is not None and self.targets is not None:
            raise UsageError(
                "`targets` are those of the `adapter` that is gone on from: leave them out."
            )
        if self.targets is not None and not self.targets:
            raise UsageError("`targets` is empty: nothing would be trained. Use ('all-linear',).")
        if self.patience is not None and self.eval_share == 0:
            raise UsageError(
                "`patience` counts evaluations, and `eval_share=0` leaves nothing to evaluate."
            )
        if self.quantised and self.precision == "fp32":
            raise UsageError(
                f"`method={self.method!r}` computes in bf16: `precision='fp32'` contradicts it."
            )

    @property
    def quantised(self) -> bool:
        return self.method in ("qlora-4", "qlora-8")

    @property
    def peak_rate(self) -> float:
        """`rate`, or the default for what is trained."""
        if self.rate is not None:
            return self.rate
        if self.method == "full":
            return FULL_RATE
        return FRESH_RATE if self.adapter is None else CONTINUED_RATE

    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self) | {"output": str(self.output)}

    def save(self, folder: Path) -> None:
        """Write `settings.json`, whole or not at all; not where it says the same already.

        Without it a run cannot be resumed, so no kill and no full disk may cost what is there.
        """
        text = json.dumps(self.record(), indent=2, ensure_ascii=False) + "\n"
        path = folder / SETTINGS
        if path.is_file() and path.read_bytes() == text.encode():
            return
        write_whole(path, text)

    @classmethod
    def load(cls, folder: Path) -> SFTSettings:
        """Those that `folder` was made with. Raises `UsageError` if it has none, or broken ones."""
        path = folder / SETTINGS
        try:
            record = json.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            raise UsageError(
                f"`{folder}` has no `{SETTINGS}`: no fine-tuning was begun there. Check the path."
            ) from None
        except (OSError, ValueError) as error:
            raise UsageError(f"`{path}` cannot be read: {error}.") from error
        return cls.of_record(record)

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> SFTSettings:
        """The inverse of `record`. Raises `UsageError` for a name that is no setting."""
        known = [each.name for each in fields(cls)]
        for name in record:
            if name not in known:
                raise UnknownName("Setting", name, known)
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in record.items()
        }
        values["output"] = Path(values.get("output", ""))
        return cls(**values)

    def _at_least(self, name: str, least: int) -> None:
        value = getattr(self, name)
        if value is None:
            return
        if type(value) is not int or value < least:
            raise UsageError(f"`{name}` is {value!r}; it wants a whole number from {least}.")

    def _between(self, name: str, least: float, most: float, *, open_start: bool = False) -> None:
        value = getattr(self, name)
        if value is None:
            return
        good = isinstance(value, int | float) and math.isfinite(value) and least <= value < most
        if not good or (open_start and value == least):
            above = "above" if open_start else "from"
            below = "" if most == math.inf else f" and below {most:g}"
            raise UsageError(f"`{name}` is {value!r}; it wants a number {above} {least:g}{below}.")


_CHOICES: dict[str, tuple[str, ...]] = {
    "method": get_args(Method),
    "precision": get_args(Precision),
    "attention": get_args(Attention),
    "overlong": get_args(Overlong),
}
