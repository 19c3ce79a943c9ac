"""Blocking functions beside the event loop: each call in a thread of its own, contextvars kept.

Invariant: the caller never waits for a thread that it gave up. A call that is cancelled (a time
limit, a stopped run) comes back at once; its thread cannot be killed and goes on until the
function returns, and what it returns is dropped. Threads are daemons, so one that hangs does not
keep the program from ending, as those of `asyncio.to_thread` would. Idle ones are used again.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from queue import SimpleQueue
from threading import Thread
from typing import Any

_Jobs = SimpleQueue[Callable[[], None]]
_idle: list[_Jobs] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # a forked process has none of the threads


async def in_thread(function: Callable[..., Any], /, **arguments: Any) -> Any:
    """What `function(**arguments)` returns or raises, without blocking the event loop."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    context = copy_context()
    jobs = _idle.pop() if _idle else _new_thread()

    def settle(result: Any, error: BaseException | None) -> None:
        if not done.done():
            done.set_result((result, error))

    def job() -> None:
        outcome: tuple[Any, BaseException | None]
        try:
            outcome = context.run(function, **arguments), None
        except BaseException as error:  # whatever it is, the caller raises it
            outcome = None, error
        _idle.append(jobs)  # before the caller goes on, so that its next call finds this thread
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, *outcome)

    jobs.put(job)
    result, error = await done
    if error is not None:
        try:
            raise error
        finally:
            del error  # else the traceback holds this frame, and the frame the traceback
    return result


def _new_thread() -> _Jobs:
    """The queue of a new thread, which works it off."""
    jobs: _Jobs = SimpleQueue()

    def work() -> None:
        while True:
            job = jobs.get()
            job()
            del job  # it holds the arguments and the result

    Thread(target=work, name="rolecraft-tool", daemon=True).start()
    return jobs
