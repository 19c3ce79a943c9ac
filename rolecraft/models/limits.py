"""Limits, and what happens when one of them is crossed.

Invariant: a crossing is decided once, by whoever the limit's `on_limit` names, and the decision is
a value of one of four types: a word, more room, another role, another model. So a person, a rule
and a record can all decide, and what was decided can be written down and read back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, fields, replace
from math import inf
from typing import TYPE_CHECKING, Any, Literal, get_args

from rolecraft.errors import LimitReached, UsageError

if TYPE_CHECKING:
    from rolecraft.models.base import Model
    from rolecraft.trajectories.events import Usage

LimitName = Literal[
    "usd",  # US dollars, all model calls together
    "tokens",  # prompt and answer, all model calls together
    "calls",  # model calls
    "rounds",  # rounds of the environment
    "seconds",  # wall time
]
When = Literal[
    "before",  # what would cross it is not done yet
    "during",  # a call was under way when time ran out
    "after",  # an answer cost more than there was to spare
]
LIMIT_NAMES: tuple[LimitName, ...] = get_args(LimitName)

Word = Literal[
    "raise",  # `LimitReached` comes out of the run
    "stop",  # the run ends with stop reason `limit`; nothing is raised, what is finished counts
]


def _check_whole(name: str, value: float) -> None:
    least = 1 if name == "rounds" else 0
    if value < least or value not in (inf, value // 1):
        raise UsageError(f"`Limits({name}=...)` wants a whole number from {least}, got {value!r}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a run, or one role in it, may cost. None means no limit.

    `usd` in US dollars; `tokens` of prompts and answers together; `calls` model calls; `rounds`
    rounds of the environment; `seconds` of wall time, which passes while a run goes on and, for a
    role's own limits, during its turns. `on_limit` decides what happens when one is crossed: a
    word, or a function (it may be async) from the `Crossing` to a `Decision`. Where it is None the
    limits around these decide, and the outermost raise.
    """

    usd: float | None = None
    tokens: int | None = None
    calls: int | None = None
    rounds: int | None = None
    seconds: float | None = None
    on_limit: Word | Decide | None = None

    def __post_init__(self) -> None:
        for name in LIMIT_NAMES:
            value = getattr(self, name)
            if value is not None and (isinstance(value, (str, bool)) or not value >= 0):
                raise UsageError(f"`Limits({name}=...)` wants a number from 0, got {value!r}.")
            if value is not None and name in ("calls", "rounds"):
                _check_whole(name, value)
        if not (
            self.on_limit is None or self.on_limit in get_args(Word) or callable(self.on_limit)
        ):
            raise UsageError(
                f"`Limits(on_limit=...)` wants 'raise', 'stop' or a function of a `Crossing`, got "
                f"{self.on_limit!r}."
            )


def check_limits(limits: object) -> None:
    """Raise `UsageError` for what is neither `Limits` nor None."""
    if limits is None or isinstance(limits, Limits):
        return
    fields = "..."
    if isinstance(limits, dict) and limits.keys() <= {*LIMIT_NAMES, "on_limit"}:
        fields = ", ".join(f"{name}={value!r}" for name, value in limits.items())
    raise UsageError(f"`limits` wants a `Limits`, got {limits!r}: write `Limits({fields})`.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """A limit and what would cross it, or has crossed it. In the limit's unit."""

    limit: LimitName
    allowed: float
    used: float
    needed: float = 0.0
    """What the next thing may need at most, beyond `used`."""
    whose: str = ""
    """Whose limit: `role 'Writer'`, for example; empty for the run's."""
    role: str = ""
    """The role that was about to do something; empty for the environment."""
    doing: str = ""
    """What was about to be done, is under way, or was done: `a call of 'openai/gpt-4o-mini'`."""
    when: When = "before"

    def __str__(self) -> str:
        limit = f"The limit of {_whole(self.limit, self.allowed)}"
        if self.whose:
            limit += f" for {self.whose}"
        used = _number(self.limit, self.used)
        if self.when == "during":
            return f"{limit} ran out during {self.doing}, which was interrupted."
        if self.limit == "calls":
            return f"{limit} is used up."
        if self.limit == "seconds":
            return f"{limit} is used up: {used} have passed, and {self.doing} comes next."
        if self.limit == "rounds":
            return f"{limit} is used up: {self.doing}."
        are, cost = ("is spent", "cost") if self.limit == "usd" else ("are used", "use")
        if self.when == "after":
            return f"{limit} was passed by {self.doing}: {used} {are}."
        return (
            f"{limit} does not cover {self.doing}: {used} {are} and it may {cost} "
            f"{_number(self.limit, self.needed)}. `Sampling(max_tokens=...)` lowers what it may "
            f"{cost}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MoreRoom:
    """A decision: the limit is raised by so much, and what was about to be done is done."""

    usd: float = 0.0
    tokens: float = 0
    calls: float = 0
    rounds: float = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        given = [getattr(self, name) for name in LIMIT_NAMES]
        if not (all(value >= 0 for value in given) and any(given)):
            raise UsageError(f"`MoreRoom` wants numbers above 0, got {self!r}.")


@dataclass(frozen=True, slots=True)
class HandOver:
    """A decision: the role's turn ends here and `message` goes to the role `to`, from it.

    The other role goes on within its own limits, and within those that hold for all.
    """

    to: str
    message: str


@dataclass(frozen=True, slots=True)
class UseModel:
    """A decision: this conversation goes on with another model, a cheaper one for example.

    For `usd` and `tokens`, and for models behind an API or doubles: exact token sequences belong
    to the model that sampled them.
    """

    model: Model | str


Decision = Word | MoreRoom | HandOver | UseModel
Decide = Callable[[Crossing], "Decision | Awaitable[Decision]"]
Note = Callable[[Crossing, Decision, "Usage | None"], None]
"""Writes a decided crossing down, and what was charged for a call that was interrupted."""


def check_decision(decision: object, crossing: Crossing) -> Decision:
    """`decision` if it is one and settles the crossing. Raises `UsageError`."""
    wrong = ""
    if isinstance(decision, MoreRoom):
        if getattr(decision, crossing.limit) > 0:
            return decision
        wrong = f"that gives no more `{crossing.limit}`"
    elif isinstance(decision, HandOver):
        if crossing.role and decision.to != crossing.role:
            return decision
        wrong = _no_handing_over(decision, crossing)
    elif isinstance(decision, UseModel):
        if crossing.limit in ("usd", "tokens"):
            return decision
        wrong = f"another model has no more `{crossing.limit}`"
    elif decision in get_args(Word):
        return decision  # type: ignore[return-value]
    raise UsageError(
        f"`on_limit` answered {decision!r} to: {crossing} It may answer 'raise', 'stop', "
        f"`MoreRoom({crossing.limit}=...)`, `HandOver(to, message)` or, for money and tokens, "
        f"`UseModel(model)`{'; ' + wrong if wrong else ''}."
    )


def _no_handing_over(decision: HandOver, crossing: Crossing) -> str:
    if not crossing.role:
        return "nobody has a turn"
    wrong = "a role hands its turn over to another one"
    if crossing.whose:
        return wrong
    return (
        f"{wrong}, and role {crossing.role!r} shares this limit, which is the whole team's and "
        f"used up. Give `MoreRoom`, or bind the role that hands over by limits of its own, "
        f"`Role(limits=Limits({crossing.limit}=..., on_limit=...))`"
    )


def extended(limits: Limits, more: MoreRoom) -> Limits:
    """`limits` with more room; what is not limited stays so."""
    changes = {
        field.name: getattr(limits, field.name) + getattr(more, field.name)
        for field in fields(more)
        if getattr(limits, field.name) is not None
    }
    return replace(limits, **changes)


def limit_reached(crossing: Crossing, decision: Decision = "raise") -> LimitReached:
    """The exception that ends a turn at a crossing. Its `decision` says what comes of it."""
    return LimitReached(
        str(crossing),
        limit=crossing.limit,
        allowed=crossing.allowed,
        used=crossing.used,
        crossing=crossing,
        decision=decision,
    )


def write_decided(crossing: Crossing, decision: Decision) -> dict[str, Any]:
    """A decided crossing as the data of a `limit` event; the role is the event's own."""
    data = {name: value for name, value in asdict(crossing).items() if value != ""}
    data.pop("role", None)
    if not crossing.needed:
        del data["needed"]
    if isinstance(decision, MoreRoom):
        more = {name: value for name, value in asdict(decision).items() if value}
        return {**data, "decision": "more_room", "more": more}
    if isinstance(decision, HandOver):
        return {**data, "decision": "hand_over", "to": decision.to, "message": decision.message}
    if isinstance(decision, UseModel):
        model = decision.model
        named = model if isinstance(model, str) else model.name
        return {**data, "decision": "use_model", "model": named}
    return {**data, "decision": decision}


def read_decided(data: dict[str, Any], *, role: str = "") -> tuple[Crossing, Decision]:
    """What `write_decided` wrote. Events from before there were decisions mean `raise`."""
    known = {field.name for field in fields(Crossing)}
    crossing = Crossing(role=role, **{n: value for n, value in data.items() if n in known})
    match data.get("decision", "raise"):
        case "more_room":
            return crossing, MoreRoom(**data["more"])
        case "hand_over":
            return crossing, HandOver(data["to"], data["message"])
        case "use_model":
            return crossing, UseModel(data["model"])
        case word:
            return crossing, check_decision(word, crossing)


def _number(limit: LimitName, value: float) -> str:
    if limit == "usd":
        return f"${value:.6f}"
    if limit == "seconds":
        return f"{value:g} s"
    return str(int(value)) if value == value // 1 and value < float("inf") else str(value)


def _whole(limit: LimitName, value: float) -> str:
    """A limit with its unit, as whoever set it wrote it."""
    if limit == "usd":
        return f"${value:g}"
    unit = {"tokens": " token", "calls": " model call", "rounds": " round"}.get(limit, "")
    return _number(limit, value) + unit + ("s" if unit and value != 1 else "")
