"""Constrained answers: the tree of tokens that spell one of the choices.

Invariant: every path from the root to a leaf is the tokens of exactly one choice, then the end
token. So whatever is sampled along the tree is one of the choices and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

from rolecraft.errors import UsageError


class Node:
    """A point in a partly written choice. `allowed` are the ids that may come next, ascending."""

    __slots__ = ("allowed", "choice", "depth", "next")

    def __init__(self) -> None:
        self.next: dict[int, Node] = {}
        self.allowed: list[int] = []
        self.choice: str | None = None
        """Set at leaves: the choice that was written."""
        self.depth = 0
        """At the root: tokens of the longest choice, its end included."""

    def spelled(self, ids: Sequence[int]) -> str:
        """The choice that a path from here spells; empty if the path ends on the way."""
        node = self
        for token in ids:
            node = node.next[token]
        return node.choice or ""


def choice_tree(choices: Sequence[str], tokens: Sequence[Sequence[int]], end: int) -> Node:
    """The tree of `choices`, spelled by `tokens`. Raises `UsageError` if two spell the same."""
    if not choices:
        raise UsageError(
            "`Sampling(choices=())` leaves nothing to sample. Give at least one choice."
        )
    root = Node()
    for choice, ids in zip(choices, tokens, strict=True):
        if end in ids:
            raise UsageError(
                f"`Sampling(choices=...)`: {choice!r} contains the token that ends an answer "
                f"({end}), so it could never be finished. Leave that out of the choice."
            )
        node = root
        for token in (*ids, end):
            node = node.next.setdefault(token, Node())
        if node.choice is not None and node.choice != choice:
            raise UsageError(
                f"`Sampling(choices=...)`: {node.choice!r} and {choice!r} are the same tokens "
                f"{list(ids)!r} for this model's tokenizer. Choose words that it tells apart."
            )
        node.choice = choice
        root.depth = max(root.depth, len(ids) + 1)
    waiting = [root]
    while waiting:
        node = waiting.pop()
        node.allowed = sorted(node.next)
        waiting.extend(node.next.values())
    return root
