"""How a role chooses its next action: by order, by its model, by a plan.

An action that is placed and not yet taken goes first, whoever placed it. A list that was swapped
in during the run is worked off in order. Then the mode decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rolecraft.actions import Action
from rolecraft.errors import NoActions
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
    """Place the cursor of `role` on its next action, to be run; False when there is none."""
    rc, cursor = role.rc, role.rc.cursor
    placed = cursor.pending or cursor.in_order or not cursor.actions
    if rc.react_mode is RoleReactMode.BY_ORDER and not placed:
        found = cursor.step()  # the usual case
    else:
        found = await _place(role)
    cursor.take()
    return found


async def _place(role: Role) -> bool:
    cursor = role.rc.cursor
    if cursor.pending:
        return True
    if cursor.in_order:
        if cursor.step():
            return True
        if not _model_chooses(role):
            return False  # also for a plan: it was one over the old list
        cursor.in_order = False
    if not cursor.actions:
        if role.rc.started:
            return False  # it did what was put into `rc.todo`, or an action emptied the list
        raise NoActions(
            f"Role {role.name!r} has no actions. Set `actions = [...]` on its class, or pass "
            f"`{type(role).__name__}(actions=[...])`."
        )
    if role.rc.react_mode is RoleReactMode.PLAN_AND_ACT:
        return await _next_of_plan(role)
    return await _choose(role) if _model_chooses(role) else cursor.step()


def _model_chooses(role: Role) -> bool:
    """In `react` mode, if there is a model and something to choose: which, or how often."""
    if role.rc.react_mode is not RoleReactMode.REACT:
        return False
    actions, bound = role.rc.cursor.actions, role.rc.max_react_loop or 1
    return (len(actions) > 1 or (len(actions) == 1 and bound > 1)) and role.has_model


def menu(actions: Sequence[Action]) -> dict[str, str]:
    """How a model names each action, and what it reads about it.

    The names, unless two are the same or one is taken for `done`: then numbers, with the fields
    by which the actions differ.
    """
    if len({DONE, *(action.name for action in actions)}) > len(actions):
        return {action.name: action.description for action in actions}
    return {str(i): f"{action!r} {action.description}" for i, action in enumerate(actions)}


def as_lines(choices: dict[str, str]) -> str:
    """A menu as text, one action a line."""
    return "\n".join(f"- {name}: {text}".strip(": ") for name, text in choices.items())


async def _choose(role: Role) -> bool:
    """Ask the model for one of the actions, or `done`."""
    cursor, history = role.rc.cursor, role.rc.history
    before = cursor.actions
    if role.rc.chooser is None:
        role.rc.chooser = Chooser(role.open_session())
    news = "\n".join(str(message) for message in history[role.rc.chooser.seen :])
    role.rc.chooser.seen = len(history)
    choices = menu(before)
    names = [*choices, DONE]
    prompt = (
        f"What has happened:\n{news or '(nothing new)'}\n\nYour actions:\n{as_lines(choices)}\n"
        f"- {DONE}: nothing is left to do\n\n"
        f"Which is next? Answer with one of: {', '.join(names)}"
    )
    returns: Any = Literal[tuple(names)]
    answer = await role.ask(prompt, returns=returns, session=role.rc.chooser.session)
    if cursor.actions is not before or cursor.pending:  # changed while the model was thinking
        return await _place(role)
    if answer == DONE:
        cursor.rest()
        return False
    cursor.move(names.index(answer))
    return True


async def _next_of_plan(role: Role) -> bool:
    """Place the next step of the plan, which the role's model writes on the first call."""
    from rolecraft.roles import planning

    cursor = role.rc.cursor
    before, plan = cursor.actions, role.rc.plan
    step = await planning.next_step(role, menu(before))
    if cursor.actions is not before or cursor.pending:  # changed while somebody was thinking
        role.rc.plan = plan
        return await _place(role)
    if step is None:
        cursor.rest()
        return False
    cursor.move(step.place)
    if step.instruction:
        role.publish_message(Message(step.instruction, cause_by=PLAN_STEP, send_to=NOBODY))
    planning.begin(role, step)
    return True
