"""Credit as settings: what an attempt is worth, and what that is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, Literal, get_args

from rolecraft.errors import UnknownName, UsageError
from rolecraft.training.algorithms.settings import Algorithm
from rolecraft.training.credit.blame import Blame
from rolecraft.training.credit.ema import Ema
from rolecraft.training.credit.groups import GroupKey, group_key
from rolecraft.training.credit.waste import Communication

Worth = Literal["role", "team", "counterfactual"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Credit:
    """How a team's rewards become its members' advantages.

    The defaults give each role its own reward, where the reward function makes one, and compare
    it with the role's other attempts at the same task. `CREDITS` has published ones by name.
    What cannot be meant raises `UsageError` with the reason.
    """

    reward: Worth = "role"
    """What a role's part in an episode is worth: its own reward (`role`; the team's where the
    reward function says nothing of the role), the team's (`team`), or the team's less what it is
    without the role (`counterfactual`)."""
    group: GroupKey | str = "role"
    """Who is compared with whom: a name of `GROUPS`, or a `GroupKey` of your own."""
    baseline: Literal["group", "none"] | Ema = "group"
    """What a reward is compared with: the others of its group, as `Algorithm.advantage` says;
    nothing (`none`: a counterfactual is a comparison already); or the group's running average."""
    whiten: Literal["role"] | None = None
    """`role`: advantages over the standard deviation of their role's in the batch, over actions.
    None: as `Algorithm.whiten` says, over the whole batch or not at all."""
    steps: Mapping[str, float] = field(default_factory=dict)
    """Which part of the reward was earned where: signals with a `step`, by name, and what a unit of
    each is worth. It moves reward to the turn that earned it and adds none."""
    discount: float = 1.0
    """Where turns are compared: what a later turn's reward counts for the one before it. With 1 a
    turn is worth all that follows, with 0 what it earned itself."""
    timeline: Literal["role", "team"] = "role"
    """For `returns` and `gae`: what follows an action. The later actions of its own role, or those
    of the whole team, in the order in which they were chosen (MAPPO, arXiv 2103.01955)."""
    communication: Communication | None = None
    """What wasted turns cost."""
    blame: Blame | None = None
    """Moves advantage to the turns that failures are attributed to."""
    ungraded: float | None = None
    """What a run is worth that the team itself broke off with an error, so that nobody could grade
    it. None: it is left out, and counted."""

    def __post_init__(self) -> None:
        for name, kinds in (
            ("reward", get_args(Worth)),
            ("whiten", ("role", None)),
            ("timeline", ("role", "team")),
        ):
            if getattr(self, name) not in kinds:
                raise UsageError(
                    f"`Credit({name}=...)` is one of {list(kinds)}, got {getattr(self, name)!r}."
                )
        if not isinstance(self.baseline, Ema) and self.baseline not in ("group", "none"):
            raise UsageError(
                f"`Credit(baseline=...)` is 'group', 'none' or an `Ema`, got {self.baseline!r}."
            )
        if not 0 <= self.discount <= 1:
            raise UsageError(
                f"`Credit(discount=...)` wants a number from 0 to 1, got {self.discount!r}."
            )
        for name, worth in self.steps.items():
            if not isfinite(worth):
                raise UsageError(f"`Credit(steps=...)`: {name!r} is worth {worth!r}, no number.")
        if self.ungraded is not None and not isfinite(self.ungraded):
            raise UsageError(f"`Credit(ungraded=...)` wants a number, got {self.ungraded!r}.")
        if self.timeline == "team" and self.reward != "team":
            raise UsageError(
                "`timeline='team'` follows one stream of rewards, the team's: give "
                "`Credit(reward='team')` with it."
            )
        group_key(self.group)

    @property
    def key(self) -> GroupKey:
        return group_key(self.group)

    def check(self, algorithm: Algorithm) -> None:
        """Raise `UsageError`, with the reason, if this credit cannot go with `algorithm`."""
        for reason in self._contradictions(algorithm):
            raise UsageError(reason)

    def _contradictions(self, algorithm: Algorithm) -> list[str]:
        kind = f"`advantage={algorithm.advantage!r}`"
        compares, reasons = algorithm.compares_groups, []
        if self.timeline == "team" and compares:
            reasons.append(
                f"`Credit(timeline='team')` says what follows an action, and {kind} compares "
                f"whole attempts. Take 'returns' or 'gae', as "
                f"`reinforce++` and `ppo` do."
            )
        if self.key.per == "turn" and not compares:
            reasons.append(
                f"`Credit(group={self.key.name!r})` compares turns, and {kind} makes each action's "
                f"advantage from what followed it. Take 'grpo' or its kin."
            )
        if self.key.per == "turn" and algorithm.steps is not None:
            reasons.append(
                f"`Algorithm(steps=...)` adds a comparison of turns to one of whole attempts, and "
                f"`Credit(group={self.key.name!r})` compares turns already."
            )
        if isinstance(self.baseline, Ema) and algorithm.advantage == "gae":
            reasons.append("The critic of 'gae' is a baseline, as a running average is: take one.")
        if isinstance(self.baseline, Ema) and algorithm.gamma != 1.0:
            reasons.append(
                "`Credit(baseline=Ema(...))` compares whole rewards, which `Algorithm(gamma=...)` "
                "would not discount."
            )
        if self.baseline != "group" and algorithm.dynamic_sampling:
            reasons.append(
                "`dynamic_sampling` replaces groups whose rewards are all equal; without the "
                "group's own baseline they say something."
            )
        if self.baseline != "group" and algorithm.advantage == "maxrl":
            reasons.append(
                f"{kind} is a baseline of its own kind, which `Credit(baseline=...)` would replace."
            )
        scaled = self.baseline == "group" and algorithm.advantage in ("grpo", "maxrl")
        if self.whiten and (scaled or algorithm.whiten):
            reasons.append(
                "`Credit(whiten='role')` scales what `Algorithm` scales already: take "
                "`advantage='dr_grpo'` without `whiten`."
            )
        return reasons


CREDITS: dict[str, Credit] = {
    "team": Credit(reward="team"),
    "role": Credit(),
    "at_grpo": Credit(group="role_turn"),
    "dr_mas": Credit(group="role_turns"),
    "rae": Credit(group="role_batch", baseline=Ema()),
    "counterfactual": Credit(reward="counterfactual", baseline="none"),
    "mappo": Credit(reward="team", timeline="team"),
    "communication": Credit(communication=Communication()),
    "blame": Credit(blame=Blame()),
}
"""Kinds of credit by name; `docs/credit.md` says what each does and where it comes from."""


def credit(name: str, **changes: Any) -> Credit:
    """The kind of credit of that name, with some settings changed.

    Raises `UnknownName` for a name or setting that there is not, `UsageError` for what cannot be
    meant.
    """
    if name not in CREDITS:
        raise UnknownName("Credit", name, CREDITS)
    for setting in changes:
        if setting not in Credit.__dataclass_fields__:
            raise UnknownName("Setting of `Credit`", setting, Credit.__dataclass_fields__)
    return replace(CREDITS[name], **changes)
