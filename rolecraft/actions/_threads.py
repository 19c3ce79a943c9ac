"""Blocking functions beside the event loop: each call in a thread of its own, contextvars kept.

Invariant: the caller never waits for a thread that it gave up. A call that is cancelled (a time
limit, a stopped run) comes back at once; its thread cannot be killed and goes on until the
function returns, and what it returns is dropped. Threads are daemons, so one that hangs does not
keep the program from ending, as those of `asyncio.to_thread` would. Idle ones are used again.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from rolecraft.errors import UsageError

T = TypeVar("T")


@dataclass(slots=True)
class _Call:
    """What a thread works on, and for which event loop."""

    function: Callable[..., Any]
    loop: asyncio.AbstractEventLoop
    given_up: bool = False


@dataclass(frozen=True, slots=True)
class _Slots:
    """Places for threads; `held` says that a call which was given up has its place still."""

    places: asyncio.Semaphore
    held: bool = True


_Jobs = SimpleQueue[Callable[[], None]]
_idle: list[_Jobs] = []
_call: ContextVar[_Call | None] = ContextVar("rolecraft_call_in_thread", default=None)
_slots: ContextVar[_Slots | None] = ContextVar("rolecraft_thread_slots", default=None)
"""How many threads the calls of this context may have at the same time; None: any number."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # a forked process has none of the threads


async def in_thread(function: Callable[..., Any], /, **arguments: Any) -> Any:
    """What `function(**arguments)` returns or raises, without blocking the event loop."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    slots = _slots.get()
    if slots is not None:
        await slots.places.acquire()
    try:
        jobs = _taken()
    except BaseException:  # no thread can be started
        if slots is not None:
            slots.places.release()
        raise
    call = _Call(function, loop)
    context = copy_context()
    context.run(_call.set, call)

    def settle(result: Any, error: BaseException | None) -> None:
        if slots is not None and (slots.held or not call.given_up):
            slots.places.release()
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
    try:
        result, error = await done
    except asyncio.CancelledError:
        call.given_up = True
        settled = done.done() and not done.cancelled()
        if slots is not None and not slots.held and not settled:
            slots.places.release()
        raise
    if error is not None:
        try:
            raise error
        finally:
            del error  # else the traceback holds this frame, and the frame the traceback
    return result


@contextmanager
def at_most(slots: asyncio.Semaphore) -> Iterator[None]:
    """Calls that are begun in here have a thread only while they hold one of `slots`.

    A call that was given up holds its slot until its function returns.
    """
    token = _slots.set(_Slots(slots))
    try:
        yield
    finally:
        _slots.reset(token)


def context_with(threads: int | None) -> Context:
    """A copy of this context, in which at most so many calls have a thread at the same time.

    A call that was given up no longer counts: one that hangs keeps nobody else from a thread.
    """
    context = copy_context()
    if threads is not None:
        context.run(_slots.set, _Slots(asyncio.Semaphore(threads), held=False))
    return context


def in_loop(function: Callable[..., T], /, *arguments: Any) -> T:
    """Call a function that only the event loop's thread may call, from whichever thread.

    Raises `UsageError` in a thread that was given up: what it does no longer counts.
    """
    call = _call.get()
    if call is None:
        return function(*arguments)
    with suppress(RuntimeError):
        if asyncio.get_running_loop() is call.loop:  # this is the loop's thread
            return function(*arguments)
    answer: Future[T] = Future()
    context = copy_context()

    def work() -> None:
        try:
            if call.given_up:
                name = getattr(call.function, "__name__", call.function)
                raise UsageError(
                    f"`{name}` was given up (a time limit, or the end of the run) and cannot "
                    f"record anything now."
                )
            answer.set_result(context.run(function, *arguments))
        except BaseException as error:
            answer.set_exception(error)

    call.loop.call_soon_threadsafe(work)
    return answer.result()


def _taken() -> _Jobs:
    """The queue of an idle thread, or of a new one."""
    try:
        return _idle.pop()
    except IndexError:
        return _new_thread()


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
