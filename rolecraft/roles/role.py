"""Roles: who acts. The think/act/react state machine.

`run(message)` takes a message up and calls `react`, which loops `_think` (choose the next action)
and `_act` (run it; its message is remembered and published). Override any of `_observe`,
`_think`, `_act`, `_react`; what you return is normalised in one place, `_take_up`.

    run ──► _observe ──► react ──► _react:  while _think(): _act()
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from rolecraft._declared import Declared
from rolecraft.actions.action import Action, running
from rolecraft.errors import ActionLimitReached, NoActions, UsageError
from rolecraft.messages import SELF, USER, USER_REQUIREMENT, Message, address_of, addresses_of
from rolecraft.roles import _replies, choosing, conversations
from rolecraft.roles.context import RoleContext, RoleReactMode
from rolecraft.trajectories.events import Event
from rolecraft.trajectories.recorder import Log, Recorder
from rolecraft.trajectories.trajectory import Trajectory

if TYPE_CHECKING:
    from rolecraft.models.base import Completion, Model, Sampling, Session
    from rolecraft.roles.planning import Step

T = TypeVar("T")


class _State:
    """What a role has besides its fields. Kept apart so that `Declared` takes none for a field."""

    rc: RoleContext
    _acting: bool
    _counts: list[int]
    _log: Log | None
    _solo: Trajectory | None
    _last_event: int | None
    _last_action: Action | None
    _outbox: list[Message]
    _chooser: choosing.Chooser | None
    _plan: list[Step] | None


class Role(_State, Declared):
    """Somebody who acts: a name, a purpose, and a list of actions.

    Subclass it and set the fields you need; nothing else is required. `model` is a `Model` or a
    string such as `"openai/gpt-4o-mini"`; without one the role uses its environment's. `watch`
    lists the actions whose messages the role takes up (the user's, unless set). One `run` starts
    at most `max_actions` actions. `system` replaces the prompt made from the fields above it.
    """

    name: str = ""
    profile: str = ""
    goal: str = ""
    constraints: str = ""
    desc: str = ""
    system: str = ""
    actions: Sequence[Action | type[Action]] = ()
    watch: Sequence[type[Action] | str] | None = None
    react_mode: RoleReactMode | str = RoleReactMode.BY_ORDER
    model: Model | str | None = None
    max_actions: int = 1000

    def __init__(self, *args: Any, **fields: Any) -> None:
        if args and type(self)._own_fields is Role._own_fields:
            raise UsageError(
                f"`{type(self).__name__}` takes keywords only: `{type(self).__name__}(name=...)`."
            )
        self._acting = False
        self._counts = [0, 0, 0]  # messages, sessions, actions of this run
        self._log = self._solo = self._last_event = self._last_action = None
        self._chooser = self._plan = None
        self._outbox = []
        self.rc = RoleContext()
        super().__init__(*args, **fields)
        if not self.name:
            self.name = type(self).__name__
        self.rc.cursor.owner = self.name
        if "actions" not in fields:
            self.set_actions(type(self).actions)
        if self.watch is not None:
            self._watch(self.watch)
        if self.react_mode is not RoleReactMode.BY_ORDER:
            self._set_react_mode(self.react_mode)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "actions":
            self.set_actions(value)
        else:
            self.__dict__[name] = value

    # --- the action list ---------------------------------------------------------------------

    def set_actions(self, actions: Iterable[Action | type[Action]]) -> None:
        """Replace the action list, at any moment and at once.

        An action that already runs finishes and its message counts; no other action of the old
        list starts. The new list begins at its first action, whether `rc.todo = None`,
        `_set_state(0)` or nothing follows, and is worked off in order.
        """
        bound = [self._bind(action) for action in _each(actions)]
        self.rc.cursor.replace(bound, in_order=self._acting)
        self.__dict__["actions"] = self.rc.cursor.actions
        if self._acting:
            names = [action.name for action in bound]
            self._write(Event("action_swap", data={"actions": names}, cause=self._cause()))

    _init_actions = set_actions

    def set_action(self, action: Action | type[Action]) -> None:
        """Replace the action list by one action."""
        self.set_actions([action])

    def add_actions(self, *actions: Action | type[Action]) -> None:
        """Append to the action list; the place in it stays."""
        bound = [self._bind(action) for action in _each(actions)]
        self.rc.cursor.append(bound)
        self.__dict__["actions"] = self.rc.cursor.actions

    def _bind(self, action: Action | type[Action]) -> Action:
        if isinstance(action, type):
            action = action()
        if action._owner is not None and action._owner is not self:
            import copy  # an instance shared by two roles would speak for the wrong one

            action = copy.copy(action)
        action._owner = self
        return action

    @property
    def states(self) -> list[str]:
        """The action list as text: `["0. WriteDirectory", …]`."""
        return [f"{index}. {action.name}" for index, action in enumerate(self.rc.cursor.actions)]

    def _set_state(self, state: int) -> None:
        """Make action number `state` the next one; -1 for none. Raises `StateOutOfRange`."""
        self.rc.cursor.move(state)

    def set_todo(self, action: Action | None) -> None:
        """Make `action` the next one; it need not be in the list."""
        self.rc.todo = self._bind(action) if action is not None else None

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

    def _watch(self, actions: Iterable[type[Action] | Action | str] | type[Action] | str) -> None:
        """Take up the messages of these actions (and only these, besides those sent to me)."""
        self.rc.watch = addresses_of(actions)
        if self.rc.env is not None:
            self.rc.env.rewatch()

    # --- running -----------------------------------------------------------------------------

    async def run(
        self, message: str | Message | Iterable[str | Message] | None = None
    ) -> Message | None:
        """Take up `message` (and what is in the inbox), react, return the last message.

        None if there was nothing to take up or nothing to say. Exceptions of actions come out as
        they were raised, with a note that names role and action.
        """
        if self._acting:
            raise UsageError(f"Role {self.name!r} is already running; wait for it to finish.")
        for given in [message] if isinstance(message, (str, Message)) else message or ():
            self.put_message(given)
        self._counts[2] = 0
        self._acting = True
        try:
            if not await self._observe():
                return None
            return self._take_up(await self.react())
        finally:
            self._acting = False

    def put_message(self, message: str | Message) -> None:
        """Put a message into the inbox, to be observed by the next run."""
        if not isinstance(message, Message):
            message = Message(message)
        if not message.cause_by and not message.sent_from:
            message.cause_by, message.sent_from = USER_REQUIREMENT, USER
        self.rc.inbox.append(message)

    async def _observe(self) -> int:
        """Move the inbox into memory and `rc.news`; the number of new messages."""
        rc = self.rc
        rc.news, rc.inbox = rc.inbox, []
        for message in rc.news:
            if not message.id:  # it came straight to `run`, not through an environment
                self._number(message, message.sent_from)
                self._log_now().add_message(message, None)
            rc.memory.add(message)
        self._last_event = rc.news[-1].event if rc.news else None
        return len(rc.news)

    async def react(self) -> Message | None:
        """Work until there is nothing to do. Returns the last message."""
        try:
            return await self._react()
        finally:
            self.rc.cursor.rest()
            choosing.forget(self)

    async def _react(self) -> Message | None:
        """Loop `_think` and `_act`; stops when `_think` returns False or leaves no `rc.todo`."""
        if not self.rc.cursor.actions:
            raise NoActions(
                f"Role {self.name!r} has no actions. Set `actions = [...]` on its class, or pass "
                f"`{type(self).__name__}(actions=[...])`."
            )
        last: Message | None = None
        bound = self.rc.max_react_loop if self.rc.react_mode is RoleReactMode.REACT else None
        taken = 0
        while bound is None or taken < bound:
            if await self._think() is False or self.rc.todo is None:
                break
            last = self._take_up(await self._act()) or last
            taken += 1
        return last

    async def _think(self) -> bool | None:
        """Choose the next action by setting the state; False when there is nothing to do."""
        return await choosing.next_action(self)

    async def _act(self) -> Message | None:
        """Run `rc.todo` and return its message. Raises `UsageError` if there is nothing to do."""
        todo = self.rc.todo
        if todo is None:
            raise UsageError(f"Role {self.name!r} has nothing to do: `rc.todo` is None.")
        result = await (todo.run(self.rc.history) if todo._takes_history else todo.run())
        return _replies.as_reply(result, todo, self)

    def _take_up(self, message: Message | None) -> Message | None:
        """Attribute, remember, record and publish a message of mine; once, however often called."""
        if message is None or (message.id and message.sent_from == self.name):
            return message
        message = _replies.as_reply(message, self._last_action, self)
        assert message is not None
        message.route()
        if not message.cause_by and self._last_action is not None:
            message.cause_by = self._last_action.address
        message.sent_from = self.name
        if self.rc.env is not None:
            self.rc.env.check_receivers(message)
        self._number(message, self.name)
        self._last_event = self._log_now().add_message(message, self._cause())
        self.rc.memory.add(message)
        if SELF in message.send_to:
            self.rc.inbox.append(message)
        self._outbox.append(message)
        return message

    def publish_message(self, message: str | Message) -> Message:
        """Say something now, apart from what the action returns. Delivered after this turn."""
        published = self._take_up(message if isinstance(message, Message) else Message(message))
        assert published is not None
        return published

    @property
    def is_idle(self) -> bool:
        """True when the role neither acts nor has anything in its inbox."""
        return not self._acting and not self.rc.inbox

    # --- asking a model ----------------------------------------------------------------------

    @property
    def has_model(self) -> bool:
        """True if the role, or the environment around it, has a model."""
        return self.model is not None or (self.rc.env is not None and self.rc.env.has_model)

    @overload
    async def ask(
        self,
        prompt: str,
        *,
        system: str | None = None,
        sampling: Sampling | None = None,
        session: Session | None = None,
    ) -> str: ...
    @overload
    async def ask(
        self,
        prompt: str,
        *,
        returns: type[T],
        system: str | None = None,
        sampling: Sampling | None = None,
        session: Session | None = None,
    ) -> T: ...
    @overload
    async def ask(
        self,
        prompt: str,
        *,
        returns: Any,  # a `Literal[...]` or `list[...]`, which no type checker takes for a `type`
        system: str | None = None,
        sampling: Sampling | None = None,
        session: Session | None = None,
    ) -> Any: ...
    async def ask(
        self,
        prompt: str,
        *,
        returns: Any = str,
        system: str | None = None,
        sampling: Sampling | None = None,
        session: Session | None = None,
    ) -> Any:
        """Ask the role's model one question, by default in a conversation of its own.

        `returns` is the answer's type: str, a `Literal`, a pydantic model, any type pydantic
        knows. `system` replaces the role's system prompt. Pass `session` (from `open_session`)
        to go on with a conversation. Raises `InvalidAnswer` if the model never gives that type.
        """
        from rolecraft.actions.asking import ask

        session = session or self.open_session(system=system)
        return await ask(session, prompt, returns=returns, sampling=sampling)

    async def _aask(self, prompt: str, system_msgs: list[str] | None = None) -> str:
        """MetaGPT's name for `ask`."""
        return await self.ask(prompt, system="\n".join(system_msgs) if system_msgs else None)

    def open_session(self, *, system: str | None = None) -> Session:
        """A new conversation with the role's model; every call in it is recorded."""
        return conversations.open_session(self, system)

    def _model_answered(self, session: Session, new: Sequence[Message], answer: Completion) -> None:
        conversations.record(self, session, new, answer)

    @property
    def system_prompt(self) -> str:
        """`system`, or a prompt made from name, profile, goal, constraints and desc."""
        return self.system or conversations.system_prompt(self)

    # --- recording ---------------------------------------------------------------------------

    @property
    def trajectory(self) -> Trajectory:
        """What this role did outside an environment, in memory."""
        self._log_now()
        if self._solo is None:
            raise UsageError(f"Role {self.name!r} acts in an environment; see its trajectory.")
        return self._solo

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

    def _log_now(self) -> Log:
        if self._log is None:
            self._solo = Trajectory(self.name, {"roles": [describe(self)]})
            self._log = Recorder(self._solo)
        return self._log

    def _write(self, event: Event) -> int:
        event.role = self.name
        return self._log_now().add(event)

    def _cause(self) -> int | None:
        """The event that led to what happens now: the running action, or the last thing done."""
        now = running.get()
        if now is not None and now.owner is self:
            return now.event
        return self._last_event

    def _number(self, message: Message, sender: str) -> None:
        self._counts[0] += 1
        prefix = self.name if sender == self.name else f"{sender}>{self.name}"
        message.id = f"{prefix}:{self._counts[0]}"

    def _action_starts(self, action: Action, arguments: dict[str, Any]) -> int:
        self._counts[2] += 1
        if self._counts[2] > self.max_actions:
            raise ActionLimitReached(
                f"Role {self.name!r} started {self.max_actions} actions in one run and wants to "
                f"start {action.name!r}. If it swaps its action list without end, mend that; to "
                f"append actions use `add_actions`; else raise `max_actions`."
            )
        cursor = self.rc.cursor
        cursor.start(action)
        data: dict[str, Any] = {"action": action.name, "index": cursor.place}
        fields = action._fields_for_record()
        if fields or arguments:
            data["fields"] = {**fields, **_replies.plain(arguments)}
        event = self._write(Event("action", data=data, cause=self._last_event))
        self._last_event = event
        self._last_action = action
        return event

    def _action_failed(self, action: Action, error: Exception, event: int) -> None:
        note = f"raised in action {action.name!r} of role {self.name!r}"
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
            data = {"type": type(error).__name__, "action": action.name}
            self._write(Event("error", content=str(error), data=data, cause=event))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


def describe(role: Role) -> dict[str, Any]:
    """What a trajectory's header says about a role."""
    return {
        "name": role.name,
        "class": address_of(type(role)),
        "profile": role.profile,
        "actions": [action.name for action in role.rc.cursor.actions],
        "watch": sorted(role.rc.watch),
    }


def _each(actions: Iterable[Action | type[Action]]) -> Iterable[Action | type[Action]]:
    if isinstance(actions, Action) or not isinstance(actions, Iterable):
        raise UsageError(
            f"`actions` wants a list of actions, got {actions!r}: write `[{actions}]`."
        )
    for action in actions:
        is_class = isinstance(action, type) and issubclass(action, Action)
        if not is_class and not isinstance(action, Action):
            raise UsageError(
                f"`actions` holds {action!r}, which is neither an `Action` nor a subclass of it."
            )
        yield action
