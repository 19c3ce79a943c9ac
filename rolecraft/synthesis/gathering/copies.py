"""Where else clean code and hidden tests lie: whoever reads them there needs not find the bug."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path, PurePosixPath

from rolecraft.environments.software_engineering.taken import site_packages
from rolecraft.synthesis.gathering.history import files_of
from rolecraft.synthesis.plan import Plan


def copies_in_source(plan: Plan) -> dict[str, list[str]]:
    """Of each file of code or of tests that is there more than once: the other places
    (`build/lib/…`).
    """
    source = Path(plan.project.source)
    by_content: dict[bytes, list[str]] = {}
    for path in files_of(source):
        place = source / path
        if place.is_file() and not place.is_symlink() and place.stat().st_size:
            digest = sha256(place.read_bytes()).digest()
            by_content.setdefault(digest, []).append(path)
    told = {*plan.project.code, *plan.project.tests}
    return {
        path: [other for other in same if other != path]
        for same in by_content.values()
        if len(same) > 1
        for path in same
        if path in told
    }


def copies_in_environment(plan: Plan, files: Iterable[str]) -> list[str]:
    """Those of the files of code that the environment has as well, as an installed package."""
    if not plan.project.environment:
        return []
    found = []
    for path in sorted(set(files)):
        place = Path(plan.project.source) / path
        if not place.is_file():
            continue  # a bug may bring a file
        clean = place.read_bytes()
        names = {
            PurePosixPath(path).relative_to(root)
            for root in (".", *plan.project.python_path)
            if PurePosixPath(path).is_relative_to(root)
        }
        places = [site / name for site in site_packages(plan.project.environment) for name in names]
        if any(place.is_file() and place.read_bytes() == clean for place in places):
            found.append(path)
    return found
