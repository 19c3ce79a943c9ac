"""Whether a chat template writes each message by itself, read from its source.

A local template writes a message by what is in it, its neighbours, and the beginning of the
conversation. So what a conversation's end adds can be found by rendering its beginning and its end
alone, which costs the same at turn 5 and at turn 500. Templates that count, look for the last
question, or carry anything from message to message are not local; nor is any that this reading
does not understand.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

_CARRIES = frozenset({"cycler", "joiner", "lipsum", "strftime_now"})
_CHANGES = frozenset(
    {"append", "extend", "insert", "pop", "remove", "clear", "update", "setdefault", "popitem"}
)
_SEARCHES = frozenset({"startswith", "endswith", "split", "rsplit", "find", "count", "partition"})
_OF_THE_LOOP = frozenset({"first", "last", "index0", "previtem", "nextitem"})


@lru_cache(64)
def is_local(source: str) -> bool:
    """Whether the template `source` is certainly local."""
    import jinja2
    from jinja2 import nodes

    try:
        tree = _parsed(source)
    except jinja2.TemplateSyntaxError:  # a tag of transformers' own
        return False
    return _Reading(nodes).is_local(tree)


@lru_cache(64)
def looked_for(source: str) -> tuple[str, ...]:
    """The texts that the template `source` may look for in what a message says; four at most."""
    import jinja2
    from jinja2 import nodes

    try:
        tree = _parsed(source)
    except jinja2.TemplateSyntaxError:
        return ()
    sought: list[Any] = [
        compare.expr
        for compare in tree.find_all(nodes.Compare)
        if compare.ops[0].op in ("in", "notin")
    ]
    for call in tree.find_all(nodes.Call):
        if isinstance(call.node, nodes.Getattr) and call.node.attr in _SEARCHES:
            sought += call.args
    texts = [text.value for text in sought if isinstance(text, nodes.Const)]
    return tuple(dict.fromkeys(text for text in texts if isinstance(text, str) and text.strip()))[
        :4
    ]


def _parsed(source: str) -> Any:
    import jinja2

    extensions = ["jinja2.ext.loopcontrols", "jinja2.ext.do"]
    return jinja2.Environment(extensions=extensions).parse(source)


class _Reading:
    """One reading of one template. `nodes` is the module of Jinja's syntax tree."""

    def __init__(self, nodes: Any) -> None:
        self.nodes = nodes
        self.lists = {"messages"}
        """Names of the messages, or of all but the first ones."""
        self.loops = 0

    def is_local(self, tree: Any) -> bool:
        return self._fine(tree, None, False) and self.loops == 1

    def _fine(self, node: Any, loop: Any | None, inner: bool) -> bool:
        """Whether all is allowed in `node`.

        `loop` is the loop over messages that it stands in, `inner` whether another is between.
        """
        n = self.nodes
        if isinstance(node, n.For):
            return self._fine_loop(node, loop, inner)
        if isinstance(node, n.Assign) and self._is_list(node.node):
            if loop is not None or not isinstance(node.target, n.Name):
                return False
            self.lists.add(node.target.name)
            return True
        if isinstance(node, n.NSRef) and loop is not None:
            return False  # carried on to the next message
        if isinstance(node, n.Getitem) and self._is_name(node.node):
            return self._is_zero(node.arg) or (
                loop is not None and not inner and self._is_neighbour(node.arg)
            )
        if isinstance(node, n.Getattr):
            if node.attr in _CHANGES:
                return False
            if isinstance(node.node, n.Name) and node.node.name == "loop":
                return inner or loop is None or node.attr in _OF_THE_LOOP - {"index0"}
        own = loop is not None and not inner
        if own and isinstance(node, n.Compare) and self._is_index(node.expr):
            return all(self._is_zero(operand.expr) for operand in node.ops)
        if isinstance(node, n.Name):
            bare_loop = node.name == "loop" and loop is not None and not inner
            return not (node.name in self.lists or node.name in _CARRIES or bare_loop)
        if isinstance(node, (n.Include, n.Import, n.FromImport, n.Extends, n.Block)):
            return False
        return all(self._fine(child, loop, inner) for child in self._children(node))

    def _fine_loop(self, node: Any, loop: Any | None, inner: bool) -> bool:
        if self._is_list(node.iter):
            if loop is not None or node.recursive or node.test is not None:
                return False
            self.loops += 1
            parts = [*node.body, *node.else_]
            return all(self._fine(part, node, False) for part in parts)
        if not self._fine(node.iter, loop, inner):
            return False
        parts = [*node.body, *node.else_, *filter(None, [node.test])]
        return all(self._fine(part, loop, True) for part in parts)

    def _children(self, node: Any) -> Iterable[Any]:
        if isinstance(node, self.nodes.Getattr) and self._is_loop(node.node):
            return ()
        children: Iterable[Any] = node.iter_child_nodes()
        return children

    def _is_name(self, node: Any) -> bool:
        return isinstance(node, self.nodes.Name) and node.name in self.lists

    def _is_loop(self, node: Any) -> bool:
        return isinstance(node, self.nodes.Name) and node.name == "loop"

    def _is_list(self, node: Any) -> bool:
        """The messages, or all of them from the second on."""
        n = self.nodes
        if isinstance(node, n.Getitem) and isinstance(node.arg, n.Slice):
            cut = node.arg
            one = isinstance(cut.start, n.Const) and cut.start.value in (0, 1)
            return one and cut.stop is None and cut.step is None and self._is_name(node.node)
        return self._is_name(node)

    def _is_zero(self, node: Any) -> bool:
        return isinstance(node, self.nodes.Const) and node.value == 0

    def _is_index(self, node: Any) -> bool:
        n = self.nodes
        return isinstance(node, n.Getattr) and self._is_loop(node.node) and node.attr == "index0"

    def _is_neighbour(self, node: Any) -> bool:
        """`loop.index0 + 1` or `loop.index0 - 1`."""
        n = self.nodes
        return (
            isinstance(node, (n.Add, n.Sub))
            and self._is_index(node.left)
            and isinstance(node.right, n.Const)
            and node.right.value == 1
        )
