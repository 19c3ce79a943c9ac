"""The chat templates of model families, with the tokenizers that the sessions' tests use."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

_KIT = Path(__file__).parents[3] / "models" / "token_sessions" / "conftest.py"


@pytest.fixture(scope="session")
def families() -> ModuleType:
    """`FAMILIES` by name, and `tokenizer_of(name)`."""
    name = "template_families_of_token_sessions"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, _KIT)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]
