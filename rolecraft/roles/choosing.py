"""How a role chooses its next action: by order, by its model, by a plan.

An action that is placed and has not started goes first, whoever placed it. A list that was
swapped in during the run is worked off in order. Then the mode decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rolecraft.messages import NOBODY, Message
from rolecraft.roles.context import RoleReactMode

if TYPE_CHECKING:
    from rolecraft.models.base import Session
    from rolecraft.roles.role import Role

DONE = "done"
"""The answer of a model that chooses no further action."""
PLAN_STEP = "rolecraft.roles.PlanStep"
"""`cause_by` of the instruction that a plan gives for its next action."""


@dataclass(slots=True)
class Chooser:
    """The conversation in which a role's model chooses, and how much of the history it has seen."""

    session: Session
    seen: int = 0


async def next_action(role: Role) -> bool:
    """Place the cursor of `role` on its next action; False when there is none."""
    cursor = role.rc.cursor
    if cursor.pending:
        return True
    if cursor.in_order:
        if cursor.step():
            return True
        cursor.in_order = False
        if not _model_chooses(role):
            return False  # also for a plan: it was one over the old list
    if role.rc.react_mode is RoleReactMode.PLAN_AND_ACT:
        return await _next_of_plan(role)
    if not _model_chooses(role):
        return cursor.step()
    return await _choose(role)


def forget(role: Role) -> None:
    """A run is over: the next one begins with a new conversation and a new plan."""
    role._chooser = role._plan = None
    role.rc.cursor.in_order = False


def _model_chooses(role: Role) -> bool:
    if role.rc.react_mode is not RoleReactMode.REACT or not role.has_model:
        return False
    return len(role.rc.cursor.actions) > 1 or (role.rc.max_react_loop or 1) > 1


def menu(role: Role) -> str:
    """The actions with their descriptions, one a line."""
    return "\n".join(
        f"- {action.name}: {action.description}" if action.description else f"- {action.name}"
        for action in role.rc.cursor.actions
    )


async def _choose(role: Role) -> bool:
    """Ask the model for one of the actions, or `done`."""
    cursor, history = role.rc.cursor, role.rc.history
    before = cursor.actions
    if role._chooser is None:
        role._chooser = Chooser(role.open_session())
    news = "\n".join(str(message) for message in history[role._chooser.seen :])
    role._chooser.seen = len(history)
    names = [action.name for action in before]
    listed = menu(role)
    if len(set(names)) < len(names):  # actions of one name can only be told apart by number
        names, listed = [str(index) for index in range(len(before))], "\n".join(role.states)
    prompt = (
        f"What has happened:\n{news or '(nothing new)'}\n\nYour actions:\n{listed}\n"
        f"- {DONE}: nothing is left to do\n\n"
        f"Which is next? Answer with one of: {', '.join([*names, DONE])}"
    )
    choice: Any = Literal[(*names, DONE)]
    answer = await role.ask(prompt, returns=choice, session=role._chooser.session)
    if cursor.actions is not before:  # swapped while the model was thinking
        return await next_action(role)
    if answer == DONE:
        cursor.rest()
        return False
    cursor.move(names.index(answer))
    return True


async def _next_of_plan(role: Role) -> bool:
    """Have the model write a plan on the first call, then place its steps one after the other."""
    from rolecraft.roles.planning import write_plan

    cursor = role.rc.cursor
    before = cursor.actions
    if role._plan is None:
        plan = await write_plan(role, menu(role))
        if cursor.actions is not before:
            return await next_action(role)
        role._plan = plan
    if not role._plan:
        cursor.rest()
        return False
    step = role._plan.pop(0)
    cursor.move([action.name for action in before].index(step.action))
    if step.instruction:
        role.publish_message(Message(step.instruction, cause_by=PLAN_STEP, send_to=NOBODY))
    return True
