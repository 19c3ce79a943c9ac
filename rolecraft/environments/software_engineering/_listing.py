"""Lists the files of a work folder with their hashes, as JSON on standard output.

Run inside a sandbox as `python3 -I -c`, and imported outside of it: it needs Python alone.
"""

import hashlib
import json
import os
import stat
import sys

LITTER_FOLDERS = {
    *(".git", ".hg", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"),
    *(".tox", ".nox", ".venv", "node_modules", ".cache", ".local", ".config", ".eggs"),
}
"""What tools leave behind: no part of anybody's work."""
LITTER_ENDS = (".pyc", ".pyo", ".egg-info", ".dist-info", ".coverage", ".bash_history")


def listing(folder: str) -> dict[str, list[object]]:
    """By path: `["file", sha256, executable]`, `["link", target]`, `["unreadable", reason]`, or
    `["litter"]`, which stands for all that is in it. Nothing else is a file.
    """
    found: dict[str, list[object]] = {}
    for here, folders, files in os.walk(folder):
        kept = []
        for name in folders:
            path = os.path.join(here, name)
            if name in LITTER_FOLDERS or name.endswith(LITTER_ENDS):
                found[os.path.relpath(path, folder)] = ["litter"]
                continue
            if os.path.islink(path):
                found[os.path.relpath(path, folder)] = ["link", os.readlink(path)]
            else:
                kept.append(name)
        folders[:] = kept
        for name in files:
            path = os.path.join(here, name)
            if name in LITTER_FOLDERS or name.endswith(LITTER_ENDS):
                found[os.path.relpath(path, folder)] = ["litter"]
                continue
            try:
                mode = os.lstat(path).st_mode
                if stat.S_ISLNK(mode):
                    found[os.path.relpath(path, folder)] = ["link", os.readlink(path)]
                elif stat.S_ISREG(mode):
                    with open(path, "rb") as file:
                        digest = hashlib.sha256(file.read()).hexdigest()
                    found[os.path.relpath(path, folder)] = ["file", digest, bool(mode & 0o100)]
            except OSError as error:
                found[os.path.relpath(path, folder)] = ["unreadable", error.strerror]
    return found


if __name__ == "__main__":
    json.dump(listing("."), sys.stdout)
