"""10,000 random programs that change a role's action list while it runs.

A program sets, appends, clears and swaps actions and moves the cursor: within an action, before
and after it in `_act`, between runs, while the model thinks, and from another task at random
moments. Whatever it does, the role starts exactly the actions that `Reference` says, in its
order: none is skipped, none repeated, and none of a list that was replaced is started.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from rolecraft import Action, FunctionModel, Message, Role
from rolecraft.errors import NoActions
from rolecraft.models import ModelCall

MODES = ("by_order", "react without a model", "react", "plan_and_act")
TAPE = st.binary(min_size=10, max_size=40)


class Program(NamedTuple):
    mode: str
    first: int
    """Length of the first action list."""
    tape: bytes
    """What to do at each opportunity, one byte each; nothing once it is used up."""


class Reference:
    """What a role must do, in the words of the documentation and as little code as possible.

    Actions are numbers. `due` is the action that must start next, None if there is none.
    """

    def __init__(self, mode: str, actions: list[int]) -> None:
        self.mode, self.actions = mode, actions
        self.changes = 0  # of the list and of the place, by the program
        self.placed: int | None = None
        self.begin()
        self.running = False

    def begin(self) -> None:
        self.running, self.swapped = True, False
        self.next = 0
        self.plan: list[int] | None = None
        """What the model chose or planned, as indexes; None if it was not asked yet."""

    def set(self, actions: list[int]) -> None:
        self.actions, self.swapped = actions, self.running
        self.next, self.placed, self.plan = 0, None, None
        self.changes += 1

    def append(self, actions: list[int]) -> None:
        self.actions = self.actions + actions
        self.changes += 1

    def place(self, index: int) -> None:
        self.placed = index
        self.changes += 1

    @property
    def in_order(self) -> bool:
        if self.swapped or self.mode in MODES[:2]:
            return True
        return self.mode == "react" and len(self.actions) < 2

    @property
    def _index(self) -> int | None:
        if self.placed is not None:
            return self.placed
        if self.in_order:
            return self.next if self.next < len(self.actions) else None
        return self.plan[0] if self.plan else None

    @property
    def due(self) -> int | None:
        return None if self._index is None else self.actions[self._index]

    def take(self) -> None:
        """`_think` has decided: what was due stays due, unless the program says otherwise."""
        if self.placed is None:
            self.placed = self._index
            if not self.in_order and self.plan:
                self.plan.pop(0)

    def start(self, action: int) -> None:
        self.take()
        assert action == self.due, f"{action} started, {self.due} was due"
        assert self.placed is not None
        self.next, self.placed = self.placed + 1, None

    def asked(self, names: list[str]) -> None:
        """The model is asked about a menu of these actions."""
        assert self.due is None, f"asked although {self.due} is due"
        assert len(names) == len(self.actions)
        assert self.mode in MODES[2:]
        self.swapped = False

    def end(self) -> None:
        assert self.due is None, f"the run ended although {self.due} was due"
        self.running = False


class Step(Action):
    """Action number `number` of a world."""

    number: int
    world: World

    async def run(self) -> str:
        world = self.world
        world.log.append(f"start {self.number}")
        world.reference.start(self.number)
        await world.opportunity()
        await world.opportunity()
        return str(self.number)


class Actor(Role):
    world: World

    async def _act(self) -> Message | None:
        self.world.reference.take()
        await self.world.opportunity(lone_none=False)
        message = await super()._act()
        await self.world.opportunity()
        return message


class World:
    """A role, the program that disturbs it, and the reference that watches both."""

    def __init__(self, program: Program) -> None:
        self.log: list[str] = []
        self.tape: Iterator[int] = iter(program.tape)
        self.left = len(program.tape)
        self.numbers = 0
        self.reference = Reference(program.mode, [])
        self.role = Actor(
            world=self,
            react_mode=program.mode.split(" ", 1)[0],
            model=FunctionModel(self.answer) if program.mode in MODES[2:] else None,
        )
        self.set(program.first)

    def next_byte(self) -> int | None:
        self.left -= 1
        return next(self.tape, None)

    def steps(self, count: int) -> list[Step]:
        self.numbers += count
        return [Step(n, self) for n in range(self.numbers - count, self.numbers)]

    def set(self, count: int) -> None:
        steps = self.steps(count)
        self.role.set_actions(steps)
        self.reference.set([step.number for step in steps])

    async def opportunity(self, *, lone_none: bool = True) -> None:
        """Do what the next byte of the tape says."""
        byte = self.next_byte()
        if byte is None:
            return
        what, how = byte & 15, byte >> 4
        role, reference, length = self.role, self.reference, len(self.role.actions)
        if what in (6, 7, 8):
            for _ in range(how % 4):
                await asyncio.sleep(0)
        elif what in (9, 10):
            self.log.append(f"set {1 + how % 3}, then {how // 4}")
            self.set(1 + how % 3)
            if how // 4 == 1:
                role.rc.todo = None
            elif how // 4 == 2:
                role._set_state(0)
                reference.place(0)
        elif what in (11, 12):
            self.log.append(f"append {1 + how % 2}")
            steps = self.steps(1 + how % 2)
            role.add_actions(*steps)
            reference.append([step.number for step in steps])
        elif what == 13:
            self.log.append("clear")
            self.set(0)
        elif what == 14 and length:
            self.log.append(f"place {how % length}")
            role._set_state(how % length)
            reference.place(how % length)
        elif what == 15 and lone_none:
            self.log.append("todo = None")
            role.rc.todo = None
            reference.placed = None

    async def answer(self, call: ModelCall) -> str:
        """The model: chooses or plans at random, and is slow enough to be disturbed."""
        reference = self.reference
        length = len(reference.actions)
        labels = ["Step"] if length == 1 else [str(index) for index in range(length)]
        reference.asked(labels)
        if reference.mode == "react":
            assert call.sampling.choices == (*labels, "done")
        self.log.append("ask")
        before = reference.changes
        byte = self.next_byte() or 0
        for _ in range(1 + byte % 3):
            await asyncio.sleep(0)
        indexes = [(byte >> shift) % length for shift in (2, 4, 6)][: 1 + byte % 3]
        done = reference.mode == "react" and (self.left <= 0 or byte % 5 == 0)
        if reference.changes == before:
            reference.plan = [] if done else indexes[:1] if reference.mode == "react" else indexes
        if reference.mode == "react":
            return "done" if done else labels[indexes[0]]
        return json.dumps({"steps": [{"action": labels[index]} for index in indexes]})

    async def intruder(self) -> None:
        """Another task, which acts whenever the role lets go of the event loop."""
        while self.left > 0:
            await asyncio.sleep(0)
            await self.opportunity(lone_none=False)

    async def live(self) -> None:
        intruder = asyncio.create_task(self.intruder())
        for number in range(3):
            self.reference.begin()
            self.log.append("run")
            try:
                await self.role.run("go")
            except NoActions:
                assert not self.reference.actions
                assert not self.reference.swapped
            self.reference.end()
            assert (self.role.rc.state, self.role.rc.todo) == (-1, None)
            if number < 2:
                await self.opportunity()
        await intruder


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    """One event loop for all programs: making one costs more than running one."""
    with asyncio.Runner() as runner:
        yield runner


@settings(max_examples=10_000, deadline=None)
@given(st.builds(Program, st.sampled_from(MODES), st.integers(0, 3), TAPE))
def test_no_program_makes_a_role_skip_repeat_or_start_a_stale_action(
    runner: asyncio.Runner, program: Program
) -> None:
    world = World(program)
    try:
        runner.run(world.live())
    except BaseException:
        note(f"{program.mode}, first {program.first}: {'; '.join(world.log)}")
        raise
