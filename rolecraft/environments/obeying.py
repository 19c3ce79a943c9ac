"""Doing what observers want, once a round is over.

Invariant: whatever is done is recorded outside of the roles' turns, so a run that follows a record
takes it from there, and what observers want meanwhile changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rolecraft.errors import UnknownName
from rolecraft.messages import Message
from rolecraft.trajectories.events import Event
from rolecraft.trajectories.observer import Reviews

if TYPE_CHECKING:
    from rolecraft.environments.environment import Environment
    from rolecraft.trajectories.observer import Directive

SENDER = "environment"
"""Who says a nudge."""


def obey(env: Environment, *, goes_on: bool) -> Directive | None:
    """Do what observers want; the directive to stop, if there is one.

    Each is one event: a nudge is a message of the environment's with `data` in its metadata, the
    others are notes. So is a nudge if the run ends with this round: nobody would hear it. Raises
    `UnknownName` for a nudge to a role that does not exist.
    """
    recorder = env.recorder
    wanted = [d for _, d in sorted(recorder.directives, key=lambda told: told[0].seq)]
    recorder.directives.clear()
    for observer in env.observers:
        if isinstance(observer, Reviews):
            wanted += observer.on_round(env.header)
    if not wanted or recorder.following:
        return None
    stop = next((each for each in reversed(wanted) if each.do == "stop"), None)
    for directive in wanted:
        if directive.do == "nudge" and goes_on and stop is None:
            _nudge(env, directive)
        elif directive.do != "stop" or directive.data:
            _note(env, directive)
    return stop


def _note(env: Environment, directive: Directive) -> None:
    data = {"do": directive.do, **directive.data}
    if directive.role:
        data["role"] = directive.role
    env.recorder.add(Event("note", content=directive.reason, data=data))


def _nudge(env: Environment, directive: Directive) -> None:
    if directive.role not in env.roles:
        raise UnknownName("Role to nudge", directive.role, env.roles)
    message = Message(directive.reason, SENDER, sent_from=SENDER, send_to=directive.role)
    message.metadata = {"nudge": dict(directive.data)}
    env.publish_message(message)
