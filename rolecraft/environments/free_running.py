"""The `free` schedule: no rounds, a role acts as soon as it has heard something.

A turn is committed when it ends, as a whole. Its time is the number of turns in which somebody did
something that were committed when it began, plus one, so the record tells what each role could
have heard; the order of the turns is what happened and not what the program determines.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rolecraft.roles import keeping
from rolecraft.trajectories.events import Event, StopReason
from rolecraft.trajectories.recorder import Turn

if TYPE_CHECKING:
    from rolecraft.environments.environment import Environment
    from rolecraft.roles.role import Role


async def run(env: Environment, last: float) -> StopReason:
    """Let roles act until all are idle, or `last` turns are over. See `Environment.run`."""
    env.say_resumed()
    under_way: dict[asyncio.Task[BaseException | None], Role] = {}
    reason: StopReason | None = None
    try:
        while True:
            if reason is None:
                busy = set(under_way.values())
                for role in env.roles.values():
                    if env.turns >= last and role.rc.inbox:
                        reason = "rounds"
                        break
                    if role.rc.inbox and role not in busy:
                        under_way[_begin(env, role)] = role
            if not under_way:
                return reason or "idle"
            done, _ = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
            ended = {under_way.pop(task): task.result() for task in done}
            for role in env.roles.values():  # those that end together, in the declared order
                if role in ended:
                    reason = await _end(env, role, ended[role]) or reason
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        for role in under_way.values():
            env.end_turn(role)


def _begin(env: Environment, role: Role) -> asyncio.Task[BaseException | None]:
    env.turns += 1
    env.begin_turn(role, time=env.rounds + 1, held=True)
    return asyncio.create_task(env.turn_of(role))


async def _end(env: Environment, role: Role, error: BaseException | None) -> StopReason | None:
    if not (isinstance(role.rc.log, Turn) and role.rc.log.is_empty):  # one who did something
        env.rounds += 1
        env.recorder.time = env.rounds
    env.end_turn(role)
    await keeping.keep_all([role], failed=error is not None)
    return env.after_turns({} if error is None else {role.name: error})


async def replay_turn(env: Environment, event: Event) -> None:
    """Play the recorded turn that begins with `event`, with what its role had heard by then."""
    role = env.roles[event.role]
    heard = [m for m in role.rc.inbox if env.heard_at.get(m.id, 0) < event.time]
    later = [m for m in role.rc.inbox if m not in heard]
    env.turns += 1
    env.begin_turn(role, time=event.time, held=True)
    role.rc.inbox = heard
    error = await env.turn_of(role)
    role.rc.inbox = [*role.rc.inbox, *later]
    await _end(env, role, error)
