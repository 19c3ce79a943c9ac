"""A team's run as a stream: events as they are recorded, and pieces of answers before them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rolecraft.trajectories.events import Event

if TYPE_CHECKING:
    from rolecraft.environments.team import Team


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of an answer that a model is giving; the whole follows as a `model_call` event.

    An empty `text` takes the pieces of this answer back: another attempt begins.
    """

    role: str
    session: str
    """The conversation: `data["session"]` of the event that follows."""
    text: str


class _Ends:
    """What ends the stream."""


async def stream(
    team: Team, idea: str | None, *, rounds: int | None, send_to: Any
) -> AsyncGenerator[Event | Delta, None]:
    """See `Team.stream`."""
    env = team.env
    queue: asyncio.Queue[Event | Delta | _Ends] = asyncio.Queue()

    class Queue:
        def write(self, events: Sequence[Event]) -> None:
            for event in events:
                queue.put_nowait(event)

    def heard(role: str, session: str, text: str) -> None:
        queue.put_nowait(Delta(role, session, text))

    async def work() -> None:
        try:
            await team.run(idea, rounds=rounds, send_to=send_to)
        finally:
            queue.put_nowait(_Ends())

    sink = Queue()
    if idea is not None:
        # Before the record's header is written.
        team.name_task(idea, send_to=send_to, rounds=rounds)
    env.recorder.sinks = (*env.recorder.sinks, sink)
    before, env.on_delta = env.on_delta, heard
    task = asyncio.create_task(work())
    try:
        while not isinstance(each := await queue.get(), _Ends):
            yield each
        await task
    finally:
        env.recorder.sinks = tuple(other for other in env.recorder.sinks if other is not sink)
        env.on_delta = before
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
