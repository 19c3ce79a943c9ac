"""R1: the parts of the batch package are short, and importable alone."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import rolecraft.rollouts.batch as package

MODULES = sorted(path.stem for path in Path(package.__path__[0]).glob("[a-z]*.py"))


def test_r1_no_module_is_long() -> None:
    for path in Path(package.__path__[0]).glob("*.py"):
        assert len(path.read_text("utf-8").splitlines()) < 400, path


def test_r1_each_module_is_importable_alone() -> None:
    """In one process each, with nothing imported before; the parts that only read know no torch."""
    code = (
        "import sys, importlib\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module('rolecraft.rollouts.batch.' + name)\n"
        "    assert 'torch' not in sys.modules and 'pyarrow' not in sys.modules, name\n"
    )
    for name in MODULES:
        importlib.import_module(f"rolecraft.rollouts.batch.{name}")
    assert {"ledger", "identity", "toolsets", "statistics", "formats", "runner"} <= {*MODULES}
    for name in ("ledger", "formats", "runner"):
        subprocess.run([sys.executable, "-c", code, name], check=True, timeout=120)
