"""Lines in loguru's own form: `2025-01-17 11:40:27.872 | INFO     | module:func:85 - text`."""

from __future__ import annotations

import re

HEAD = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?) ?\| ?(?P<level>[A-Z]+) *\| ?"
    r"(?P<module>[\w.<>]+):(?P<function>[\w<>.]+):(?P<line>\d+) ?- ?(?P<text>.*)"
)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
"""What a terminal reads as a change of colour."""
