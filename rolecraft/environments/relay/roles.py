"""The two roles of `relay` and what they do: ordinary roles and actions."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from rolecraft.actions import Action
from rolecraft.environments.relay.tasks import Digit, Register
from rolecraft.roles import History, Role

if TYPE_CHECKING:
    from rolecraft.environments.relay.environment import RelayEnvironment


class ChooseRegister(Action):
    """Say which register to read."""

    async def run(self, history: History) -> str:
        return str(await self.ask(history[-1].content, returns=Register))


class ReadRegister(Action):
    """Read the register that was chosen last. A tool: no model is asked."""

    async def run(self, history: History) -> str:
        register = history[-1].content
        env = cast("RelayEnvironment", self.role.rc.env)
        value = str(env.registers[register])
        self.record_tool_call("read_register", {"name": register}, value)
        return value


class AddOffset(Action):
    """Add the number that only the executor knows to the value that was read."""

    async def run(self, history: History) -> str:
        env = cast("RelayEnvironment", self.role.rc.env)
        prompt = f"value {history[-1].content} plus {env.offset}"
        return str(await self.ask(prompt, returns=Digit))


class Planner(Role):
    """Knows what is asked for; may read one register."""

    name = "planner"
    system = "planner"
    actions = (ChooseRegister, ReadRegister)


class Executor(Role):
    """Knows the offset; gets the value and answers."""

    name = "executor"
    system = "executor"
    actions = (AddOffset,)
    watch = (ReadRegister,)


def relay_team() -> list[Role]:
    return [Planner(), Executor()]
