"""`MethodTool`: a tool whose parameters are those of its method `use`."""

from __future__ import annotations

import inspect
import re
from typing import Any

from rolecraft.actions._docstring import read_docstring
from rolecraft.actions._schema import Signature, read_signature
from rolecraft.actions.tool import ToolAction, ToolResult
from rolecraft.errors import UsageError


class MethodTool(ToolAction):
    """A tool with settings of its own. Subclasses write `use`, which returns what `@tool`'s may.

    A model reads the docstring of `use`, or else of the class, and calls `CountLines` by the name
    `count_lines` unless `name` is set. For a tool that needs nothing but its arguments, `@tool` is
    shorter.
    """

    _hooks = ToolAction._hooks | {"_signature"}

    async def use(self, *args: Any, **kwargs: Any) -> Any:
        # Without a docstring: a method that has none inherits it, and a model would read it.
        raise _no_use(type(self))

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not inspect.iscoroutinefunction(inspect.unwrap(cls.use)):
            raise UsageError(
                f"`{cls.__name__}.use` is no coroutine: write `async def use(self, …)`."
            )

    def __init__(self, **fields: Any) -> None:
        kind = type(self)
        if kind.use is MethodTool.use:
            raise _no_use(kind)
        fields["name"] = fields.get("name") or kind.name or _snake_case(kind.__name__)
        super().__init__(**fields)
        said = self._signature.description
        if not said and vars(kind).get("__doc__"):  # its own, not that of a class of ours
            said, _ = read_docstring(kind)
        self.desc = self.desc or said

    async def run(self, /, **arguments: Any) -> Any:
        """Call `use`. Returns its result as JSON, or a `ToolResult` as it is.

        Raises `BadToolCall` for wrong arguments, `UsageError` for a result that JSON cannot hold,
        and what `use` raises.
        """
        result = await self.use(**self._signature.read(self.name, arguments))
        return (
            result if isinstance(result, ToolResult) else self._signature.write(self.name, result)
        )

    @property
    def _signature(self) -> Signature:
        kind = type(self)
        if kind not in _signatures:
            _signatures[kind] = read_signature(self.use, self.name, {})
        return _signatures[kind]

    @property
    def _parameters(self) -> dict[str, Any]:
        return self._signature.parameters


def _no_use(kind: type[MethodTool]) -> UsageError:
    return UsageError(f"`{kind.__name__}` has no `async def use(self, …)`: write it.")


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


_signatures: dict[type, Signature] = {}
