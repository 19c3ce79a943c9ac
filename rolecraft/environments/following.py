"""Following a record: recover, replay and fork a run.

A run is a program that asks models, does things, and hears from outside. Role code is run again
from the beginning; what was asked and done comes from the record (`PastRun`), and what came from
outside is given again where the record has it. Each event that this produces must be the recorded
one. Where the record ends, the run goes on live, or, in a replay, is over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rolecraft.environments import free_running, obeying
from rolecraft.environments.environment import Environment
from rolecraft.errors import Diverged, NotRestorable, OutcomeUnknown, UnknownName, UsageError
from rolecraft.messages import MESSAGE_TO_ALL, Message
from rolecraft.roles import crossing
from rolecraft.roles.serving import message_of
from rolecraft.trajectories.backlog import next_generation
from rolecraft.trajectories.codec import encode_event, encode_line
from rolecraft.trajectories.events import Event
from rolecraft.trajectories.past import PastRun
from rolecraft.trajectories.recovery import Kept, as_filed, split
from rolecraft.trajectories.trajectory import Trajectory, stop_reason_of

if TYPE_CHECKING:
    from rolecraft.models.base import Model
    from rolecraft.roles.role import Role


def load_run(source: Trajectory | Path | str) -> tuple[Trajectory, list[Event]]:
    """A recorded run, and its events as a file has them."""
    if not isinstance(source, Trajectory):
        from rolecraft.trajectories.jsonl import load

        source = load(source)
    return source, as_filed(source.events)


def replayable(trajectory: Trajectory, known: list[Event]) -> list[Event]:
    """The events that a replay can play again.

    Of a run that was killed or cancelled these are the rounds that were over: what an action that
    was cut off would have done is in no record.
    """
    kept = split(trajectory.id, trajectory.about, known)
    whole = kept.stopped is not None and stop_reason_of(kept.stopped) != "cancelled"
    return known if whole else kept.known


_OF_ENVIRONMENT = ("roles", "seed", "schedule")


def follow(
    env: Environment,
    trajectory: str,
    about: Mapping[str, Any],
    past: PastRun,
    *,
    journal: Path | None = None,
    in_sinks: bool = False,
    whole: Sequence[Event] = (),
) -> None:
    """Make an environment that has not begun follow a record, or a part of `whole`.

    It must have passed `check`.
    """
    env.id = trajectory
    env.about = {name: value for name, value in about.items() if name not in _OF_ENVIRONMENT}
    env.seed = about.get("seed", env.seed)
    env.journal = journal
    hired = {event.data["name"] for event in (*past.known, *whole) if event.kind == "hire"}
    env.to_hire = {name: env.roles.pop(name) for name in list(env.roles) if name in hired}
    env.rewatch()
    env.past = past
    recorder = env.recorder
    recorder.follow(past.known, in_sinks=in_sinks)
    recorder.expects = past.expects
    if env.budget is not None:
        past.bill(env.budget)
    if env.backlog is not None and journal is not None:
        env.backlog.generation = next_generation(journal)
        env.backlog.left_over = True


def check(
    env: Environment, about: Mapping[str, Any], known: Sequence[Event], approve: Any = None
) -> None:
    """Raise `UsageError` unless `env` can go on with the record: nothing is changed before.

    It must have the same roles, be of this Rolecraft, and have the decisions in `approve` to make.
    """
    if any(event.kind == "action" and "run" not in event.data for event in known):
        raise UsageError(
            "This was recorded by an earlier Rolecraft, or by another tool: it can be shown and "
            "annotated, and not gone on with, replayed or forked."
        )
    hired = [event.data for event in known if event.kind == "hire"]
    _check_roles(env, [*(about.get("roles") or ()), *hired])
    if approve is not None:
        _check_approvals(known, approve)


def _check_approvals(known: Sequence[Event], approve: Any) -> None:
    wants = "`approve` wants decisions by key, `{key: True}` or `{key: False}`"
    if not isinstance(approve, Mapping):
        raise UsageError(f"{wants}, got {approve!r}.")
    asked = {event.data["key"]: event for event in known if event.kind == "approval"}
    waiting = [key for key, event in asked.items() if event.data.get("granted") is None]
    for key, granted in approve.items():
        if not isinstance(granted, bool):
            raise UsageError(f"{wants}, got {granted!r} for {key!r}.")
        if key not in asked:
            listed = ", ".join(map(repr, waiting)) or "none"
            raise UsageError(f"No action waits under the key {key!r}. Waiting: {listed}.")


def _check_roles(env: Environment, theirs: Sequence[Any]) -> None:
    ours = env.header_about()["roles"]
    if encode_line({"roles": ours}) == encode_line({"roles": theirs}):
        return
    named = {role["name"]: role for role in theirs or () if isinstance(role, dict)}
    for role in ours:
        other = named.get(role["name"])
        if other is None:
            raise UsageError(
                f"The record is of the roles {list(named)}; this team has {role['name']!r}. Make "
                f"the same team as then."
            )
        if role != other:
            differing = [key for key in {**role, **other} if role.get(key) != other.get(key)]
            last = [str(each.get("class", "")).rpartition(".")[2] for each in (role, other)]
            hint = (
                " It is a class of the same name in another module: the record was made by running "
                "the file as a script (`__main__`), or from another folder."
                if differing == ["class"] and last[0] == last[1]
                else ""
            )
            raise UsageError(
                f"Role {role['name']!r} differs from the one in the record in "
                f"{', '.join(f'`{key}`' for key in differing)}: {role.get(differing[0])!r}, "
                f"recorded {other.get(differing[0])!r}. Make the same team as then.{hint}"
            )
    missing = [name for name in named if name not in env.roles]
    raise UsageError(
        f"The record has the roles {list(named)} in this order; this team has {list(env.roles)}"
        + (f": {missing} are missing." if missing else ".")
    )


async def redrive(env: Environment, known: list[Event]) -> int | None:
    """Play the run again up to the end of the record.

    Returns the number of the round up to which the last call of `run` was to go, if the record
    says one. Raises `Diverged` where the run does something else than the record.
    """
    recorder = env.recorder
    bound: int | None = None
    while recorder.next < len(known):
        event = known[recorder.next]
        free = env.schedule == "free" and event.role in env.roles
        if event.time > env.rounds or (free and event.kind != "signal"):
            await _play(env, known)
            continue
        if event.kind == "message":
            _say(env, event)
        elif event.kind == "reset":
            env.roles[event.role].reset()
        elif event.kind == "action_swap":
            raise NotRestorable(
                f"Event {event.seq} is a swap of the actions of role {event.role!r} from outside "
                f"of a round, which cannot be made again. Swap in the role's own code."
            )
        else:
            if event.kind == "hire":
                env.add_role(env.to_hire.pop(event.data["name"]))  # writes it
                continue
            if event.kind == "start":
                bound = env.rounds + int(event.data["rounds"])
            elif event.kind == "stop":
                bound = None
            elif event.kind == "resume":
                for name in event.data.get("retry", ()):
                    env.roles[name].take_up_again()
            elif event.kind == "limit":
                crossing.count(env.budget, event)
            recorder.add(replace(event, data=dict(event.data), seq=-1))
    return bound


async def _play(env: Environment, known: list[Event]) -> None:
    recorder = env.recorder
    before = recorder.next
    try:
        if env.is_idle:  # a round in which all only listen leaves nothing in the record
            raise _differs(env, known[before], "nobody has anything to do")
        if env.schedule == "free":
            await free_running.replay_turn(env, known[before])
        else:
            await env.play_round()
    except (Diverged, NotRestorable, OutcomeUnknown):
        raise
    except Exception:
        if recorder.next >= len(known):  # it was not raised then: it is new
            raise


def _differs(env: Environment, event: Event, got: str) -> Diverged:
    return Diverged(event.seq, encode_event(event).decode().rstrip(), got)


def _say(env: Environment, event: Event) -> None:
    """Give again a message that came from outside of a round."""
    message = message_of(event)
    role = env.roles.get(event.role)
    if role is not None:
        role.publish_message(message)
    else:
        env.publish_message(message)


def begin(env: Environment, *, started: bool) -> int | None:
    """Give the idea, which the header has, to a run that was killed before it was recorded.

    Returns the bound of its rounds. `started`: the bound itself is recorded already.
    """
    task = env.about.get("task")
    if not isinstance(task, dict) or "prompt" not in task:
        raise UsageError("The record has no event: nothing happened yet, run the team anew.")
    rounds = task.get("rounds")
    if rounds is not None and not started:
        env.record(Event("start", data={"rounds": rounds}))
    env.publish_message(Message(task["prompt"], send_to=task.get("to", MESSAGE_TO_ALL)))
    return rounds


# --- recover, replay, fork --------------------------------------------------------------------


def resume_event(kept: Kept, approve: Mapping[str, bool]) -> Event | None:
    """What the record says about going on; None after a kill, which leaves no trace."""
    if kept.stopped is None:
        return None
    data: dict[str, Any] = {"after": kept.stopped.data.get("reason")}
    if kept.failed is not None:
        failed = kept.failed
        data["failed"] = {"role": failed.role, "content": failed.content, **failed.data}
        data["failed"].pop("ends", None)
    if approve:
        data["approve"] = dict(approve)
    return Event("resume", data=data)


class Branch(NamedTuple):
    """What a fork follows, and the messages that are said otherwise in it, by id."""

    known: list[Event]
    said: dict[str, Message]


def branch(known: list[Event], at: int, message: str | Message | None) -> Branch:
    """The events up to and with number `at`, whose message is changed.

    Raises `UsageError` if there is no such event, or it is not a message and one is given.
    """
    if not 0 <= at < len(known):
        raise UsageError(f"`fork(at={at})`: the record has the events 0 to {len(known) - 1}.")
    if message is None:
        return Branch(known[: at + 1], {})
    event = known[at]
    if event.kind != "message":
        near = [each.seq for each in known if each.kind == "message"]
        closest = min(near, key=lambda seq: abs(seq - at), default=None)
        raise UsageError(
            f"`fork(at={at}, message=...)`: event {at} is {_a(event.kind)}, no message. The "
            f"nearest message is event {closest}."
        )
    data = dict(event.data)
    content = message if isinstance(message, str) else message.content
    if "instruct_content" in data:
        if isinstance(message, str) or message.instruct_content is None:
            raise UsageError(
                f"Message {at} carries a `{data['instruct_type']}`, which role code reads. Give "
                f"the changed one: `fork(at={at}, message=Message(..., instruct_content=...))`."
            )
        data["instruct_content"] = message.instruct_content.model_dump(mode="json")
    changed = replace(event, content=content, data=data)
    followed = _with_result(known[:at], event, changed) or [*known[:at], changed]
    return Branch(followed, {str(data.get("id")): message_of(changed)})


def _with_result(before: list[Event], said: Event, changed: Event) -> list[Event] | None:
    """Where the message says what an action returned: the events up to that, changed as well.

    Role code has seen the result before it was said, so what comes between may change.
    """
    for event in reversed(before):
        if event.kind != "action_result" or event.cause != said.cause:
            continue
        result = event.data.get("result")
        if result == said.content:
            result = changed.content
        elif isinstance(result, dict) and result.get("content") == said.content:
            result = {**result, "content": changed.content}
            if "instruct" in result and "instruct_content" in changed.data:
                value = changed.data["instruct_content"]
                result["instruct"] = {**result["instruct"], "value": value}
        elif isinstance(result, dict) and result.get("value") == said.data.get("instruct_content"):
            result = {**result, "value": changed.data["instruct_content"]}
        else:
            return None
        return [*before[: event.seq], replace(event, data={**event.data, "result": result})]
    return None


def _a(word: str) -> str:
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"


def replace_role(env: Environment, new: Role) -> None:
    """Let `new` take the place of the role of its name, with what that one remembers.

    Raises `UnknownName` if there is none.
    """
    if new.name not in env.roles:
        raise UnknownName("Role", new.name, env.roles)
    old = env.roles[new.name]
    for attribute in ("memory", "inbox", "news", "missed", "said", "sessions", "runs"):
        setattr(new.rc, attribute, getattr(old.rc, attribute))
    old.rc.env = None
    new.rc.env, new.rc.log = env, env.recorder
    env.roles[new.name] = new  # in the same place of the order
    env.rewatch()


def give_model(env: Environment, model: Model | str) -> None:
    """Let one model answer all roles."""
    env.model = model
    for role in env.roles.values():
        role.model = None


def later_inputs(known: list[Event], after: int, names: Mapping[str, Role]) -> list[Message]:
    """What the user said after event `after`; not what observers had said to a role."""
    return [
        message_of(event)
        for event in known
        if event.seq > after
        and event.kind == "message"
        and event.role not in names
        and event.role != obeying.SENDER
    ]
