"""The planted corpus: seeded scripts, played by real roles in a real environment, and a score.

Each test file of this folder belongs to one detector and has two lists of families: functions
from a `Draw` to a `Script` that does, or does not, contain the failure. Every threshold of a
detector was chosen on these runs and on no labelled data.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from rolecraft.failure_taxonomy import Detector, annotate
from rolecraft.failure_taxonomy.detectors.base import CONFIDENCE
from rolecraft.failure_taxonomy.planting import Score, Script, Turn, Use

Family = Callable[[Any], Script]

_ROLES = "ada bruno chen dora emil fatima goran hana ivo jun kofi lena miro nadia".split()  # noqa: SIM905
_THINGS = "parser report invoice index schema layout cache ledger atlas recipe".split()  # noqa: SIM905
_VERBS = "sorts splits counts merges renames groups checks rounds".split()  # noqa: SIM905


class Draw:
    """Names, sentences and tools drawn at random; a sentence never comes twice."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self._roles = self.random.sample(_ROLES, len(_ROLES))
        self._said = 0

    def role(self) -> str:
        """The name of a role that was not drawn before."""
        return self._roles.pop()

    def file(self) -> str:
        self._said += 1
        ending = self.random.choice(["py", "md", "json", "txt"])
        return f"{self.random.choice(_THINGS)}_{self._said}.{ending}"

    def say(self) -> str:
        """A statement that nobody has made in this run."""
        self._said += 1
        thing, verb = self.random.choice(_THINGS), self.random.choice(_VERBS)
        return f"Version {self._said} of the {thing} {verb} the {self.random.choice(_THINGS)}."

    def number(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def one_of(self, *things: Any) -> Any:
        return self.random.choice(things)

    def reading(self) -> Use:
        """A call of a tool that only looks."""
        tool = self.one_of("read_file", "search", "list_files", "GetPage", "show_rows")
        return Use(tool, {"what": self.file(), "limit": self.number(1, 9)}, self.say())

    def writing(self) -> Use:
        """A call of a tool that may change something."""
        tool = self.one_of("shell", "edit_file", "run_python", "put_row", "http_post")
        return Use(tool, {"text": self.say()}, self.one_of("ok", self.say()))

    def chatter(self, *roles: str) -> list[Turn]:
        """Up to three turns in which something new is said, each with an action of its own."""
        return [
            Turn(self.one_of(*roles), "Discuss", says=self.say(), fields={"topic": self.say()})
            for _ in range(self.number(0, 3))
        ]


@pytest.fixture
def draw_of() -> Callable[[str], Draw]:
    """Draws for a seed."""
    return Draw


@pytest.fixture
def draw_for() -> Callable[[str], Draw]:
    """Makes the draw of a seed, for tests that play families themselves."""
    return Draw


@pytest.fixture
def measure() -> Callable[..., Awaitable[Score]]:
    """Score a detector on families of scripts, `positive` with the failure, `negative` without.

    Each is played with `seeds` seeds; all findings must also pass `annotate`, which checks that
    events exist and quotes are verbatim.
    """

    async def run(
        detector: Detector,
        mode: str,
        *,
        positive: Sequence[Family],
        negative: Sequence[Family],
        seeds: int = 8,
    ) -> Score:
        score = Score()
        for planted, families in ((True, positive), (False, negative)):
            for family in families:
                for seed in range(seeds):
                    name = f"{family.__name__}/{seed}"
                    trajectory = await family(Draw(name)).play()
                    score.add(detector, mode, trajectory, planted=planted, name=name)
                    await annotate(trajectory, detectors=[detector])
        return score

    return run


@pytest.fixture
def holds() -> Callable[[Score], None]:
    """The promise of every detector: enough runs, recall >= 0.95, false positives <= 0.02."""

    def check(score: Score) -> None:
        assert score.planted >= 40
        assert score.clean >= 60
        assert score.recall >= 0.95, score.missed
        assert score.false_positives <= 0.02, score.invented
        assert score.precision >= CONFIDENCE  # what its findings claim

    return check
