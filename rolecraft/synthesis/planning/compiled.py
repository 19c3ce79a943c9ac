"""Whether a project must be compiled before it can run: then its files alone are not enough."""

from __future__ import annotations

import re
from pathlib import Path

from rolecraft.errors import UsageError
from rolecraft.synthesis.planning.metadata import Metadata, read_toml

BACKENDS = ("mesonpy", "scikit_build_core", "skbuild", "maturin", "sipbuild", "setuptools_rust")
SOURCES = (".pyx", ".pxd")
BUILT = (".so", ".pyd", ".dylib")
_SETUP = re.compile(
    r"\bext_modules\s*=|\bExtension\(|\bcffi_modules\s*=|\brust_extensions\s*=|\bcythonize\("
    r"|\bmypycify\("
)


def check_pure(source: Path, metadata: Metadata) -> None:
    """Raise `UsageError` if there are parts to compile, unless they lie there compiled."""
    why = reason(source, metadata)
    if why and not any(any(source.rglob(f"*{end}")) for end in BUILT):
        raise UsageError(
            f"{metadata.name or source.name} needs compiling: {why}. Compile it in its own folder "
            f"first (`python setup.py build_ext --inplace`, `pip install --no-build-isolation -e "
            f".`) and plan that folder; or, if it works without those parts, say --pure."
        )


def reason(source: Path, metadata: Metadata) -> str:
    """What says that there are parts to compile; empty if nothing does."""
    if metadata.backend.partition(".")[0] in BACKENDS:
        return f"its build backend is `{metadata.backend}`"
    tool = read_toml(source / "pyproject.toml").get("tool", {})
    if tool.get("setuptools", {}).get("ext-modules"):
        return "pyproject.toml has `tool.setuptools.ext-modules`"
    setup = source / "setup.py"
    if setup.is_file() and (found := _SETUP.search(setup.read_text("utf-8", "replace"))):
        return f"setup.py has `{found[0].rstrip('= (')}`"
    for end in SOURCES:
        for path in sorted(source.rglob(f"*{end}")):
            return f"`{path.relative_to(source)}` is Cython"
    return ""
