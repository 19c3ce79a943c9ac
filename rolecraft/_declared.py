"""Classes whose fields are their class attributes: the base of `Action` and `Role`.

`class Chapter(Action): title: str` can be made as `Chapter("Rain")` or `Chapter(title="Rain")`.
It is what a dataclass does, but a subclass may override a field without an annotation
(`goal = "short headlines"`), unknown keywords name the known ones, and mutable defaults are
copied for each instance. No validation: making one costs about a microsecond.
"""

from __future__ import annotations

import copy
import inspect
from typing import Any, ClassVar, dataclass_transform, get_origin

from rolecraft.errors import UnknownName, UsageError


@dataclass_transform(kw_only_default=False, eq_default=False)
class Declared:
    """Base class: collects the fields of its subclasses and fills them from arguments."""

    _fields: ClassVar[dict[str, Any]] = {}
    """Every field with its default; `...` marks a field without one."""
    _own_fields: ClassVar[tuple[str, ...]] = ()
    """The fields that may be given by position: those the class itself annotates."""
    _mutable: ClassVar[tuple[str, ...]] = ()
    """Fields whose default is copied for each instance."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        inherited = dict(cls._fields)
        annotated = [
            name
            for name, hint in inspect.get_annotations(cls).items()
            if not name.startswith("_") and not _is_class_var(hint)
        ]
        for name in annotated:
            inherited[name] = cls.__dict__.get(name, ...)
        for name, value in cls.__dict__.items():
            if name in inherited or (name[0] != "_" and _is_plain(value)):
                inherited[name] = value
        cls._fields = inherited
        cls._own_fields = tuple(annotated) or cls._own_fields
        cls._mutable = tuple(
            name for name, value in inherited.items() if isinstance(value, (list, dict, set))
        )

    def __init__(self, *args: Any, **fields: Any) -> None:
        if args:
            fields = self._named(args, fields)
        known = self._fields
        for name, value in fields.items():
            if name not in known:
                raise UnknownName(f"`{type(self).__name__}` keyword", name, known)
            setattr(self, name, value)
        for name in self._mutable:
            if name not in fields:
                setattr(self, name, copy.copy(known[name]))
        if ... in known.values():
            missing = [
                name for name, default in known.items() if default is ... and name not in fields
            ]
            if missing:
                listed = ", ".join(f"`{name}`" for name in missing)
                raise UsageError(f"`{type(self).__name__}(...)` is missing {listed}.")

    def _named(self, args: tuple[Any, ...], fields: dict[str, Any]) -> dict[str, Any]:
        positional = self._own_fields
        if len(args) > len(positional):
            raise UsageError(
                f"`{type(self).__name__}` takes at most {len(positional)} positional arguments "
                f"({', '.join(positional) or 'none'}), got {len(args)}: {args!r}."
            )
        named = dict(zip(positional, args, strict=False))
        twice = named.keys() & fields.keys()
        if twice:
            raise UsageError(f"`{type(self).__name__}` got {sorted(twice)[0]!r} twice.")
        return {**named, **fields}


def _is_class_var(hint: Any) -> bool:
    if isinstance(hint, str):  # from __future__ import annotations
        return hint.replace("typing.", "").startswith("ClassVar")
    return hint is ClassVar or get_origin(hint) is ClassVar


def _is_plain(value: Any) -> bool:
    """True for a value that a field can have; methods, properties and nested classes are not."""
    return not callable(value) and not hasattr(value, "__get__")
