"""Classes whose fields are their class attributes: the base of `Action` and `Role`.

`class Chapter(Action): title: str` can be made as `Chapter("Rain")` or `Chapter(title="Rain")`.
It is what a dataclass does, but a subclass may override a field without an annotation
(`goal = "short headlines"`), an unknown keyword is told the known ones, and mutable defaults are
copied for each instance. No validation: making one costs about a microsecond.

Two mistakes that Python lets pass are told where the class is defined: a name that is almost that
of a field (`gaol = ...`), with a warning; and a private name that Rolecraft's own class has
already, which would replace a part of it, with an error.
"""

from __future__ import annotations

import copy
import inspect
import re
import warnings
from collections.abc import Iterable
from dataclasses import is_dataclass
from typing import Any, ClassVar, get_origin

from rolecraft.errors import UnknownName, UsageError


class Declared:
    """Base class: collects the fields of its subclasses and fills them from arguments.

    A field is a public name that a class annotates or sets to a plain value. Its default is the
    class attribute; a field without one must be given. Properties, methods and `ClassVar`s are
    no fields, also where a base class has a field of that name.
    """

    _fields: ClassVar[tuple[str, ...]] = ()
    _positional: ClassVar[tuple[str, ...]] = ()
    """The fields that may be given by position: those that the class itself annotates."""
    _required: ClassVar[tuple[str, ...]] = ()
    _mutable: ClassVar[tuple[str, ...]] = ()
    """Fields whose default is copied for each instance."""
    _hooks: ClassVar[frozenset[str]] = frozenset({"_hooks", "_positional"})
    """The private names that a subclass may define anew."""
    _methods: ClassVar[frozenset[str]] = frozenset()
    """The private methods of Rolecraft's own that no attribute may hide."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._methods = _check_private(cls)
        hints = inspect.get_annotations(cls)
        annotated = [name for name, hint in hints.items() if _is_field(name, hint)]
        plain = [
            name
            for name, value in cls.__dict__.items()
            if name not in hints
            and name[0] != "_"
            and _is_plain(value)
            and not hasattr(super(cls, cls), name)
        ]
        inherited = [
            name
            for base in reversed(cls.__mro__[1:])
            for name in base.__dict__.get("_fields", ())
            if _is_plain(cls.__dict__.get(name)) and _is_field(name, hints.get(name))
        ]
        if plain:
            _warn_of_near_misses(cls, plain, inherited)
        cls._fields = tuple(dict.fromkeys([*inherited, *annotated, *plain]))
        if annotated and "_positional" not in cls.__dict__:
            cls._positional = tuple(annotated)
        cls._required = tuple(name for name in cls._fields if not hasattr(cls, name))
        cls._mutable = tuple(
            name for name in cls._fields if isinstance(getattr(cls, name, None), (list, dict, set))
        )

    def __init__(self, *args: Any, **fields: Any) -> None:
        if args:
            fields = self._named(args, fields)
        for name, value in fields.items():
            if name not in self._fields:
                raise UnknownName(f"`{type(self).__name__}` keyword", name, self._fields)
            setattr(self, name, value)
        for name in self._mutable:
            if name not in fields:
                setattr(self, name, own(getattr(type(self), name)))
        missing = [f"`{name}`" for name in self._required if name not in fields]
        if missing:
            raise UsageError(f"`{type(self).__name__}(...)` is missing {', '.join(missing)}.")

    def __setattr__(self, name: str, value: Any) -> None:
        if name[0] == "_" and name in self._methods:
            raise _taken(f"`self.{name} = ...` in `{type(self).__name__}`", type(self), name)
        super().__setattr__(name, value)

    def _named(self, args: tuple[Any, ...], fields: dict[str, Any]) -> dict[str, Any]:
        """Positional arguments as fields, beside those that have a name."""
        known = self._positional
        if len(args) > len(known):
            raise UsageError(
                f"`{type(self).__name__}` takes at most {len(known)} positional "
                f"{'argument' if len(known) == 1 else 'arguments'} "
                f"({', '.join(known) or 'none'}), got {len(args)}: {args!r}. "
                f"Give fields by keyword: `{type(self).__name__}({self._fields[0]}=...)`."
            )
        named = dict(zip(known, args, strict=False))
        twice = named.keys() & fields.keys()
        if twice:
            raise UsageError(f"`{type(self).__name__}` got {min(twice)!r} twice.")
        return {**named, **fields}


def own(value: Any) -> Any:
    """Data as an object's own: lists, dicts and sets, pydantic models and dataclasses in depth.

    Other objects (a client, a lock, a function) are shared.
    """
    if type(value) is list:
        return list(map(own, value))
    if type(value) is dict:
        return {key: own(item) for key, item in value.items()}
    if isinstance(value, (list, dict, set)):
        return copy.copy(value)
    if isinstance(value, type) or not (hasattr(value, "model_dump") or is_dataclass(value)):
        return value
    try:
        return copy.deepcopy(value)
    except (TypeError, NotImplementedError):  # it holds a lock, a connection, …
        return copy.copy(value)


def _is_field(name: str, hint: Any) -> bool:
    if isinstance(hint, str):  # from __future__ import annotations
        return name[0] != "_" and not re.match(r"([\w.]+\.)?ClassVar\b", hint)
    return name[0] != "_" and hint is not ClassVar and get_origin(hint) is not ClassVar


def _is_plain(value: Any) -> bool:
    """True for a value that a field can have; methods, properties and nested classes are not."""
    return not callable(value) and not hasattr(value, "__get__")


def _check_private(cls: type[Declared]) -> frozenset[str]:
    """Raise `UsageError` if the class hides a private part of Rolecraft's own base classes.

    The hooks are free, and so are the names of bases that are the user's. Returns the names of
    private methods that the attributes of an instance must not hide either.
    """
    ours = [base for base in cls.__mro__[1:] if _is_ours(base)]
    taken = {
        name
        for base in ours
        for name, value in vars(base).items()
        if _is_private(name) and not getattr(value, "__isabstractmethod__", False)
    } - cls._hooks
    mixins = [
        base for base in cls.__mro__[1:] if base not in ours and not issubclass(base, Declared)
    ]
    for part in (cls, *mixins):
        for name in vars(part):
            if name in taken:
                raise _taken(f"`{part.__name__}.{name}`", cls, name)
    return frozenset(name for name in taken if not _is_plain(inspect.getattr_static(cls, name)))


def _taken(what: str, cls: type[Declared], name: str) -> UsageError:
    ours = next(
        base
        for base in (*cls.__mro__[1:], cls)
        if _is_ours(base) and issubclass(base, Declared) and hasattr(base, name)
    )
    hooks = ", ".join(f"`{hook}`" for hook in sorted(cls._hooks - Declared._hooks))
    return UsageError(
        f"{what} hides a part of `{ours.__name__}` that it needs itself: give it another name. "
        f"The private names to override are {hooks or 'none'}; who means this one all the same "
        f"says so: `_hooks = {ours.__name__}._hooks | {{{name!r}}}` in the class."
    )


def _is_ours(base: type) -> bool:
    return base.__module__.partition(".")[0] == __name__.partition(".")[0]


def _is_private(name: str) -> bool:
    return name[0] == "_" and not name.startswith("__")


def _warn_of_near_misses(
    cls: type[Declared], plain: Iterable[str], inherited: Iterable[str]
) -> None:
    """Warn of a name that nobody annotated and that is almost that of a field."""
    import difflib  # few classes have such names

    known = list(inherited)
    for name in plain:
        near = [field for field in known if sorted(field) == sorted(name)]
        near += difflib.get_close_matches(name, known, n=1, cutoff=0.8)
        if near:
            warnings.warn(
                f"`{cls.__name__}` sets `{name}`, which is no field so far. If you mean "
                f"`{near[0]}`, write that; if `{name}` is a field of your own, annotate it: "
                f"`{name}: {type(cls.__dict__[name]).__name__} = ...`.",
                stacklevel=4,
            )
