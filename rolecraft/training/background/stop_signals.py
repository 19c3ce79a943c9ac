"""How a run ends when it is told to: at a place of its own choosing, with its work kept.

A signal sets a flag; the loop looks at it after each step, writes a checkpoint, and ends with the
exit code that says so. A second signal ends it on the spot.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import NoReturn, Self

STOPPED = (128 + signal.SIGTERM, 128 + signal.SIGINT)
"""Exit codes of a run that was told to stop, by SIGTERM (143) or Ctrl+C (130), and did."""


class StopSignals:
    """Listens to SIGTERM and Ctrl+C for as long as it is entered.

    with StopSignals() as stop:
        for step in steps:
            ...
            if stop.asked:
                save_checkpoint()
                break
    sys.exit(stop.exit_code)

    Python handles signals in the main thread only; elsewhere it listens to nothing.
    """

    def __init__(self, say: str = "") -> None:
        """`say` goes to stderr at once when the first signal comes."""
        self._say = say
        self.signal: int | None = None
        self._at_once = False
        self._before: dict[int, object] = {}

    @property
    def asked(self) -> bool:
        """Whether the run was told to stop."""
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """143 after SIGTERM, 130 after Ctrl+C, 0 if nobody asked."""
        return 0 if self.signal is None else 128 + self.signal

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Within it the first signal ends what is under way, as the second does elsewhere.

        For what takes long and makes nothing that a checkpoint could keep, such as a download.
        """
        before, self._at_once = self._at_once, True
        try:
            if self.signal is not None:  # it came before
                _give_up(self.signal)
            yield
        finally:
            self._at_once = before

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        again = self.asked
        self.signal = number
        if again or self._at_once:
            _give_up(number)
        if self._say:  # past every lock and buffer that the signal may have come in the middle of
            with suppress(OSError):
                os.write(2, f"{self._say}\n".encode())

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            # None: it was set by something that is not Python, and cannot be put back.
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)  # type: ignore[arg-type]
        self._before.clear()


def _give_up(number: int) -> NoReturn:
    """End as if nobody had listened."""
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)
