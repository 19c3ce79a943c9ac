"""Every exception that Rolecraft raises derives from `RolecraftError`.

A message says what was wrong, with which value, and what to do about it: names in backticks,
values as `repr`. Exceptions of user code are never wrapped: they come out as they were raised,
with a note (PEP 678) that says which role and action raised them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar


class RolecraftError(Exception):
    """Base of every exception that Rolecraft raises.

    Each can be pickled, whatever its constructor takes: worker processes raise them too.
    """

    has_lines: ClassVar[bool] = False
    """Whether the message is a list, whose lines a command keeps; else it is told in one line."""

    def __reduce__(self) -> tuple[Any, ...]:
        # By default a copy is made by calling the class with the finished text.
        kind, args, *state = tuple(super().__reduce__())
        return (_unpickled, (kind, args), *state)


def _unpickled(kind: type[RolecraftError], args: tuple[Any, ...]) -> RolecraftError:
    return kind.__new__(kind, *args)


class UsageError(RolecraftError):
    """The calling code is wrong: an unknown keyword, a bad value, a missing part."""


def forgotten_await(thing: object) -> str:
    """What to add to an error about `thing`: nothing, unless it is a call that was not awaited."""
    import inspect  # only needed on the way out

    if not inspect.isawaitable(thing):
        return ""
    if inspect.iscoroutine(thing):
        thing.close()  # nobody will await it any more, and Python need not warn of that too
    return " It was not awaited: write `await` in front of the call."


class UnknownName(UsageError):
    """A name is not among the known ones. Lists them, nearest first."""

    def __init__(self, what: str, name: str, known: Iterable[str], *, hint: str = "") -> None:
        import difflib  # only needed on the way out

        self.name = name
        self.known = sorted(known)
        near = difflib.get_close_matches(name, self.known, n=1)
        if not near:  # `GRPO` is nothing like `grpo`, letter by letter
            lower = {known.lower(): known for known in self.known}
            near = [lower[each] for each in difflib.get_close_matches(name.lower(), lower, n=1)]
        text = f"{what} {name!r} is not known."
        if near:
            text += f" Did you mean {near[0]!r}?"
        listed = ", ".join(f"`{known}`" for known in self.known) or "none"
        super().__init__(f"{text} Known: {listed}.{' ' + hint if hint else ''}")


class DuplicateRole(UsageError):
    """Two roles of one environment have the same name."""


class NoActions(UsageError):
    """A role was asked to act and has no actions."""


class StateOutOfRange(UsageError):
    """`_set_state(i)` or `rc.state = i` with an index that the action list does not have."""


class ActionLimitReached(RolecraftError):
    """One `run(message)` started more actions than the role's `max_actions`."""


class ToolError(RolecraftError):
    """What a tool tells the model that called it. Raise it in yours: its text goes as it is.

    Of Rolecraft's errors only these (a `SandboxFileError` is one), `ActionTimeout` and
    `ApprovalDenied` go back to the model; any other ends the run.
    """


class BadToolCall(ToolError):
    """A model called a tool that there is not, or with arguments that it does not take.

    Attributes: `tool` (the name that was called), `problem`.
    """

    def __init__(self, tool: str, problem: str) -> None:
        self.tool, self.problem = tool, problem
        super().__init__(f"`{tool}` was called wrongly: {problem}")


class ToolServerError(ToolError):
    """A server of tools did not answer: it cannot be started, has ended, or broke its protocol.

    Attributes: `server` (its name), `reason`.
    """

    def __init__(self, server: str, reason: str) -> None:
        self.server, self.reason = server, reason
        super().__init__(f"The tool server `{server}` {reason}.")


class StepLimitReached(RolecraftError):
    """A model went on calling tools.

    Attributes: `role`, `action` (names), `steps` (how often the model was asked).
    """

    def __init__(self, role: str, action: str, steps: int) -> None:
        self.role, self.action, self.steps = role, action, steps
        super().__init__(
            f"Action {action!r} of role {role!r} asked its model {steps} times, and each answer "
            f"called tools. If the task needs more, raise its `max_steps`: "
            f"`actions = [UseTools(max_steps=...)]`."
        )


class InvalidAnswer(RolecraftError):
    """A model's answer did not have the type that the question asked for."""


class ModelError(RolecraftError):
    """A model could not answer.

    Attributes: `model` (its name), `attempts` (how often it was asked), `status` (the last HTTP
    status, None where there was none), `usage` (what attempts were billed without an answer, None
    if none is known to have been). What the library underneath raised is the `__cause__`.
    """

    def __init__(
        self,
        message: str,
        *,
        model: str = "",
        attempts: int = 0,
        status: int | None = None,
        usage: Any = None,  # a `Usage`, which stands a floor higher
    ) -> None:
        self.model, self.attempts, self.status = model, attempts, status
        self.usage = usage
        super().__init__(message)


class MissingKey(ModelError):
    """The provider of a model wants an API key and none was found."""


class ModelUnavailable(ModelError):
    """A model did not answer after all retries (rate limit, time-out, server error)."""


class BadModelResponse(ModelError):
    """A model's server answered something that is not a completion."""


class AdapterError(ModelError):
    """An adapter cannot be served: damaged, of another base model, of too large a rank, …"""


class RealModelForbidden(ModelError):
    """A real model was called while `forbid_real_models` is in force."""


class UnexpectedModelCall(ModelError):
    """A scripted model was called more often than its script has replies."""


class NobodyAnswers(ModelError):
    """A person was asked, and there is no terminal or its input has ended."""


class PlanAbandoned(RolecraftError):
    """A plan was changed as often as `Planning` allows, and still fails or is not accepted."""


class SandboxError(RolecraftError):
    """A sandbox could not be made, or was lost. What the command in it did is no error."""


class LimitReached(RolecraftError):
    """A limit (money, tokens, calls, rounds, time) would be or was crossed.

    Attributes: `limit` (its name), `allowed`, `used` (both in the limit's unit), `crossing` (all
    about it, a `Crossing`), `decision` (what `on_limit` made of it: "raise", "stop", or a
    `HandOver`), `session` (the conversation it was in), `usage` (what was charged for a call that
    was interrupted, None for none).
    """

    def __init__(
        self,
        message: str,
        *,
        limit: str,
        allowed: float,
        used: float,
        crossing: Any = None,  # a `Crossing`, and a `Decision`, which stand a floor higher
        decision: Any = "raise",
    ) -> None:
        self.limit, self.allowed, self.used = limit, allowed, used
        self.crossing, self.decision = crossing, decision
        self.session = ""
        self.usage: Any = None
        super().__init__(message)


class EndlessRun(LimitReached):
    """A run whose rounds nobody bounded played as many as it may by default."""


class MissingExtra(RolecraftError, ImportError):
    """An optional dependency is not installed. Names the command that installs it."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        self.package, self.extra = package, extra
        super().__init__(
            f"{purpose} needs `{package}`, which is not installed. "
            f"Install it, in a clone of Rolecraft, with: pip install '.[{extra}]'"
        )


class NotRestorable(RolecraftError):
    """Something that an action returned or left behind cannot be had back from the record."""


class Diverged(RolecraftError):
    """A run that follows a record did something else than the record says.

    Attributes: `seq` (number of the first event that differs), `recorded` and `got` (both as JSON
    lines; `got` is empty where nothing happened).
    """

    def __init__(self, seq: int, recorded: str, got: str, hint: str = "") -> None:
        self.seq, self.recorded, self.got = seq, recorded, got
        super().__init__(
            f"The run differs from its record, first at event {seq}.\n  recorded: {recorded}\n"
            f"  now:      {got or 'nothing'}\n"
            + (
                hint
                or "Role code must do the same when it runs again: what is random, slow, or "
                "from outside belongs into the `run` of an action, whose result is recorded."
            )
        )


class OutcomeUnknown(RolecraftError):
    """A killed process left an action under way which must not be done twice.

    Attributes: `role`, `action` (names), `key` (the idempotency key that it ran under).
    """

    def __init__(self, role: str, action: str, key: str) -> None:
        self.role, self.action, self.key = role, action, key
        super().__init__(
            f"Action {action!r} of role {role!r} was under way when the process ended, and it is "
            f"not known whether it took effect (key {key!r}; its class says `repeat = 'never'`). "
            f"Find out, then recover with `on_unknown='redo'`, `on_unknown='skip'`, or a function "
            f"of this error that returns the result."
        )


class ActionTimeout(RolecraftError):
    """An action took longer than its `timeout`. Attributes: `role`, `action`, `seconds`."""

    def __init__(self, role: str, action: str, seconds: float) -> None:
        self.role, self.action, self.seconds = role, action, seconds
        super().__init__(
            f"Action {action!r} of role {role!r} did not end within {seconds:g} s, its `timeout`."
        )


class ApprovalNeeded(RolecraftError):
    """An action waits for a person's permission, and nobody is there to ask.

    Attributes: `role`, `action`, `key` (the idempotency key of the action), `request` (what it is
    about to do).
    """

    def __init__(self, role: str, action: str, key: str, request: str = "") -> None:
        self.role, self.action, self.key, self.request = role, action, key, request
        super().__init__(
            f"Action {action!r} of role {role!r} needs permission: {request}. Give it with "
            f"`recover(..., approve={{{key!r}: True}})`, or an `approver` for the environment."
        )


class ApprovalDenied(RolecraftError):
    """A person did not allow an action. Attributes: `role`, `action`, `by`."""

    def __init__(self, role: str, action: str, by: str = "") -> None:
        self.role, self.action, self.by = role, action, by
        super().__init__(
            f"Action {action!r} of role {role!r} was not allowed{f' by {by}' if by else ''}."
        )


class ProtocolViolation(RolecraftError):
    """A role wanted to say what its message protocol forbids, again and again.

    Attributes: `role`, `problem` (what was wrong with the last attempt).
    """

    def __init__(self, role: str, problem: str) -> None:
        self.role, self.problem = role, problem
        super().__init__(
            f"Role {role!r} keeps saying what its message protocol forbids: {problem}. Mend the "
            f"action, allow it in the protocol, or use `on_violation='report'`."
        )


class TraceError(RolecraftError):
    """A trajectory or log cannot be read at all: it is missing, empty or of no known format.

    Its text ends with `listed`, which is the same for all files: the formats that are known.
    """

    def __init__(self, path: Path | str, reason: str, *, listed: str = "") -> None:
        self.path, self.reason, self.listed = str(path), reason, listed
        super().__init__(f"`{path}`: {reason}{listed}")

    @property
    def short(self) -> str:
        """The text without what is listed."""
        return str(self).removesuffix(self.listed)


class JournalError(RolecraftError):
    """A journal cannot be written: another process writes it, the disk is full, …

    Attributes: `path`, `reason`. What was written before stays readable.
    """

    def __init__(self, path: Path | str, reason: str) -> None:
        self.path, self.reason = str(path), reason
        super().__init__(f"`{path}`: {reason}")


class LongTermMemoryError(RolecraftError):
    """A long-term memory cannot be read or written. Attributes: `path`, `reason`."""

    def __init__(self, path: Path | str, reason: str) -> None:
        self.path, self.reason = str(path), reason
        super().__init__(f"The long-term memory `{path}` {reason}")


class StoreError(RolecraftError):
    """The index of trajectories cannot be read or written. It can be rebuilt from journals."""
