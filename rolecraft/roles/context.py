"""`rc`, the runtime context of a role: memory, inbox, what it watches, and the cursor."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import TYPE_CHECKING, Any

from rolecraft.actions import Action
from rolecraft.messages import USER_REQUIREMENT, Message, addresses_of
from rolecraft.roles.cursor import Cursor
from rolecraft.roles.memory import History, Memory

if TYPE_CHECKING:
    from rolecraft.actions.action import Running
    from rolecraft.models.budget import Budget
    from rolecraft.roles.choosing import Chooser
    from rolecraft.roles.fresh import Beginning
    from rolecraft.roles.planning import Plan
    from rolecraft.roles.surroundings import Surroundings
    from rolecraft.trajectories.recorder import Log


WATCH_USER = frozenset({USER_REQUIREMENT})


class RoleReactMode(StrEnum):
    """How a role chooses its next action.

    `by_order`: the list, once, in order. `react`: its model chooses among the actions, or says
    that it is done; without a model, or with one action only, as `by_order`. `plan_and_act`: its
    model first writes a plan over the actions, which is then worked off.
    """

    REACT = "react"
    BY_ORDER = "by_order"
    PLAN_AND_ACT = "plan_and_act"


@dataclass(slots=True, eq=False)
class RoleContext:
    """What changes while a role runs. `state`, `todo` and `states` are views of `cursor`."""

    cursor: Cursor
    memory: Memory = field(default_factory=Memory)
    working_memory: Memory = field(default_factory=Memory)
    """What the role notes for the task at hand: a run, or a step of a plan until it succeeds."""
    unkept: list[Message] = field(default_factory=list)
    """What goes into the long-term memory when the round is over."""
    recalled: str = ""
    """What the role remembered when it took up its news, as its prompt says it."""
    inbox: list[Message] = field(default_factory=list)
    outbox: list[Message] | None = None
    """What the role says in a round, until the round ends; None outside of rounds."""
    news: list[Message] = field(default_factory=list)
    """The messages that the role observed last."""
    react_mode: RoleReactMode = RoleReactMode.BY_ORDER
    max_react_loop: int | None = None
    env: Surroundings | None = None
    log: Log | None = None
    """Where the role's events go; None before the first."""
    said: int = 0
    """How many messages the role numbered."""
    sessions: int = 0
    """How many conversations it had outside of actions."""
    runs: int = 0
    """How many actions it started, not counting those within others."""
    budget: Budget | None = None
    """Of the role's own `limits`."""
    first: Beginning | None = None
    """What the role was before its first run."""
    missed: list[Message] = field(default_factory=list)
    """What turns that failed had taken up."""
    said_within: list[tuple[tuple[int, ...], Message]] = field(default_factory=list)
    """What actions within the running one have said, with their paths."""
    waits: bool = False
    """An action of the last turn waits for a person's permission."""
    acting: bool = False
    """True during a run. What follows is for the length of one."""
    started: int = 0
    """How many actions were started."""
    last_event: int | None = None
    last_action: Action | None = None
    last_error: Exception | None = None
    reply_ends: bool = False
    """The action that starts next is ended by the message that says its result."""
    ending: Running | None = None
    """The run of an action that the next message ends."""
    chooser: Chooser | None = None
    plan: Plan | None = None
    _watch: frozenset[str] = WATCH_USER

    def end_run(self) -> None:
        """The next run begins at the first action, with a new conversation and a new plan."""
        self.acting, self.started = False, 0
        self.last_event = self.last_action = self.last_error = self.chooser = self.plan = None
        self.reply_ends, self.ending = False, None
        self.recalled = ""
        if self.working_memory:
            self.working_memory.clear()
        self.cursor.in_order = False
        self.cursor.move(-1)

    @property
    def state(self) -> int:
        """Index of the current action; -1 when there is nothing to do."""
        return self.cursor.place

    @state.setter
    def state(self, place: int) -> None:
        self.cursor.move(place)

    @property
    def todo(self) -> Action | None:
        """The current action, or None."""
        return self.cursor.todo

    @todo.setter
    def todo(self, action: Action | None) -> None:
        self.cursor.todo = action

    @property
    def watch(self) -> frozenset[str]:
        """The addresses of the actions whose messages the role takes up."""
        return self._watch

    @watch.setter
    def watch(self, actions: Any) -> None:
        self._watch = addresses_of(actions)
        if self.env is not None:
            self.env.rewatch()

    @property
    def max_turns(self) -> float:
        """How often one run may think and act: `max_react_loop` in `react` mode."""
        bound = self.max_react_loop if self.react_mode is RoleReactMode.REACT else None
        return inf if bound is None else bound

    @property
    def history(self) -> History:
        return self.memory.history

    @property
    def important_memory(self) -> list[Message]:
        """The remembered messages of the kinds of work that the role watches."""
        return self.memory.get_by_actions(list(self.watch))
