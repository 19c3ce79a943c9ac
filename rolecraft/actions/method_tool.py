"""`MethodTool`: a tool whose parameters are those of its method `use`."""

from __future__ import annotations

from typing import Any

from rolecraft.actions._schema import Signature, read_signature
from rolecraft.actions.tool import ToolAction
from rolecraft.errors import UsageError


class MethodTool(ToolAction):
    """A tool with settings of its own. Subclasses write `use`; its docstring is what a model reads.

    For a tool that needs nothing but its arguments, `@tool` is shorter.
    """

    _hooks = ToolAction._hooks | {"_signature"}

    async def use(self, *args: Any, **kwargs: Any) -> Any:
        """Do it, with validated arguments. Subclasses write this."""
        raise UsageError(f"`{type(self).__name__}` has no `async def use(self, ...)`: write it.")

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.desc = self.desc or self._signature.description

    async def run(self, /, **arguments: Any) -> Any:
        """Call `use`. Raises `BadToolCall` for wrong arguments, and what `use` raises."""
        return await self.use(**self._signature.read(self.name, arguments))

    @property
    def _signature(self) -> Signature:
        kind = type(self)
        if kind not in _signatures:
            _signatures[kind] = read_signature(self.use, self.name, {})
        return _signatures[kind]

    @property
    def _parameters(self) -> dict[str, Any]:
        return self._signature.parameters


_signatures: dict[type, Signature] = {}
