"""Statements as modifiers move and remove them, and which names have no value without them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from rolecraft.synthesis.modifiers.code import dotted
from rolecraft.synthesis.modifiers.entities import Entity

Block = cst.BaseSuite
Statement = cst.BaseStatement
_ENDS = (cst.Return, cst.Raise, cst.Break, cst.Continue)


def statements_of(block: Block) -> tuple[Statement, ...]:
    """Those of a block, each on a line of its own."""
    if isinstance(block, cst.IndentedBlock):
        return tuple(block.body)
    assert isinstance(block, cst.SimpleStatementSuite)
    return (cst.SimpleStatementLine(body=block.body),)


def blocks_of(entity: Entity) -> Iterator[cst.IndentedBlock]:
    """The blocks of a function, those of functions within it too."""
    yield from entity.code(cst.IndentedBlock)


def small(statement: cst.CSTNode) -> cst.BaseSmallStatement | None:
    """What stands on a line alone."""
    if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1:
        return statement.body[0]
    return None


def leaves(block: Block) -> bool:
    """Whether what follows a block is not reached from its end."""
    last = statements_of(block)[-1] if statements_of(block) else None
    return last is not None and isinstance(small(last), _ENDS)


def leads_nowhere(entity: Entity, jump: cst.CSTNode) -> bool:
    """Whether nothing is passed over by a jump: a `continue` that ends its loop's body, a `return`
    of nothing that ends its function. It can be left out, and all is as before.
    """
    if isinstance(jump, cst.Return):
        if jump.value is not None and dotted(jump.value) != "None":
            return False
    elif not isinstance(jump, cst.Continue):
        return False
    here: cst.CSTNode = jump
    while here is not entity.node:
        parent = entity.parents[here]
        match parent:
            case cst.For() | cst.While():
                return isinstance(jump, cst.Continue) and parent.body is here
            case cst.FunctionDef():
                return isinstance(jump, cst.Return)
            case cst.IndentedBlock() | cst.SimpleStatementSuite() | cst.SimpleStatementLine():
                if parent.body[-1] is not here:
                    return False
            case cst.Try():
                if parent.body is here and parent.orelse is not None:
                    return False
            case cst.If() | cst.Else() | cst.With() | cst.ExceptHandler():
                pass
            case _:
                return False
        here = parent
    return False


def is_idle(entity: Entity, node: cst.If) -> bool:
    """Whether an `if` without `else` does nothing, whatever comes of its condition."""
    effects = (cst.Call, cst.Await, cst.NamedExpr, cst.Yield)
    if node.orelse is not None or entity.find(*effects, within=node.test):
        return False
    only = small(statements_of(node.body)[0]) if len(statements_of(node.body)) == 1 else None
    return isinstance(only, cst.Pass) or (only is not None and leads_nowhere(entity, only))


def needed(entity: Entity, removed: cst.CSTNode) -> bool:
    """Whether something outside of a statement reads a name that has its value from it alone: to
    remove it is a `NameError`, which no tests are needed to find.
    """
    inside = {id(node) for node in entity.find(cst.Name, within=removed)}
    gone = set(stored(entity, removed))
    if not gone:
        return False
    function = _function_of(entity, removed)
    declared = {each.name.value for each in entity.find(cst.NameItem, within=function)}
    read = {
        name.value
        for name in entity.find(cst.Name, within=function)
        if id(name) not in inside and name.value in gone and not _is_no_read(entity, name)
    }
    return bool(read - declared - before(entity, removed))


def before(entity: Entity, node: cst.CSTNode) -> set[str]:
    """The names to which something before a statement may have given a value, in its function."""
    function = _function_of(entity, node)
    found = {each.name.value for each in entity.find(cst.Param, within=_parameters(function))}
    here = node
    while here is not function:
        parent = entity.parents[here]
        if isinstance(parent, cst.IndentedBlock):
            for statement in parent.body:
                if statement is here:
                    break
                found.update(stored(entity, statement))
        elif isinstance(parent, cst.For) and parent.body is here:
            found.update(_names(parent.target))
        elif isinstance(parent, cst.With) and parent.body is here:
            for item in parent.items:
                found.update(_names(item.asname.name) if item.asname else ())
        elif isinstance(parent, cst.ExceptHandler) and parent.name is not None:
            found.update(_names(parent.name.name))
        here = parent
    return found


_STORING: tuple[type[cst.CSTNode], ...] = (
    *(cst.AssignTarget, cst.NamedExpr, cst.AugAssign, cst.For, cst.AnnAssign, cst.AsName),
    *(cst.FunctionDef, cst.ClassDef, cst.ImportAlias),
)


def stored(entity: Entity, node: cst.CSTNode) -> Iterator[str]:
    """The names that a statement, or what is within it, gives a value."""
    for each in entity.find(*_STORING, within=node):
        match each:
            case cst.AssignTarget(target=target) | cst.NamedExpr(target=target):
                yield from _names(target)
            case cst.AugAssign(target=target) | cst.For(target=target):
                yield from _names(target)
            case cst.AnnAssign(target=target, value=value) if value is not None:
                yield from _names(target)
            case cst.AsName(name=name):
                yield from _names(name)
            case cst.FunctionDef(name=name) | cst.ClassDef(name=name):
                yield name.value
            case cst.ImportAlias(name=name, asname=None):
                yield dotted(name).partition(".")[0]
            case _:
                pass


_TOUCHING: tuple[type[cst.CSTNode], ...] = (
    *(cst.Name, cst.Attribute, cst.AssignTarget, cst.AugAssign, cst.Del, cst.Call, cst.Expr),
)


def places_of(entity: Entity, node: cst.CSTNode) -> tuple[set[str], set[str]]:
    """What a statement reads and what it may change: names, and attributes with their dots.

    A call may change what its method belongs to and, where it stands alone, its arguments.
    """
    reads, changes = set(), {*stored(entity, node)}
    for each in entity.find(*_TOUCHING, within=node):
        match each:
            case cst.Name() | cst.Attribute():
                reads.add(dotted(each))
            case cst.AssignTarget(target=target) | cst.AugAssign(target=target):
                changes.add(_root(target))
            case cst.Del(target=target):
                changes.add(_root(target))
            case cst.Call(func=cst.Attribute(value=value)):
                changes.add(dotted(value))
            case cst.Expr(value=cst.Call(args=args)):
                changes.update(dotted(arg.value) for arg in args)
            case _:
                pass
    return reads - {""}, changes - {"", "self", "cls"}


def _root(target: cst.CSTNode) -> str:
    while isinstance(target, cst.Subscript):
        target = target.value
    return dotted(target)


def _names(target: cst.CSTNode) -> Iterable[str]:
    if isinstance(target, cst.Name):
        return [target.value]
    if isinstance(target, cst.Tuple | cst.List):
        return [name for each in target.elements for name in _names(each.value)]
    return []


def _is_no_read(entity: Entity, name: cst.Name) -> bool:
    parent = entity.parents.get(name)
    match parent:
        case cst.Attribute(attr=attr):
            return attr is name
        case cst.Arg(keyword=keyword):
            return keyword is name
        case cst.AssignTarget() | cst.Param() | cst.AsName() | cst.NameItem():
            return True
        case cst.AnnAssign(target=target) | cst.For(target=target):
            return target is name
        case _:
            return False


def _function_of(entity: Entity, node: cst.CSTNode) -> cst.CSTNode:
    """The innermost function around a node, or the entity."""
    here = entity.parents.get(node, entity.node)
    while here is not entity.node and not isinstance(here, cst.FunctionDef):
        here = entity.parents[here]
    return here


def _parameters(function: cst.CSTNode) -> cst.CSTNode:
    return function.params if isinstance(function, cst.FunctionDef) else cst.Parameters()
