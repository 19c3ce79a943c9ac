"""A learned reward as a folder: `reward.json`, and the weights that it names.

Invariant: `reward.json` always names weights that are whole. They are written first, under a name
of their own; the file that names them takes the place of the earlier one in one step, and only
then are older weights removed. The same reward gives the same bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any

from rolecraft.errors import RolecraftError, UsageError
from rolecraft.rewards.learned.directions import Direction
from rolecraft.rewards.learned.embedding import Embedding, HashingEmbedding
from rolecraft.rewards.learned.learned_reward import LearnedReward
from rolecraft.rewards.learned.net import NetSettings, prior
from rolecraft.rewards.learned.observation import Statistics
from rolecraft.trajectories.whole_file import write_whole

VERSION = 1
REWARD = "reward.json"
_FORMAT = "rolecraft learned reward"
_SHAPE = ("goal_size", "members", "hidden", "residual", "limit", "seed")


class LearnedRewardError(RolecraftError):
    """The folder of a learned reward cannot be read or written. Attributes: `path`, `reason`."""

    def __init__(self, path: Path | str, reason: str) -> None:
        self.path, self.reason = str(path), reason
        super().__init__(f"`{path}`: {reason}")


def save_learned(reward: LearnedReward, folder: Path | str) -> Path:
    """Write a reward into a folder, in the place of an earlier one. Raises `LearnedRewardError`."""
    from safetensors.torch import save

    folder = Path(folder)
    weights = save({name: each.contiguous() for name, each in sorted(reward.weights.items())})
    digest = hashlib.sha256(weights).hexdigest()
    file = f"weights-{digest[:12]}.safetensors"
    record = {
        "format": _FORMAT,
        "version": VERSION,
        "fits": reward.fits,
        "goal": reward.goal,
        "signals": [
            {
                "name": each.name,
                "better": each.better,
                "mean": reward.statistics[each.name].mean,
                "std": reward.statistics[each.name].std,
                "runs": reward.statistics[each.name].runs,
            }
            for each in reward.settings.directions
        ],
        "net": {name: getattr(reward.settings, name) for name in _SHAPE},
        "embedding": reward.embedding.name,
        "goals": {}
        if isinstance(reward.embedding, HashingEmbedding)
        else {goal: list(vector) for goal, vector in sorted(reward.goals.items())},
        "weights": {"file": file, "sha256": digest},
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / file, weights)
        write_whole(folder / REWARD, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
        for old in folder.glob("weights-*.safetensors"):
            if old.name != file:
                with contextlib.suppress(FileNotFoundError):
                    old.unlink()
    except OSError as error:
        raise LearnedRewardError(
            folder, f"the reward cannot be written: {error.strerror or error}."
        ) from error
    return folder


def load_learned(folder: Path | str, *, embedding: Embedding | None = None) -> LearnedReward:
    """The reward of a folder that `save_learned` wrote, or of a folder of feedback.

    Give `embedding` if it is one of your own; without it the reward knows only the goals that it
    has seen. Raises `LearnedRewardError` for what is missing or damaged, and `UsageError` for
    another embedding than it was fitted with.
    """
    folder = Path(folder)
    if not (folder / REWARD).exists() and (folder / "reward" / REWARD).exists():
        folder = folder / "reward"
    try:
        record = json.loads((folder / REWARD).read_text("utf-8"))
        if record["format"] != _FORMAT:
            raise LearnedRewardError(folder, f"`{REWARD}` is of no learned reward.")
        if record["version"] > VERSION:
            raise LearnedRewardError(
                folder,
                f"it has version {record['version']}, and this Rolecraft reads up to {VERSION}. "
                f"Use a newer Rolecraft.",
            )
        return _of_record(folder, record, embedding)
    except FileNotFoundError as error:
        name = Path(str(error.filename)).name
        raise LearnedRewardError(
            folder, f"there is no `{name}`. `rolecraft feedback --fit` makes a reward."
        ) from None
    except OSError as error:
        raise LearnedRewardError(folder, f"it cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise LearnedRewardError(folder, f"`{REWARD}` is damaged: {error!r}.") from error


def _of_record(folder: Path, record: dict[str, Any], embedding: Embedding | None) -> LearnedReward:
    from safetensors.torch import load

    data = (folder / record["weights"]["file"]).read_bytes()
    if hashlib.sha256(data).hexdigest() != record["weights"]["sha256"]:
        raise LearnedRewardError(
            folder, f"`{record['weights']['file']}` has other bytes than were written."
        )
    signals = record["signals"]
    settings = NetSettings(
        tuple(Direction(each["name"], each["better"]) for each in signals),
        **{name: record["net"][name] for name in _SHAPE},
    )
    weights = load(data)
    wanted = {name: each.shape for name, each in prior(settings).items()}
    if {name: each.shape for name, each in weights.items()} != wanted:
        raise LearnedRewardError(folder, "its weights have other shapes than its settings say.")
    return LearnedReward(
        settings,
        {each["name"]: Statistics(each["mean"], each["std"], each["runs"]) for each in signals},
        _embedding(folder, record["embedding"], settings.goal_size, embedding),
        {name: weights[name] for name in wanted},
        record["goal"],
        record["fits"],
        {goal: tuple(vector) for goal, vector in record["goals"].items()},
    )


def _embedding(folder: Path, name: str, size: int, given: Embedding | None) -> Embedding:
    if given is not None:
        if (given.name, given.size) != (name, size):
            raise UsageError(
                f"The reward of `{folder}` embeds goals with `{name}` ({size} numbers); given is "
                f"`{given.name}` ({given.size})."
            )
        return given
    hashing = HashingEmbedding(size)
    return hashing if hashing.name == name else _Elsewhere(folder, name, size)


class _Elsewhere:
    """Stands for an embedding that was not given; only goals that were seen are known."""

    def __init__(self, folder: Path, name: str, size: int) -> None:
        self.folder, self.name, self.size = folder, name, size

    def __call__(self, text: str) -> list[float]:
        raise UsageError(
            f"The reward of `{self.folder}` has not seen the goal {text!r}, and embeds goals with "
            f"`{self.name}`. Give it: `load_learned(folder, embedding=...)`."
        )
