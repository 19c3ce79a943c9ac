"""String methods and formats that are nearly the right ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random

import libcst as cst

from rolecraft.synthesis.modifiers.base import modifier
from rolecraft.synthesis.modifiers.code import dotted
from rolecraft.synthesis.modifiers.entities import Entity, Variant
from rolecraft.synthesis.modifiers.nodes import (
    became,
    brief,
    is_in_raise,
    is_within,
    method_calls,
    quoted,
    whole,
    with_quoted,
)

_STRIPPING = {
    "strip": ("lstrip", "rstrip"),
    "lstrip": ("strip", "rstrip"),
    "rstrip": ("strip", "lstrip"),
}
_CASE = {
    "upper": "lower",
    "lower": "upper",
    "casefold": "lower",
    "capitalize": "title",
    "title": "capitalize",
    "isupper": "islower",
    "islower": "isupper",
}
_OTHER_END = {
    "startswith": "endswith",
    "endswith": "startswith",
    "removeprefix": "removesuffix",
    "removesuffix": "removeprefix",
    "find": "rfind",
    "rfind": "find",
    "rindex": "index",
    "partition": "rpartition",
    "rpartition": "partition",
    "ljust": "rjust",
    "rjust": "ljust",
}
_MATCHING = {"match": ("search", "fullmatch"), "search": ("match",), "fullmatch": ("match",)}
_NUMBERS = frozenset({"len", "int", "float", "bool", "ord", "hash", "id"})
_SEPARATORS = {", ": (",",), ",": (", ",), " ": ("",), "": (" ",), "\n": ("",), "\\n": ("", " ")}


@modifier()
def wrong_strip(entity: Entity, rng: Random) -> Iterator[Variant]:
    """One end is stripped instead of both, or the other one: `strip`, `lstrip`, `rstrip`."""
    for call, func in method_calls(entity, *_STRIPPING):
        for name in _STRIPPING[func.attr.value]:
            yield _renamed(entity, call, func, name)


@modifier()
def wrong_end(entity: Entity, rng: Random) -> Iterator[Variant]:
    """The other end of a text: `startswith` and `endswith`, `find` and `rfind`, `partition`."""
    for call, func in method_calls(entity, *_OTHER_END):
        yield _renamed(entity, call, func, _OTHER_END[func.attr.value])


@modifier()
def wrong_case(entity: Entity, rng: Random) -> Iterator[Variant]:
    """`upper` for `lower`, or neither: letters are compared as they come."""
    for call, func in method_calls(entity, *_CASE):
        yield _renamed(entity, call, func, _CASE[func.attr.value])
        if not func.attr.value.startswith("is") and not call.args:
            yield entity.replacing(call, func.value, note=became(call, func.value))


@modifier()
def wrong_split(entity: Entity, rng: Random) -> Iterator[Variant]:
    """Split from the other end, without a limit, or at any whitespace: `split`, `rsplit`."""
    for call, func in method_calls(entity, "split", "rsplit"):
        if _is_pattern(func.value):
            continue  # of which there is no `rsplit`
        limit = [arg for arg in call.args[1:] if (whole(arg.value) or -1) > 0]
        if limit:
            yield _renamed(entity, call, func, "rsplit" if func.attr.value == "split" else "split")
            first = call.args[0].with_changes(comma=cst.MaybeSentinel.DEFAULT)
            new = call.with_changes(args=[first])
            yield entity.replacing(call, new, note=became(call, new))
        elif not call.args and not is_within(entity, call, cst.FormattedString):
            # In an f-string not every quote can stand before Python 3.12.
            new = call.with_changes(args=[cst.Arg(cst.SimpleString("' '"))])
            yield entity.replacing(call, new, note=became(call, new))
        elif len(call.args) == 1 and quoted(call.args[0].value) in (" ", "\\n"):
            new = call.with_changes(args=[])
            yield entity.replacing(call, new, note=became(call, new))
    for call, _ in method_calls(entity, "splitlines"):
        if call.args:  # the ends of lines were to be kept
            new = call.with_changes(args=[])
            yield entity.replacing(call, new, note=became(call, new))


@modifier()
def wrong_separator(entity: Entity, rng: Random) -> Iterator[Variant]:
    """Joined with another separator: `', '` for `','`, a space for nothing."""
    for call, func in method_calls(entity, "join"):
        text = quoted(func.value)
        if text is None or is_in_raise(entity, call):
            continue
        for other in _SEPARATORS.get(text, ()):
            new = with_quoted(func.value, other)
            yield entity.replacing(func.value, new, note=f"{became(func.value, new)} in a `join`")


@modifier()
def wrong_replacements(entity: Entity, rng: Random) -> Iterator[Variant]:
    """Only the first is replaced instead of all, or all instead of some."""
    for call, func in method_calls(entity, "replace"):
        if dotted(func.value) == "os":
            continue
        if len(call.args) == 2 and not any(arg.keyword or arg.star for arg in call.args):
            new = call.with_changes(args=[*call.args, cst.Arg(cst.Integer("1"))])
        elif len(call.args) == 3:
            second = call.args[1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
            new = call.with_changes(args=[call.args[0], second])
        else:
            continue
        yield entity.replacing(call, new, note=became(call, new))


@modifier()
def wrong_match(entity: Entity, rng: Random) -> Iterator[Variant]:
    """A pattern is searched anywhere instead of at the start: `match`, `search`, `fullmatch`."""
    for call, func in method_calls(entity, *_MATCHING):
        if _is_pattern(func.value):
            for name in _MATCHING[func.attr.value]:
                if name == "fullmatch" or not _is_anchored(call, func):
                    yield _renamed(entity, call, func, name)


def _is_pattern(node: cst.CSTNode) -> bool:
    """Whether it is `re`, or has the name of a regular expression."""
    base = dotted(node).rpartition(".")[2].lower()
    return base in ("re", "regex") or bool(re.search("re$|regex|pattern|_rx", base))


def _is_anchored(call: cst.Call, func: cst.Attribute) -> bool:
    """Whether it says itself that it begins at the start: `re.search("^a", x)` is `re.match`."""
    if dotted(func.value) != "re" or func.attr.value == "fullmatch" or len(call.args) != 2:
        return False
    text = quoted(call.args[0].value) or ""
    return text.startswith((r"^", r"\A", r"\\A")) and "|" not in text


@modifier()
def wrong_format(entity: Entity, rng: Random) -> Iterator[Variant]:
    """A value is written in another form: `%r` for `%s`, `!r` too much, one digit less."""
    for node in entity.code(cst.FormattedStringExpression):
        if is_in_raise(entity, node):
            continue
        if not _is_written_alike(node) and (node.conversion is not None or not node.format_spec):
            new = node.with_changes(conversion=None if node.conversion else "r")
            yield entity.replacing(node, new, note=became(node, new))
        for part in node.format_spec or ():
            if isinstance(part, cst.FormattedStringText):
                for value in _other_specs(part.value):
                    spec = part.with_changes(value=value)
                    note = f"the format `:{part.value}` became `:{value}`"
                    yield entity.replacing(part, spec, note=note)
    for text in entity.code(cst.SimpleString):
        if not is_in_raise(entity, text):
            for value in _other_templates(entity, text):
                yield entity.replacing(text, with_quoted(text, value), note=_became(text, value))


def _is_written_alike(node: cst.FormattedStringExpression) -> bool:
    """Whether `!r` or no `!r` is all the same to it: `{len(x)}`, `{x=}`."""
    if node.equal is not None:
        return True
    value = node.expression
    return isinstance(value, cst.Call) and dotted(value.func) in _NUMBERS and not node.format_spec


def _other_specs(spec: str) -> Iterator[str]:
    """`.2f` becomes `.1f`, `>8` becomes `<8`, `02d` becomes `2d`."""
    if found := re.search(r"\.(\d+)", spec):
        yield spec.replace(found[0], f".{int(found[1]) - 1 if int(found[1]) else 1}")
    if found := re.search("[<>]", spec):
        yield spec.replace(found[0], "<" if found[0] == ">" else ">")
    if re.match(r"0\d", spec):
        yield spec[1:]


def _other_templates(entity: Entity, node: cst.SimpleString) -> Iterator[str]:
    """The text of a template for `%` or `format`, with one of its places written otherwise."""
    text, parent = quoted(node), entity.parents.get(node)
    if text is None:
        return
    if isinstance(parent, cst.BinaryOperation) and parent.left is node:
        if isinstance(parent.operator, cst.Modulo):
            for found in re.finditer("%([sr])", text):
                other = "r" if found[1] == "s" else "s"
                yield f"{text[: found.start()]}%{other}{text[found.end() :]}"
    elif isinstance(parent, cst.Attribute) and parent.attr.value == "format":
        for found in re.finditer(r"(?<!\{)\{(\w*)(!r)?\}(?!\})", text):
            place = f"{{{found[1]}}}" if found[2] else f"{{{found[1]}!r}}"
            yield text[: found.start()] + place + text[found.end() :]


def _became(node: cst.SimpleString, text: str) -> str:
    return became(node, with_quoted(node, text))


def _renamed(entity: Entity, call: cst.Call, func: cst.Attribute, name: str) -> Variant:
    note = f"`{func.attr.value}` became `{name}` in `{brief(call)}`"
    return entity.replacing(func.attr, cst.Name(name), note=note)
