"""Shared fixtures: the folder of real labelled data, and the switch that forbids real models."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rolecraft.models import forbid_real_models


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--data-dir",
        default=str(Path(__file__).parents[2] / "shared" / "data"),
        help="folder with real logs and reference values; tests that need it skip if absent",
    )


@pytest.fixture(scope="session")
def data_dir(request: pytest.FixtureRequest) -> Path:
    folder = Path(request.config.getoption("--data-dir"))
    if not folder.is_dir():
        pytest.skip(f"no data folder at {folder} (option --data-dir)")
    return folder


@pytest.fixture(autouse=True)
def _no_real_models() -> Iterator[None]:
    with forbid_real_models():
        yield
