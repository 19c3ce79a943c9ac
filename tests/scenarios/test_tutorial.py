"""The MetaGPT tutorial whose agent swaps its action list at runtime.

`listing` is its program, written here again; the original is read from the seed file where that
is present, and must behave the same with only its import lines replaced. Variants change single
lines. The program logs what it prints through loguru.
"""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from loguru import logger

from rolecraft import Message, ScriptedModel
from rolecraft.errors import InvalidAnswer

IMPORTS = {
    "rolecraft": (
        "from rolecraft.actions import Action\n"
        "from loguru import logger\n"
        "from rolecraft.roles import Role, RoleReactMode\n"
        "from rolecraft.messages import Message\n"
    ),
    "rolecraft.metagpt": (
        "from rolecraft.metagpt.actions import Action\n"
        "from rolecraft.metagpt.logs import logger\n"
        "from rolecraft.metagpt.roles.role import Role, RoleReactMode\n"
        "from rolecraft.metagpt.schema import Message\n"
    ),
}

LISTING = """
import asyncio


class PrintAction(Action):
    name: str = "PrintAction"
    content: str = ""

    async def run(self, *args, **kwargs) -> str:
        logger.info(f"执行 {self.name}: {self.content}")
        return self.content


class SimpleAgent(Role):
    name: str = "SimpleAgent"
    profile: str = "Simple Sequential Agent"
    phase: int = 1

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._init_actions([PrintAction(content=text) for text in "123"])
        self._set_react_mode(react_mode=RoleReactMode.REACT.value)

    async def _think(self) -> None:
        logger.info(f"{self._setting}: thinking about the next action to take")
        if self.rc.todo is None:
            self._set_state(0)
            return
        if self.rc.state + 1 < len(self.states):
            self._set_state(self.rc.state + 1)
        else:
            self.rc.todo = None

    async def _act(self) -> Message:
        todo = self.rc.todo
        logger.info(f"{self._setting}: executing {todo.name}")
        result = await todo.run()
        if self.phase == 1 and self.rc.state == 2:
            self._switch_to_phase_2()
        return Message(content=result, role=self.name)

    def _switch_to_phase_2(self) -> None:
        self.phase = 2
        self._init_actions([PrintAction(content=text) for text in "456"])
        self.rc.todo = None

    async def _react(self) -> Message:
        msg = None
        while True:
            await self._think()
            if self.rc.todo is None:
                break
            msg = await self._act()
        return msg


async def main():
    agent = SimpleAgent()
    result = await agent.run("开始执行")
    logger.info(f"result: {result}")


if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.fixture
def original(request: pytest.FixtureRequest) -> str:
    """The first article's whole program, without its import lines."""
    seed = (
        Path(request.config.getoption("--data-dir")).parent / "seeds" / "004_12ecbb430583dab2.txt"
    )
    if not seed.is_file():
        pytest.skip(f"no tutorial at {seed} (it lies beside the folder of option --data-dir)")
    text = seed.read_text("utf-8")
    program = text[text.index("完整代码") :]
    program = program[program.index("from metagpt") : program.index("常见问题")]
    assert len(re.findall(r"^from metagpt.*\n", program, flags=re.M)) == 4
    return program


@pytest.fixture(params=["written again", "original"])
def listing(request: pytest.FixtureRequest) -> str:
    if request.param == "written again":
        return LISTING
    original: str = request.getfixturevalue("original")
    return re.sub(r"^from metagpt.*\n", "", original, flags=re.M)


class Printed(list[str]):
    """What a program logged; `numbers` what its PrintActions printed; `module` the program."""

    module: Any = None

    @property
    def numbers(self) -> str:
        return "".join(line[-1] for line in self if "PrintAction: " in line)


Execute = Callable[..., Printed]


@pytest.fixture
def execute(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a program as a script (or, with another `name`, import it); what it logged."""
    handlers: list[int] = []

    def run(program: str, name: str = "__main__") -> Printed:
        printed = Printed()
        handlers.append(logger.add(lambda line: printed.append(line.record["message"])))
        module = types.ModuleType(name)
        if name != "__main__":
            monkeypatch.setitem(sys.modules, name, module)
        exec(compile(program, "tutorial", "exec"), module.__dict__)
        printed.module = module
        return printed

    logger.remove()
    yield run
    for handler in handlers:
        logger.remove(handler)
    logger.add(sys.stderr)


def without(program: str, method: str) -> str:
    """The program with one of the agent's methods taken out."""
    shorter = re.sub(
        rf"    async def {method}\(.*?(?=\n    (async )?def |\n\n\n)", "", program, flags=re.S
    )
    assert shorter != program
    return shorter


def swap_ends_with(program: str, line: str) -> str:
    """The program with another line instead of the `todo = None` after the swap."""
    before, after = program.rsplit("self.rc.todo = None", 1)
    assert "_switch_to_phase_2(self)" in before, "the last one was in `_think`"
    return before + line + after


VARIANTS = {
    "todo = None": "self.rc.todo = None",
    "_set_state(0)": "self._set_state(0)",
    "nothing": "",
}


# --- the listing -----------------------------------------------------------------------------


@pytest.mark.parametrize("imports", IMPORTS)
def test_the_listing_prints_1_to_6_with_only_its_imports_changed(
    listing: str, imports: str, execute: Execute
) -> None:
    printed = execute(IMPORTS[imports] + listing)
    assert printed.numbers == "123456"
    assert "SimpleAgent: 6" in printed[-1]


def test_replacing_one_word_in_the_original_s_imports_is_enough(
    original: str, execute: Execute
) -> None:
    printed = execute(re.sub(r"^from metagpt", "from rolecraft.metagpt", original, flags=re.M))
    assert printed.numbers == "123456"
    assert "最终结果: SimpleAgent: 6" in printed[-1]


@pytest.mark.parametrize(
    ("variant", "numbers"),
    [("todo = None", "123456"), ("_set_state(0)", "12356"), ("nothing", "123456")],
)
def test_under_the_tutorial_s_own_rule_set_state_0_skips_one_as_its_text_says(
    listing: str, variant: str, numbers: str, execute: Execute
) -> None:
    program = swap_ends_with(listing, VARIANTS[variant] or "pass")
    assert execute(IMPORTS["rolecraft"] + program).numbers == numbers


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("removed", [["_think"], ["_think", "_react"]], ids=lambda m: "+".join(m))
def test_under_our_rule_every_way_of_swapping_prints_1_to_6(
    listing: str, variant: str, removed: list[str], execute: Execute
) -> None:
    program = swap_ends_with(listing, VARIANTS[variant] or "pass")
    for method in removed:
        program = without(program, method)
    printed = execute(IMPORTS["rolecraft"] + program)
    assert printed.numbers == "123456"
    assert "SimpleAgent: 6" in printed[-1]


# --- its timeline ----------------------------------------------------------------------------


async def test_the_timeline_of_the_tutorial(listing: str, execute: Execute) -> None:
    """T1 to T9: the state at each moment of the run."""
    module = execute(IMPORTS["rolecraft"] + listing, "tutorial").module
    seen: list[tuple[str, int, str | None, int]] = []

    def look(agent: Any, moment: str) -> None:
        todo = agent.rc.todo
        seen.append((moment, agent.rc.state, todo and todo.content, agent.phase))

    class Watched(module.SimpleAgent):
        async def _think(self) -> None:
            await super()._think()
            look(self, "thought")

        async def _act(self) -> Message:
            message = await super()._act()
            look(self, f"acted {message.content}")
            return message

    agent = Watched()
    contents = [action.content for action in agent.actions]
    look(agent, "made")
    result = await agent.run("开始执行")
    assert contents == ["1", "2", "3"]
    assert seen == [
        ("made", -1, None, 1),  # T1, T2
        ("thought", 0, "1", 1), ("acted 1", 0, "1", 1),  # T3
        ("thought", 1, "2", 1), ("acted 2", 1, "2", 1),  # T4
        ("thought", 2, "3", 1), ("acted 3", -1, None, 2),  # T5: swapped
        ("thought", 0, "4", 2), ("acted 4", 0, "4", 2),  # T6
        ("thought", 1, "5", 2), ("acted 5", 1, "5", 2),  # T7
        ("thought", 2, "6", 2), ("acted 6", 2, "6", 2),  # T8
        ("thought", -1, None, 2),  # T9
    ]  # fmt: skip
    assert str(result) == "SimpleAgent: 6"
    assert [action.content for action in agent.actions] == ["4", "5", "6"]
    assert agent.states == [f"{n}. PrintAction" for n in range(3)]


async def test_the_run_is_recorded_with_its_swap(listing: str, execute: Execute) -> None:
    agent = execute(IMPORTS["rolecraft"] + listing, "tutorial").module.SimpleAgent()
    await agent.run("开始执行")
    kinds = [event.kind for event in agent.trajectory.events]
    three = ["action", "action_result"] * 3
    assert kinds == ["message", *three, "action_swap", *three, "message"]
    fields = [event.data["fields"]["content"] for event in agent.trajectory.of("action")]
    assert fields == list("123456")
    assert list(agent.trajectory.of("message"))[-1].content == "6"


async def test_the_agent_can_be_run_again(listing: str, execute: Execute) -> None:
    """It keeps its second list, as its `phase` is never reset."""
    printed = execute(IMPORTS["rolecraft"] + listing, "tutorial")
    agent = printed.module.SimpleAgent()
    await agent.run("开始执行")
    await agent.run("再来一次")
    assert printed.numbers == "123456" + "456"


# --- its extensions --------------------------------------------------------------------------

EXTENSION = """
import json


class Agent(SimpleAgent):
    async def _act(self) -> Message:
        todo = self.rc.todo
        result = await todo.run()
{body}
        return Message(content=result, role=self.name)

    def _switch_to(self, phase, numbers):
        self.phase = phase
        self._init_actions([PrintAction(content=str(number)) for number in numbers])
        self.rc.todo = None
"""


def extended(listing: str, execute: Execute, body: str) -> Printed:
    lines = "\n".join("        " + line for line in body.strip("\n").splitlines())
    return execute(IMPORTS["rolecraft"] + listing + EXTENSION.format(body=lines), "tutorial")


async def test_a_third_phase(listing: str, execute: Execute) -> None:
    printed = extended(
        listing,
        execute,
        """
if self.phase == 1 and self.rc.state == 2:
    self._switch_to(2, [4, 5, 6])
elif self.phase == 2 and self.rc.state == 2:
    self._switch_to(3, [7, 8, 9])
""",
    )
    result = await printed.module.Agent().run("开始执行")
    assert (printed.numbers, result.content) == ("123456789", "9")


async def test_a_model_decides_about_the_next_phase(listing: str, execute: Execute) -> None:
    """`_aask` of a role: MetaGPT's roles have none, although its tutorial calls it."""
    printed = extended(
        listing,
        execute,
        """
if self.phase == 1 and self.rc.state == 2:
    response = await self._aask("第二阶段要执行哪些动作?返回 JSON")
    self._switch_to(2, json.loads(response))
""",
    )
    agent = printed.module.Agent(model=ScriptedModel(["[7, 9]"]))
    await agent.run("开始执行")
    assert printed.numbers == "12379"
    (call,) = agent.trajectory.of("model_call")
    assert call.data["messages"][-1]["content"] == "第二阶段要执行哪些动作?返回 JSON"
    agent.model.assert_complete()


async def test_a_typed_question_needs_no_parsing(listing: str, execute: Execute) -> None:
    body = """
if self.phase == 1 and self.rc.state == 2:
    self._switch_to(2, await self.ask("Which next?", returns=list[int]))
"""
    printed = extended(listing, execute, body)
    model = ScriptedModel(["I think seven", "[7, 8]"])
    await printed.module.Agent(model=model).run("开始执行")
    assert printed.numbers == "12378"
    stubborn = ScriptedModel(["no"] * 3)
    with pytest.raises(InvalidAnswer):
        await printed.module.Agent(model=stubborn).run("开始执行")


@pytest.mark.parametrize(("last", "numbers"), [(3, "123789"), (4, "124456")])
async def test_a_branch_on_the_result(
    listing: str, execute: Execute, last: int, numbers: str
) -> None:
    printed = extended(
        listing,
        execute,
        """
if self.phase == 1 and self.rc.state == 2:
    self._switch_to(2, [4, 5, 6] if int(result) % 2 == 0 else [7, 8, 9])
""",
    )
    agent = printed.module.Agent()
    agent.actions[2].content = str(last)
    await agent.run("开始执行")
    assert printed.numbers == numbers


async def test_a_generated_list(listing: str, execute: Execute) -> None:
    printed = extended(
        listing,
        execute,
        """
if self.phase == 1 and self.rc.state == 2:
    self._switch_to(2, range(4, 10))
""",
    )
    await printed.module.Agent().run("开始执行")
    assert printed.numbers == "123456789"


async def test_a_list_that_grows_while_it_is_worked_off(execute: Execute) -> None:
    """What MetaGPT's own TutorialAssistant does: `add_actions` here, and our own loop."""
    program = """
class Grower(Role):
    actions = [PrintAction(content="1"), PrintAction(content="2")]

    async def _act(self) -> Message:
        message = await super()._act()
        if message.content == "1":
            self.add_actions(*[PrintAction(content=text) for text in "3456"])
        return message
"""
    printed = execute(IMPORTS["rolecraft"] + LISTING + program, "tutorial")
    agent = printed.module.Grower()
    await agent.run("开始执行")
    assert printed.numbers == "123456"
    assert [m.content for m in agent.rc.memory.get()] == ["开始执行", *"123456"]
