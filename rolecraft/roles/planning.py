"""A plan: which actions, in which order, each with an instruction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, Field, create_model

if TYPE_CHECKING:
    from rolecraft.roles.role import Role


class Step(BaseModel):
    """One step of a plan: the name of an action, and what to do in it."""

    action: str
    instruction: str = ""


async def write_plan(role: Role, menu: str) -> list[Step]:
    """Ask the role's model for a plan over its actions. Raises `InvalidAnswer`."""
    names = tuple(dict.fromkeys(action.name for action in role.rc.cursor.actions))
    # The schema itself names the actions, so that a plan with another one is asked again.
    known: Any = Literal[names]
    step: Any = create_model("Step", __base__=Step, action=(known, ...))
    plan: Any = create_model("Plan", steps=(list[step], Field(min_length=1)))
    news = "\n".join(str(message) for message in role.rc.history)
    prompt = f"Write a plan.\n\nWhat has happened:\n{news}\n\nYour actions:\n{menu}"
    answer = await role.ask(prompt, returns=plan)
    steps: list[Step] = answer.steps
    return steps
