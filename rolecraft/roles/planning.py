"""A plan: which actions, in which order, each with an instruction."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import BaseModel, Field, create_model

from rolecraft.roles.choosing import as_lines

if TYPE_CHECKING:
    from rolecraft.roles.role import Role


class PlannedStep(NamedTuple):
    """One step of a plan: the index of an action, and what to do in it."""

    place: int
    instruction: str


class Step(BaseModel):
    """A step as the model writes it; `action` is its name in the menu."""

    action: str
    instruction: str = ""


async def write_plan(role: Role, choices: dict[str, str]) -> list[PlannedStep]:
    """Ask the role's model for a plan over a menu of actions. Raises `InvalidAnswer`."""
    names = tuple(choices)
    news = "\n".join(str(message) for message in role.rc.history)
    prompt = f"Write a plan.\n\nWhat has happened:\n{news}\n\nYour actions:\n{as_lines(choices)}"
    answer = await role.ask(prompt, returns=_plan_over(names))
    return [PlannedStep(names.index(step.action), step.instruction) for step in answer.steps]


@lru_cache(maxsize=64)
def _plan_over(names: tuple[str, ...]) -> Any:
    """The type of a plan. It names the actions, so that a plan with another one is asked again."""
    known: Any = Literal[names]
    step: Any = create_model("Step", __base__=Step, action=(known, ...))
    return create_model("Plan", steps=(list[step], Field(min_length=1)))
