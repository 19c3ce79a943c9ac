"""To another process and back: what cannot go says which part of it cannot."""

from __future__ import annotations

import asyncio
import functools
import importlib
import traceback
import types
from collections.abc import Awaitable, Iterator, Mapping
from typing import Any

from rolecraft.errors import ModelError, SandboxError, UsageError
from rolecraft.rollouts.remote._cluster import load_ray
from rolecraft.rollouts.remote.errors import NotSendable, RaisedInWorker

STAGES_WAY_OUT = (
    "Give a function that makes the stages, which each worker calls: `RayStages(make)` where "
    "`make()` returns them; a model may be given as text ('openai/gpt-4o-mini')."
)
ITEM_WAY_OUT = "Put into an item what it takes to make that, and make it in the stage `prepare`."
RESULT_WAY_OUT = "Let `grade` return what can be pickled."
DEEPEST = 12


def packed(thing: object, what: str, path: str, way_out: str) -> bytes:
    """`thing`, pickled as Ray pickles: functions and classes of the main program too.

    Raises `NotSendable`, which names what cannot be pickled.
    """
    load_ray()
    pickle = importlib.import_module("ray.cloudpickle")
    try:
        data: bytes = pickle.dumps(thing)
        return data
    except Exception as error:
        path, part, why = _culprit(pickle, thing, path, error)
        reason = f"{type(why).__name__}: {' '.join(str(why).split())}"
        raise NotSendable(what, path, part, reason, way_out) from error


def unpacked(data: bytes, what: str) -> Any:
    """What was packed. Raises `UsageError` where its modules are not to be had here."""
    load_ray()
    pickle = importlib.import_module("ray.cloudpickle")
    try:
        return pickle.loads(data)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"{what} was sent here, and cannot be read: {error}. Install the module on every "
            f"machine, or send the folder it is in: `RayStages(..., runtime_env={{'working_dir': "
            f"'FOLDER'}})`."
        ) from error


# --- answers of a worker -------------------------------------------------------------------------

RETURNED, RAISED, CANCELLED = b"r", b"x", b"c"
"""The first byte of an answer; what was returned or raised follows, pickled."""


async def answered(work: Awaitable[Any], where: str) -> bytes:
    """What `work` returns or raises, for `taken`."""
    try:
        return RETURNED + packed(await work, "What a stage returned", "result", RESULT_WAY_OUT)
    except asyncio.CancelledError:
        return CANCELLED
    except Exception as error:
        return RAISED + packed(sendable(error, where), "An error", "error", "")


def taken(data: bytes) -> Any:
    """What a worker returned; raises what it raised."""
    if data == CANCELLED:
        raise asyncio.CancelledError
    value = unpacked(data[1:], "The answer of a worker")
    if data[:1] == RAISED:
        raise value
    return value


def sendable(error: Exception, where: str) -> Exception:
    """`error`, with a note of where it was raised; a stand-in of its kind if it cannot travel."""
    trace = "".join(traceback.format_exception(error)).rstrip()
    pickle = importlib.import_module("ray.cloudpickle")
    try:
        same = type(pickle.loads(pickle.dumps(error))) is type(error)
    except Exception:  # a constructor of its own, or a connection among its attributes
        same = False
    if not same:
        text = f"{type(error).__name__}: {error}"
        if isinstance(error, ModelError):
            status = error.status
            error = ModelError(text, model=error.model, attempts=error.attempts, status=status)
        elif isinstance(error, OSError):
            error = OSError(error.errno, text)
        else:
            error = SandboxError(text) if isinstance(error, SandboxError) else RaisedInWorker(text)
    error.add_note(f"raised {where}:\n{trace}")
    return error


# --- which part it is ----------------------------------------------------------------------------


def _culprit(
    pickle: Any, thing: object, path: str, error: Exception
) -> tuple[str, object, Exception]:
    """The innermost part of `thing` that cannot be pickled, how one gets there, and why not."""
    seen: set[int] = set()
    for _ in range(DEEPEST):
        seen.add(id(thing))
        for step, part in _parts(thing):
            if id(part) in seen:
                continue
            try:
                pickle.dumps(part)
            except Exception as raised:
                path, thing, error = path + step, part, raised
                break
        else:
            break
    return path, thing, error


def _parts(thing: object) -> Iterator[tuple[str, object]]:
    if isinstance(thing, Mapping):
        yield from ((f"[{key!r}]", value) for key, value in thing.items())
    elif isinstance(thing, (list, tuple, set, frozenset)):
        yield from ((f"[{place}]", value) for place, value in enumerate(thing))
    elif isinstance(thing, functools.partial):
        yield ".func", thing.func
        yield from ((f".args[{place}]", value) for place, value in enumerate(thing.args))
        yield from ((f".keywords[{key!r}]", value) for key, value in thing.keywords.items())
    elif isinstance(thing, (types.MethodType, staticmethod, classmethod)):
        yield "", thing.__func__
        if isinstance(thing, types.MethodType):
            yield ".__self__", thing.__self__
    elif isinstance(thing, types.FunctionType):
        names = thing.__code__.co_freevars
        for name, cell in zip(names, thing.__closure__ or (), strict=True):
            try:
                yield f", variable {name}", cell.cell_contents
            except ValueError:  # not set yet
                continue
        for name in thing.__code__.co_names:
            if name in thing.__globals__:
                yield f", global {name}", thing.__globals__[name]
    elif isinstance(thing, type):
        yield from ((f".{name}", value) for name, value in vars(thing).items())
        yield from ((f", base {base.__name__}", base) for base in thing.__bases__)
    elif not isinstance(thing, types.ModuleType):
        yield from ((f".{name}", value) for name, value in _attributes(thing).items())
        yield f", class {type(thing).__name__}", type(thing)


def _attributes(thing: object) -> dict[str, object]:
    found = dict(getattr(thing, "__dict__", {}))
    for kind in type(thing).__mro__:
        names = kind.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if name not in ("__dict__", "__weakref__") and hasattr(thing, name):
                found[name] = getattr(thing, name)
    return found
