"""The published cases of reasoning, where they are there."""

import json
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def published(data_dir: Path) -> list[dict[str, Any]]:
    file = data_dir / "reasoning_dev.jsonl"
    if not file.is_file():
        pytest.skip(f"no {file}")
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]
