"""The helpers of these tests can be imported by name, and the published cases are there."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))


def _cases(data_dir: Path, name: str) -> list[dict[str, Any]]:
    file = data_dir / name
    if not file.is_file():
        pytest.skip(f"no {file}")
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


@pytest.fixture(scope="session")
def published(data_dir: Path) -> list[dict[str, Any]]:
    """Raw outputs with the calls that the engines' own tests expect."""
    return _cases(data_dir, "tool_calls_dev.jsonl")


@pytest.fixture(scope="session")
def hard(data_dir: Path) -> list[dict[str, Any]]:
    """Cases that engines get wrong."""
    return _cases(data_dir, "tool_calls_hard.jsonl")
