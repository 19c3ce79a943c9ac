"""A pipeline on a terminal, while it works; without a terminal, a line now and then."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rolecraft.rollouts.events import PipelineEvent
from rolecraft.rollouts.settings import PipelineSettings
from rolecraft.rollouts.tally import STAGES, Tally

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

EVERY = 10.0
"""Seconds between two lines where there is no terminal."""
WIDTH = 30
"""Characters of a stage's bar."""


class Dashboard:
    """Shows how full each stage is, how fast it goes, what it costs and what failed.

        with Dashboard(settings, total=20) as dashboard:
            async for rollout in rollouts(stages, tasks, settings, on_event=dashboard): ...

    On a terminal it is drawn anew a few times a second, and its last state stays; elsewhere, or
    with `plain`, there is a line every `every` seconds, and one at the end.
    """

    def __init__(
        self,
        settings: PipelineSettings,
        *,
        total: int | None = None,
        console: Console | None = None,
        plain: bool = False,
        every: float = EVERY,
    ) -> None:
        from rich.console import Console

        self.settings, self.tally = settings, Tally(total)
        self.console = console or Console(stderr=True)
        self.plain = plain or not self.console.is_terminal
        self._every, self._said = every, time.monotonic()
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if not self.plain:
            from rich.live import Live

            self._live = Live(console=self.console, refresh_per_second=4, get_renderable=self.page)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()
        else:
            self._say()

    def __call__(self, event: PipelineEvent) -> None:
        """Take up what happened."""
        self.tally(event)
        if self.plain and time.monotonic() - self._said >= self._every:
            self._say()

    def _say(self) -> None:
        self._said = time.monotonic()
        self.console.print(f"rollouts: {self.tally.words()}", soft_wrap=True, highlight=False)

    def page(self) -> RenderableType:
        """What the terminal shows."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        tally = self.tally
        stages = Table.grid(padding=(0, 2))
        for stage in STAGES:
            most = self.settings.workers(stage) or self.settings.live
            inside = tally.inside[stage]
            filled = min(WIDTH, -(-inside * WIDTH // most))
            bar = Text("█" * filled, "cyan").append("░" * (WIDTH - filled), "dim")
            stages.add_row(Text(stage, "bold"), bar, f"{inside} of {most}")
        return Group(
            stages,
            Text(f"{tally.alive} of {self.settings.live} environments alive", "dim"),
            Text(tally.words()),
        )
