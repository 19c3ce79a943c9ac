"""The wrong exceptions: caught too few, too many or others, raised as another, swallowed."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from random import Random

import libcst as cst

from rolecraft.synthesis.modifiers.base import modifier
from rolecraft.synthesis.modifiers.code import dotted
from rolecraft.synthesis.modifiers.entities import Entity, Variant
from rolecraft.synthesis.modifiers.nodes import became, text_of, without_element

_NARROWER = {
    "LookupError": ("KeyError", "IndexError"),
    "OSError": ("FileNotFoundError",),
    "IOError": ("FileNotFoundError",),
    "ArithmeticError": ("ZeroDivisionError",),
    "Exception": ("ValueError", "RuntimeError"),
    "BaseException": ("Exception",),
}
_TAKEN_FOR = {
    "KeyError": "IndexError",
    "IndexError": "KeyError",
    "ValueError": "TypeError",
    "TypeError": "ValueError",
    "AttributeError": "KeyError",
    "StopIteration": "IndexError",
    "ImportError": "ModuleNotFoundError",
    "NotImplementedError": "TypeError",
    "RuntimeError": "ValueError",
    "UnicodeDecodeError": "UnicodeEncodeError",
    "UnicodeEncodeError": "UnicodeDecodeError",
    "FileNotFoundError": "PermissionError",
    "ZeroDivisionError": "OverflowError",
    "AssertionError": "ValueError",
}


@modifier()
def narrowed_exception(entity: Entity, rng: Random) -> Iterator[Variant]:
    """Fewer exceptions are caught: `except (A, B)` becomes `except A`."""
    for handler in entity.code(cst.ExceptHandler):
        caught = handler.type
        if isinstance(caught, cst.Tuple):
            for index, gone in enumerate(caught.elements):
                others = [each.value for each in caught.elements if each is not gone]
                if others and not _is_among(gone.value, others):
                    rest = without_element(caught, index)
                    note = f"`{text_of(gone.value)}` is no longer caught beside `{text_of(rest)}`"
                    yield _catching(entity, handler, rest, note)
        elif caught is not None:
            for name in _NARROWER.get(dotted(caught), ()):
                yield _catching(entity, handler, cst.Name(name))


@modifier()
def wrong_exception(entity: Entity, rng: Random) -> Iterator[Variant]:
    """Another exception is caught, one that is often taken for it: `KeyError`, `IndexError`."""
    for handler in entity.code(cst.ExceptHandler):
        name = dotted(handler.type) if handler.type is not None else ""
        if name in _TAKEN_FOR:
            yield _catching(entity, handler, cst.Name(_TAKEN_FOR[name]))


@modifier()
def widened_exception(entity: Entity, rng: Random) -> Iterator[Variant]:
    """All exceptions are caught, also those that another handler or the caller was to see."""
    for attempt in entity.code(cst.Try):
        raised = {
            dotted(node.exc.func)
            for node in entity.code(cst.Raise, within=attempt.body)
            if isinstance(node.exc, cst.Call)
        }
        for handler in attempt.handlers:
            # Elsewhere it is all the same, unless something goes wrong that nobody expects.
            name = dotted(handler.type) if handler.type is not None else "Exception"
            is_last = handler is attempt.handlers[-1]
            if name not in ("Exception", "BaseException") and (not is_last or raised - {name}):
                yield _catching(entity, handler, cst.Name("Exception"))


@modifier()
def wrong_error(entity: Entity, rng: Random) -> Iterator[Variant]:
    """An exception of another type is raised: a `TypeError` for a `ValueError`."""
    for node in entity.code(cst.Raise):
        raised = node.exc.func if isinstance(node.exc, cst.Call) else node.exc
        if isinstance(raised, cst.Name) and raised.value in _TAKEN_FOR:
            new = cst.Name(_TAKEN_FOR[raised.value])
            yield entity.replacing(raised, new, note=f"{became(raised, new)} in a `raise`")


@modifier()
def swallowed_exception(entity: Entity, rng: Random) -> Iterator[Variant]:
    """A handler no longer raises: the error is lost and the function goes on."""
    for handler in entity.code(cst.ExceptHandler):
        for line in handler.body.body:
            small = line.body[-1] if isinstance(line, cst.SimpleStatementLine) else line
            if isinstance(small, cst.Raise):
                yield entity.removing(small, note=f"`{text_of(small)}` was dropped")


def _is_among(one: cst.BaseExpression, others: Sequence[cst.BaseExpression]) -> bool:
    """Whether who catches the others catches it too: Python's own `FileNotFoundError` beside
    `OSError`.
    """
    classes = [_python_class(each) for each in (one, *others)]
    return classes[0] is not None and any(
        each is not None and issubclass(classes[0], each) for each in classes[1:]
    )


def _python_class(node: cst.BaseExpression) -> type[BaseException] | None:
    found = getattr(builtins, dotted(node), None)
    is_one = isinstance(found, type) and issubclass(found, BaseException)
    return found if is_one else None


def _catching(
    entity: Entity, handler: cst.ExceptHandler, new: cst.BaseExpression, note: str = ""
) -> Variant:
    assert handler.type is not None
    if note == "":
        note = f"`except {text_of(handler.type)}` became `except {text_of(new)}`"
    return entity.replacing(handler.type, new, note=note)
