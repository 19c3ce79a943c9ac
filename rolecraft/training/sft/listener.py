"""Who is told how a run goes."""

from __future__ import annotations

from collections.abc import Sequence

from rolecraft.training.sft.log import LogLine


class Listener:
    """Is told how a run goes, in the thread that trains. Override what you want to hear."""

    def note(self, text: str) -> None:
        """Something that one may want to know."""

    def warn(self, text: str) -> None:
        """Something that one should know."""

    def preparing(self, done: int, samples: int) -> None:
        """So many of the samples are tokens by now."""

    def sample(self, pieces: Sequence[tuple[str, bool]]) -> None:
        """The first sample in pieces, with whether each is trained on."""

    def begins(self, role: str | None, steps: int, after: int) -> None:
        """An adapter (of `role`, if there are several) is trained for `steps`, `after` of which
        were done before."""

    def line(self, line: LogLine) -> None:
        """A step was logged."""
