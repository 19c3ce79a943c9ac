"""Where in the user's own code an error came from."""

from __future__ import annotations

import os
import sysconfig
import traceback
from pathlib import Path

_OURS = str(Path(__file__).parents[1]) + os.sep
_LIBRARIES = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")})


def place_of(error: BaseException | None) -> str:
    """`FILE:LINE in FUNCTION` of the innermost frame that is no library's and not Rolecraft's.

    Empty where there is none, as of an error that came from another process. Of a group of errors
    it is the first one's place; of an error without such a frame, that of its cause.
    """
    while error is not None:
        for frame in reversed(traceback.extract_tb(error.__traceback__)):
            if _is_own(frame.filename):
                return f"{_short(frame.filename)}:{frame.lineno} in {frame.name}"
        error = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error.__cause__
    return ""


def _is_own(file: str) -> bool:
    return not (
        file.startswith(("<", _OURS, *_LIBRARIES))
        or f"{os.sep}site-packages{os.sep}" in file
        or f"{os.sep}dist-packages{os.sep}" in file
    )


def _short(file: str) -> str:
    """From the current folder, where the file is below it."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file
