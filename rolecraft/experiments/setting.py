"""The one setting under which everything in an evaluation is played.

Invariant: what is not stated is not set: it is the scenario's own, or the model's, for everybody
alike, and is said to be so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from rolecraft.errors import UsageError
from rolecraft.models.base import Model, Sampling
from rolecraft.models.limits import Limits
from rolecraft.models.sampled import Sampled

if TYPE_CHECKING:
    from rolecraft.scenarios.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How each task is played. A field left None is the scenario's or the model's own.

    `temperature`, `top_p` and `max_tokens` hold wherever an action does not say otherwise itself.
    """

    attempts: int = 1
    """How often each task is played."""
    turns: int | None = None
    """Turns of each role in a run, at most: rounds, in each of which a role takes one or none."""
    calls: int | None = None
    """Model calls of a run."""
    sequence_length: int | None = None
    """Tokens of a run, prompts and answers of all calls together."""
    max_tokens: int | None = None
    """Tokens of one answer."""
    temperature: float | None = None
    top_p: float | None = None
    seconds: float | None = None
    """Wall time of a run."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None:
                continue
            whole = field.name not in ("temperature", "top_p", "seconds")
            wrong = isinstance(value, bool) or not isinstance(value, int if whole else (int, float))
            least = 0 if field.name in ("temperature", "top_p", "seconds") else 1
            if wrong or not value >= least:
                raise UsageError(
                    f"`Setting({field.name}=...)` wants a {'whole ' if whole else ''}number from "
                    f"{least}, got {value!r}."
                )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Setting:
        """What `to_dict` gave. Raises `UsageError` for what a setting does not have."""
        known = {field.name for field in fields(cls)}
        if unknown := sorted(data.keys() - known):
            raise UsageError(f"A setting has no `{unknown[0]}`; it has {', '.join(sorted(known))}.")
        return cls(**data)

    @property
    def identity(self) -> str:
        """What of it changes a run; more attempts change none."""
        given = {name: value for name, value in self.to_dict().items() if value is not None}
        del given["attempts"]
        return ", ".join(f"{name} {value:g}" for name, value in given.items())

    def in_words(self, scenarios: Sequence[Scenario] = ()) -> list[str]:
        """Each part of it with its value, in a few words."""
        own = "the scenario's own"
        limits = [limits_of(each) for each in scenarios]
        rounds = {each.rounds for each in limits if each is not None}
        if self.turns is None and len(rounds) == 1 and (only := rounds.pop()) is not None:
            own = f"{own}, {only}"
        return [
            f"attempts at each task: {self.attempts}",
            f"turns of a role: {own if self.turns is None else self.turns}",
            f"model calls a run: {_said(self.calls, 'not bounded')}",
            f"sequence length (tokens a run): {_said(self.sequence_length, 'not bounded')}",
            f"tokens an answer: {_said(self.max_tokens, 'the model decides')}",
            f"temperature: {_said(self.temperature, 'the default of the model')}",
            f"top-p: {_said(self.top_p, 'the default of the model')}",
            f"seconds a run: {_said(self.seconds, 'not bounded')}",
        ]

    def limits(self, scenario: Scenario) -> Limits | None:
        """The limits of a run: those of the setting, and the scenario's where it is silent."""
        given: dict[str, Any] = {
            "rounds": self.turns,
            "calls": self.calls,
            "tokens": self.sequence_length,
            "seconds": self.seconds,
        }
        given = {name: value for name, value in given.items() if value is not None}
        return replace(limits_of(scenario) or Limits(), **given) if given else None

    @property
    def samples(self) -> bool:
        """True if it says anything of how answers are sampled."""
        return self._sampling != Sampling()

    @property
    def _sampling(self) -> Sampling:
        return Sampling(temperature=self.temperature, top_p=self.top_p, max_tokens=self.max_tokens)

    def model(self, model: Model) -> Model:
        """`model`, asked with this sampling."""
        return Sampled(model, self._sampling) if self.samples else model


def limits_of(scenario: Scenario) -> Limits | None:
    """The limits that a scenario gives its environments, where they stand in a `partial`."""
    given = getattr(scenario.environment, "keywords", {}).get("limits")
    return given if isinstance(given, Limits) else None


def _said(value: float | None, otherwise: str) -> str:
    return otherwise if value is None else f"{value:g}"
