"""A model's answer, read strictly: one function in the place of the one that it was shown."""

from __future__ import annotations

import ast
import re
import textwrap

import libcst as cst

from rolecraft.synthesis.modifiers.entities import Entity, Variant

_BLOCK = re.compile(r"^```[ \t]*(\w*)[ \t]*\n(.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE)
_BUG = re.compile(r"^\W*bug\W*:\s*(.+?)\W*$", re.IGNORECASE | re.MULTILINE)


class BadAnswer(ValueError):
    """An answer that cannot be used; its text says why, in words for the model.

    What is peculiar to this one answer stands behind a colon.
    """


def bug_line(answer: str) -> str:
    """What the answer says that the bug is. Raises `BadAnswer` if it says nothing."""
    prose = _BLOCK.sub("", answer)
    found = _BUG.search(prose)
    if found is None:
        raise BadAnswer("it has no line that begins with `BUG:`")
    return found[1]


def read_function(answer: str, entity: Entity) -> str:
    """The text that stands in the entity's place: its own definition, as the answer has it.

    Comments that were not there are taken out, and a docstring that is missing is put back: neither
    may tell of the bug. Raises `BadAnswer` for what is not one function with the same name,
    parameters and decorators.
    """
    blocks = _BLOCK.findall(answer)
    if len(blocks) != 1:
        raise BadAnswer(f"it is not one block of code: it has {len(blocks)} blocks")
    code = textwrap.dedent(blocks[0][1]).strip("\n") + "\n"
    try:
        body = cst.parse_module(code).body
        ast.parse(code)
    except (cst.ParserSyntaxError, SyntaxError, ValueError, RecursionError) as error:
        said = " ".join(str(error).split())[:200]
        raise BadAnswer(f"its code is no Python: {said}") from None
    if len(body) != 1 or not isinstance(body[0], cst.FunctionDef | cst.ClassDef):
        raise BadAnswer("its code is not one definition and nothing else")
    made, was = body[0], entity.node
    if type(made) is not type(was) or made.name.value != was.name.value:
        raise BadAnswer(f"its code does not define what was asked for: `{was.name.value}`")
    if isinstance(made, cst.FunctionDef) and isinstance(was, cst.FunctionDef):
        if _head(made) != _head(was):
            raise BadAnswer("the parameters, or whether it is async, are not the same")
        made = _with_docstring(made, was)
    made = made.with_changes(leading_lines=was.leading_lines, decorators=was.decorators)
    known = {comment.value for comment in entity.find(cst.Comment)}
    cleaned = made.visit(_WithoutComments(known))
    assert isinstance(cleaned, cst.FunctionDef | cst.ClassDef)
    return entity.as_text(Variant(cleaned, ""))


def _head(node: cst.FunctionDef) -> tuple[str, bool]:
    """The names and kinds of its parameters. Their defaults may be part of a bug."""
    code = cst.Module([node.with_changes(decorators=[], leading_lines=[])]).code
    (made,) = ast.parse(code).body
    assert isinstance(made, ast.FunctionDef | ast.AsyncFunctionDef)
    args = made.args
    names = [[each.arg for each in group] for group in (args.posonlyargs, args.args)]
    names.append([each.arg for each in args.kwonlyargs])
    stars = [each.arg if each is not None else "" for each in (args.vararg, args.kwarg)]
    return f"{names}{stars}", node.asynchronous is not None


def _with_docstring(made: cst.FunctionDef, was: cst.FunctionDef) -> cst.FunctionDef:
    old = was.body.body[0] if isinstance(was.body, cst.IndentedBlock) and was.body.body else None
    if old is None or was.get_docstring(clean=False) is None:
        return made
    if not isinstance(made.body, cst.IndentedBlock):
        return made
    rest = list(made.body.body)
    if made.get_docstring(clean=False) is not None:
        rest = rest[1:]
    return made.with_changes(body=made.body.with_changes(body=[old, *rest]))


class _WithoutComments(cst.CSTTransformer):
    """Takes out the comments that were not there."""

    def __init__(self, known: set[str]) -> None:
        super().__init__()
        self._known = known

    def leave_EmptyLine(
        self, original_node: cst.EmptyLine, updated_node: cst.EmptyLine
    ) -> cst.EmptyLine | cst.RemovalSentinel:
        comment = updated_node.comment
        if comment is None or comment.value in self._known:
            return updated_node
        return cst.RemoveFromParent()

    def leave_TrailingWhitespace(
        self, original_node: cst.TrailingWhitespace, updated_node: cst.TrailingWhitespace
    ) -> cst.TrailingWhitespace:
        comment = updated_node.comment
        if comment is None or comment.value in self._known:
            return updated_node
        empty = cst.SimpleWhitespace("")
        return updated_node.with_changes(comment=None, whitespace=empty)
