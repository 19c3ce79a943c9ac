"""The tasks of `relay`.

Four registers hold digits in base 5. The planner knows which register is asked for, the executor
knows a number to add; only together can they answer `(value + offset) mod 5`. Guessing succeeds
in one case of five.
"""

from __future__ import annotations

import random
import zlib
from typing import Literal, get_args

from rolecraft.environments.task import Split, Task

Register = Literal["a", "b", "c", "d"]
Digit = Literal["0", "1", "2", "3", "4"]
REGISTERS: tuple[str, ...] = get_args(Register)
BASE = len(get_args(Digit))


class RelayTasks:
    """Draws tasks at random. A fifth of all possible ones is for `test` and never for `train`."""

    def sample(self, count: int, *, seed: int = 0, split: Split = "train") -> list[Task]:
        draw = random.Random(f"relay/{split}/{seed}")
        tasks: list[Task] = []
        while len(tasks) < count:
            registers = {name: draw.randrange(BASE) for name in REGISTERS}
            asked, offset = draw.choice(REGISTERS), draw.randrange(BASE)
            world = f"{asked}{offset}{''.join(map(str, registers.values()))}"
            if (zlib.crc32(world.encode()) % 5 == 0) is (split == "test"):
                data = {"registers": registers, "asked": asked, "offset": offset}
                tasks.append(
                    Task(f"relay-{split}-{world}", f"asked {asked}", data, seed=len(tasks))
                )
        return tasks
