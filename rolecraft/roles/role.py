"""Roles: who acts. The think/act/react state machine.

`run(message)` takes a message up and calls `react`, which loops `_think` (choose the next action)
and `_act` (run it; its message is remembered and published). Override any of `_observe`,
`_think`, `_act`, `_react`; what you return is normalised in one place, `_take_up` (`speaking`).

    run ──► _observe ──► react ──► _react:  while _think(): _act()
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from rolecraft._declared import Declared
from rolecraft.actions.action import Action
from rolecraft.errors import UsageError
from rolecraft.messages import USER, USER_REQUIREMENT, Message, address_of, anew, as_message
from rolecraft.models.limits import check_limits
from rolecraft.models.resolve import HUMAN, check_model
from rolecraft.roles import (
    _mistakes,
    _replies,
    approving,
    choosing,
    conversations,
    crossing,
    keeping,
    recording,
    serving,
)
from rolecraft.roles.context import WATCH_USER, RoleContext, RoleReactMode
from rolecraft.roles.cursor import Cursor
from rolecraft.roles.fresh import Beginning
from rolecraft.roles.speaking import Speaks
from rolecraft.roles.tool_calling import UseTools, as_tools
from rolecraft.trajectories.events import Event

if TYPE_CHECKING:
    from rolecraft.actions.action import Running
    from rolecraft.actions.tool import ToolAction
    from rolecraft.models.base import Call, Completion, Model, Session
    from rolecraft.models.budget import Limits
    from rolecraft.roles.long_term import LongTermMemory, Remembered
    from rolecraft.roles.planning import Planning


class Role(Speaks):
    """Somebody who acts: a name, a purpose, and a list of actions.

    Subclass it and set the fields you need; nothing else is required. `model` is a `Model` or a
    string such as `"openai/gpt-4o-mini"`; without one the role uses its environment's. `watch`
    lists the actions whose messages the role takes up (the user's, unless set). One `run` starts
    at most `max_actions` actions. `planning` says how `plan_and_act` plans. `system` replaces the
    prompt made from the fields above it. `tools` are all that the model may call, in place of those
    of a base class; a role with tools and no actions answers with `UseTools`. `long_term` keeps
    what the role takes up and says, for this run and later ones; with `recall_top=3` its prompt has
    the three memories that fit its news best.
    """

    name: str = ""
    profile: str = ""
    goal: str = ""
    constraints: str = ""
    desc: str = ""
    system: str = ""
    actions: Sequence[Action | type[Action]] = ()
    tools: Sequence[ToolAction | type[ToolAction]] = ()
    watch: Sequence[type[Action] | str] | None = None
    react_mode: RoleReactMode | str = RoleReactMode.BY_ORDER
    model: Model | str | None = None
    is_human: bool = False
    """MetaGPT's name for `model = "human"`."""
    limits: Limits | None = None
    max_actions: int = 1000
    planning: Planning | None = None
    long_term: LongTermMemory | None = None
    recall_top: int = 0

    _positional = ()  # too many to remember an order
    _hooks = Declared._hooks | {
        "_observe",
        "_think",
        "_act",
        "_react",
        "_aask",
        "_watch",
        "_set_state",
        "_init_actions",
        "_set_react_mode",
        "_record",
    }

    _reply_ends: ClassVar[bool] = True
    """Nothing of the user's stands between an action's result and the message that says it."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _mistakes.check_class(cls)
        cls._reply_ends = cls._act is Role._act and cls._react is Role._react

    def __init__(self, *args: Any, **fields: Any) -> None:
        fields = self._named(args, fields)
        cls = type(self)
        name = fields.pop("name", "") or cls.name or cls.__name__
        self.rc = RoleContext(Cursor(name))
        # What `rc` holds is put there, also when the class says it. Actions in a class's list
        # belong to nobody: each role has copies.
        fields.setdefault("actions", [copy.copy(action) for action in _each(cls.actions)])
        fields.setdefault("watch", cls.watch)
        fields.setdefault("react_mode", cls.react_mode)
        if fields.setdefault("tools", cls.tools) and not fields["actions"]:
            fields["actions"] = [UseTools]
        super().__init__(name=name, **fields)
        if self.is_human:
            self.model = HUMAN

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "actions":
            self.set_actions(value)
        elif name == "watch":
            self._watch(WATCH_USER if value is None else value)
        elif name == "react_mode":
            self._set_react_mode(value)
        elif name == "tools":
            super().__setattr__(name, as_tools(value))
        elif name == "model":
            check_model(value)
            super().__setattr__(name, value)
        elif name == "limits":
            check_limits(value)
            super().__setattr__(name, value)
        else:
            super().__setattr__(name, value)

    if not TYPE_CHECKING:  # a type checker would take it that every attribute exists

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(_mistakes.no_attribute(self, name))

    # --- the action list ---------------------------------------------------------------------

    def set_actions(self, actions: Iterable[Action | type[Action]]) -> None:
        """Replace the action list, at any moment and at once.

        An action that already runs finishes and its message counts; no other action of the old
        list starts. The new list begins at its first action, whether `rc.todo = None`,
        `_set_state(0)` or nothing follows. Set during a run, it is worked off in order.
        """
        bound = self._bound(actions)
        self.rc.cursor.replace(bound, in_order=self.rc.acting)
        self._list_changed()

    _init_actions = set_actions

    def set_action(self, action: Action | type[Action]) -> None:
        """Replace the action list by one action."""
        self.set_actions([action])

    def add_actions(self, *actions: Action | type[Action]) -> None:
        """Append to the action list; the place in it stays.

        In `by_order` they follow; in `react` the model finds them in its list; a plan that is
        being worked off goes on as it was written.
        """
        self.rc.cursor.append(self._bound(actions))
        self._list_changed()

    def _bound(self, actions: Iterable[Action | type[Action]]) -> list[Action]:
        bound = [
            (action() if isinstance(action, type) else action)._bound(self)
            for action in _each(actions)
        ]
        if self._reply_ends:  # else the user's code may run them
            for action in bound:
                if action._wants:
                    raise _mistakes.wants_more(action)
        return bound

    def _list_changed(self) -> None:
        actions = self.rc.cursor.actions
        self.__dict__["actions"] = actions
        if self.rc.log is not None:  # before the record begins, its header tells the list
            data: dict[str, Any] = {"actions": [action.name for action in actions]}
            if self._now() is not None:  # whoever serves the action from the record needs them
                made = serving.listed(actions)
                data |= {"list": made} if made is not None else {}
            self._write(Event("action_swap", data=data, cause=self._cause()))

    @property
    def states(self) -> list[str]:
        """The action list as text: `["0. WriteDirectory", …]`."""
        return [f"{index}. {action.name}" for index, action in enumerate(self.rc.cursor.actions)]

    def _set_state(self, state: int) -> None:
        """Make action number `state` the next one; -1 for none. Raises `StateOutOfRange`."""
        self.rc.cursor.move(state)

    def set_todo(self, action: Action | None) -> None:
        """Make `action` the next one; it need not be in the list."""
        self.rc.todo = action._bound(self) if action is not None else None

    def _set_react_mode(
        self,
        react_mode: RoleReactMode | str,
        max_react_loop: int | None = None,
        auto_run: bool = True,
    ) -> None:
        """Choose the mode; `max_react_loop` bounds the actions of one run in `react` mode."""
        try:
            self.rc.react_mode = RoleReactMode(react_mode)
        except ValueError:
            modes = [mode.value for mode in RoleReactMode]
            raise UsageError(f"`react_mode` is {react_mode!r}, expected one of {modes}.") from None
        self.rc.max_react_loop = max_react_loop
        self.__dict__["react_mode"] = self.rc.react_mode

    def _watch(self, actions: Iterable[type[Action] | Action | str] | type[Action] | str) -> None:
        """Take up the messages of these actions (and only these, besides those sent to me)."""
        self.rc.watch = actions
        self.__dict__["watch"] = self.rc.watch

    # --- running -----------------------------------------------------------------------------

    async def run(
        self, message: str | Message | Sequence[str | Message] | None = None
    ) -> Message | None:
        """Take up `message` (and what is in the inbox), react, return the last message.

        None if there was nothing to take up or nothing to say, or if a limit stopped it.
        Exceptions of actions come out as they were raised, with a note that names role and action.
        """
        self._check_free()
        if message is not None:
            for given in message if isinstance(message, (list, tuple)) else (message,):
                self.put_message(given)
        if self.rc.first is None:
            self.rc.first = Beginning.of(self)
        self.rc.acting = True
        budget = self._budget
        try:
            if budget is None:
                return await self._take_turn()
            with budget.running():
                return await self._take_turn()
        except Exception as error:
            if not recording.has_note(error, self.name):  # else an action within has recorded it
                recording.add_note(error, self.name, None)
                with recording.noted_on(error):
                    self._write(recording.failure_event(error, cause=self._cause()))
            if (over := crossing.handed_over(self, error)) is not None:
                return self.publish_message(over)
            if self.rc.outbox is None and crossing.stops(error):  # in a round, the run is stopped
                return None
            raise
        finally:
            self.rc.end_run()

    async def _take_turn(self) -> Message | None:
        if not await self._observe():
            return None
        if self.recall_top:
            from rolecraft.roles.recalling import news_recalled

            self.rc.recalled = await news_recalled(self)
        said = self._take_up(await self.react())
        if self.rc.outbox is None:  # else when the round is over
            await keeping.keep(self)
        return said

    def reset(self) -> None:
        """Be again what the role was before its first run: it then leaves the first trace again.

        Without it a role that is run twice keeps what it remembers and what its actions changed.
        See `rolecraft.roles.fresh` for what is put back.
        """
        self._check_free()
        if self.rc.first is None:
            return
        in_record = self.rc.env is not None
        self.rc.first.restore(self)
        if in_record:
            self._write(Event("reset"))
        else:
            self.rc.log = None

    def _check_free(self) -> None:
        if self.rc.acting:
            raise UsageError(f"Role {self.name!r} is already running; wait for it to finish.")
        if self.rc.outbox is None and self.rc.env is not None and self.rc.env.in_round:
            raise UsageError(
                f"Role {self.name!r} cannot be run while its environment plays a round: send it a "
                f"message (`send_to={self.name!r}`), and it takes it up in the next."
            )

    def put_message(self, message: str | Message) -> None:
        """Put a message into the inbox, to be observed by the next run.

        The role gets a copy, so one message can be given to several roles, and again.
        """
        message = anew(as_message(message))
        if not message.cause_by and not message.sent_from:
            message.cause_by, message.sent_from = USER_REQUIREMENT, USER
        self.rc.inbox.append(message)

    async def _observe(self) -> int:
        """Move the inbox into memory and `rc.news`; the number of new messages."""
        rc = self.rc
        rc.news, rc.inbox = rc.inbox, []
        for message in rc.news:
            if message.event is None:  # it came straight to `run`, not through an environment
                self._number(message, f"{message.sent_from}>{self.name}")
                self._log_now().add_message(message, None)
            rc.memory.add(message)
            keeping.keep_later(self, message)
        self.rc.last_event = rc.news[-1].event if rc.news else None
        return len(rc.news)

    async def react(self) -> Message | None:
        """Work until there is nothing to do. Returns the last message."""
        return await self._react()

    async def _react(self) -> Message | None:
        """Loop `_think` and `_act`; stops when `_think` returns False or leaves no `rc.todo`."""
        last: Message | None = None
        turns = 0
        while turns < self.rc.max_turns:
            actions = self.rc.cursor.actions
            if await self._think() is False:
                break
            if self.rc.todo is None:
                if self.rc.cursor.actions is actions:
                    break
                continue  # swapped after the choice was made: choose from the new list
            if turns == self.max_actions:
                raise self._endless(self.rc.todo)
            last = self._take_up(await self._act()) or last
            turns += 1
        return last

    async def _think(self) -> bool | None:
        """Choose the next action by setting the state; False when there is nothing to do."""
        return await choosing.next_action(self)

    async def _act(self) -> Message | None:
        """Run `rc.todo` and return its message; None if it has nothing to say."""
        if self.rc.todo is None:  # the list was swapped since `_think`
            await self._think()
        todo = self.rc.todo
        if todo is None:
            return None
        todo = todo._bound(self)  # one that was put into `rc.todo` by hand
        if todo._wants:
            raise _mistakes.wants_more(todo)
        self.rc.reply_ends = self._reply_ends
        result = await (todo.run(self.rc.history) if todo._takes_history else todo.run())
        return _replies.as_reply(result, todo, self)

    async def recall(self, query: str, k: int = 5) -> list[Remembered]:
        """The memories in `long_term` that fit `query` best; recorded as a call of a tool.

        What was said in a round can be recalled from the next on. Raises `UsageError` without a
        long-term memory, `LongTermMemoryError` if it cannot be used.
        """
        from rolecraft.roles.recalling import recalled

        return await recalled(self, query, k)

    @property
    def is_idle(self) -> bool:
        """True when the role neither acts nor has anything in its inbox."""
        return not self.rc.acting and not self.rc.inbox

    # --- asking a model, and what `Action` asks of its role ------------------------------------

    def open_session(
        self, *, system: str | None = None, model: Model | str | None = None
    ) -> Session:
        return conversations.open_session(self, system, model)

    def _model_asked(self, session: Session, call: Call) -> Completion | None:
        return conversations.asked(self, session, call)

    def _model_answered(self, session: Session, call: Call, answer: Completion) -> None:
        conversations.answered(self, session, call, answer)

    async def _in_time(self, now: Running) -> None:
        await crossing.in_time(self, now)

    async def _allow(self, now: Running) -> None:
        await approving.allow(self, now)

    async def _is_served(self, now: Running) -> bool:
        return await serving.is_served(self, now)

    def _serve(self, now: Running) -> Any:
        return serving.serve(self, now)

    @property
    def system_prompt(self) -> str:
        """`system`, or a prompt made from name, profile, goal, constraints and desc.

        With `recall_top`, followed by what the role remembers.
        """
        prompt = self.system or conversations.system_prompt(self)
        recalled = self.rc.recalled
        return "\n\n".join(filter(None, (prompt, recalled))) if recalled else prompt

    @property
    def address(self) -> str:
        return self.name

    @property
    def addresses(self) -> frozenset[str]:
        """Every address under which this role gets messages: its name and its class path."""
        return frozenset((self.name, address_of(type(self))))

    @property
    def _setting(self) -> str:
        return f"{self.name}({self.profile})" if self.profile else self.name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


def _each(actions: Iterable[Action | type[Action]]) -> Iterable[Action | type[Action]]:
    _mistakes.check_list("actions", actions)
    for action in actions:
        is_class = isinstance(action, type) and issubclass(action, Action)
        if not is_class and not isinstance(action, Action):
            raise UsageError(
                f"`actions` holds {action!r}, which is neither an `Action` nor a subclass of it."
            )
        yield action
