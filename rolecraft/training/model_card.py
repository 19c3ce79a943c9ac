"""The model card of what a training made: `README.md` in its folder, as hubs show it.

It says what somebody needs who finds the folder later: the base, the data by content, the settings,
what came of it, and the command that does it again. Nothing in it is from memory: all is read from
the files that the run wrote.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import join
from typing import Any

from rolecraft.training.rl.records import ADAPTERS, CURVE, StepRecord, finite_mean
from rolecraft.training.same_settings import KIND, words

CARD = "README.md"
SETTINGS, SUMMARY, DATA = "settings.json", "summary.json", "data.json"
"""What a fine-tuning writes: in its folder, the settings perhaps in the one above. Reinforcement
learning writes settings and curve two above the adapters it serves (`DIR/adapters/ROLE`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What the files of a training say of it; empty where there are none."""

    settings: Mapping[str, Any]
    summary: Mapping[str, Any]
    data: Mapping[str, Any]

    @classmethod
    def read(cls, folder: str | Path) -> Run:
        """Of the run that made `folder`. Files that are missing or broken say nothing."""
        folder = Path(folder).absolute()
        places = [folder, folder.parent]
        if folder.parent.name == ADAPTERS:
            places.append(folder.parent.parent)
        settings: dict[str, Any] = {}
        summary = _json(folder / SUMMARY)
        for place in places:
            settings = settings or _json(place / SETTINGS)
            summary = summary or _learnt(place / CURVE)
        return cls(settings=settings, summary=summary, data=_json(folder / DATA))

    @property
    def kind(self) -> tuple[str, ...]:
        """What hubs tag such a model with."""
        if "algorithm" in self.settings:
            return ("reinforcement-learning",)
        return ("sft",) if self.settings else ()


def write_card(
    folder: str | Path,
    *,
    base: str,
    made_by: Sequence[str] = (),
    adapter: str = "",
    run: Run | None = None,
    merged: Mapping[str, Any] | None = None,
    name: str = "",
) -> Path:
    """Write `README.md` into `folder`, over one that is there; its path.

    `base` is the base model's name or path, `made_by` the command line (a list, program first),
    `adapter` the folder of the adapter that was merged in, `run` what trained it (default: what
    `folder` holds), `merged` the figures of the merge, and `name` the title (default: the
    folder's). Raises `OSError`.
    """
    folder = Path(folder)
    run = Run.read(folder) if run is None else run
    what = "A model with an adapter merged into it" if adapter else "A fine-tuned model"
    if (folder / "adapter_config.json").is_file():
        what = "A LoRA adapter"
    lines = [
        *_front(base, run.kind, is_adapter=what == "A LoRA adapter"),
        f"# {name or folder.resolve().name}",
        "",
        f"{what}, made with Rolecraft.",
        "",
        f"- Base model: `{base}`",
        *([f"- Adapter: `{adapter}`"] if adapter else []),
        *_part("Data", _data_lines(run)),
        *_part("Settings", _lines({**run.settings, **_of_adapter(Path(adapter or folder))})),
        *_part("Results", _lines(run.summary)),
        *_part("Merge", _lines(merged or {})),
        *_part("Command", ["```sh", join(made_by), "```"] if made_by else []),
        "",
    ]
    path = folder / CARD
    path.write_text("\n".join(lines), "utf-8")
    return path


def digest_of_files(path: str | Path) -> str:
    """SHA-256 of a file; of a folder, over names and contents of the files in it. Empty: no path.

    Raises `OSError` for what is there and cannot be read.
    """
    path = Path(path)
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    if not path.is_dir():
        return ""
    sha = hashlib.sha256()
    for each in sorted(each for each in path.rglob("*") if each.is_file()):
        sha.update(f"{each.relative_to(path).as_posix()}\0{digest_of_files(each)}\n".encode())
    return sha.hexdigest()


def _front(base: str, kind: Sequence[str], *, is_adapter: bool) -> list[str]:
    """What hubs read, in YAML (JSON's texts are YAML's): https://huggingface.co/docs/hub/model-cards"""
    about = {
        "base_model": base,
        "library_name": "peft" if is_adapter else "transformers",
        "pipeline_tag": "text-generation",
        "tags": ["rolecraft", *kind, *(["lora"] if is_adapter else [])],
    }
    return ["---", *(f"{name}: {json.dumps(value)}" for name, value in about.items()), "---", ""]


def _part(title: str, lines: Sequence[str]) -> list[str]:
    return ["", f"## {title}", "", *lines] if lines else []


def _of_adapter(folder: Path) -> dict[str, Any]:
    """What an adapter is, whether it was asked for or is the default; empty for no adapter."""
    config = _json(folder / "adapter_config.json")
    named = {"rank": "r", "alpha": "lora_alpha", "dropout": "lora_dropout"}
    found = {name: config[key] for name, key in named.items() if key in config}
    targets = config.get("target_modules")
    if isinstance(targets, list):
        found["targets"] = sorted({str(target).rpartition(".")[2] for target in targets})
    return found


def _data_lines(run: Run) -> list[str]:
    named = run.settings.get("data") or []
    lines = []
    for name in [named] if isinstance(named, str) else named:
        digest = digest_of_files(name)
        lines.append(f"- `{name}`" + (f" (SHA-256 `{digest}`)" if digest else " (not there now)"))
    report = run.data.get("report")
    known: Mapping[str, Any] = report if isinstance(report, dict) else run.data
    for key in ("sequences", "tokens", "trained_tokens", "eval_sequences", "fingerprint"):
        value = known.get(key, run.data.get(key))
        if value not in (None, "", 0):
            lines.append(f"- {key.replace('_', ' ')}: {_short(value)}")
    return lines


def _lines(values: Mapping[str, Any]) -> list[str]:
    """A line for each value that says something."""
    return [
        f"- {name.replace('_', ' ')}: {_short(value)}"
        for name, value in values.items()
        if value is not None and value not in ([], {}) and name != "data"
    ]


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping) and KIND in value:
        return f"`{words(value)}`"
    return f"`{value}`" if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _learnt(curve: Path) -> dict[str, Any]:
    """What a learning curve comes to: its steps, and the mean reward of the last ones."""
    try:
        lines = [json.loads(line) for line in curve.read_text("utf-8").splitlines()]
        rewards = [StepRecord.of_record(line).reward for line in lines[-10:]]
    except (OSError, ValueError, TypeError):
        return {}
    reward = finite_mean(rewards)
    found = {"steps": len(lines)}
    return found if math.isnan(reward) else {**found, "reward_of_the_last_ten_steps": reward}


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
