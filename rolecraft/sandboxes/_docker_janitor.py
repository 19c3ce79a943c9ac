"""What outlives a process that was killed, to remove the containers and images it had made.

    python -m rolecraft.sandboxes._docker_janitor OWNER docker [OPTION...]

It waits for the end of its stdin, which is the end of its parent, then removes everything that is
labelled with OWNER. Containers end by themselves; an image of a snapshot does not.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from rolecraft.sandboxes._docker_arguments import LABEL

SECONDS = 60


def remove(cli: Sequence[str], owner: str) -> None:
    """Remove the containers and images with this owner; nothing if there are none."""
    label = f"label={LABEL}={owner}"
    containers = _lines(cli, "ps", "--all", "--quiet", "--filter", label)
    if containers:
        _lines(cli, "rm", "--force", *containers)
    # By age: of two layers the later one goes first.
    if images := _lines(cli, "images", "--quiet", "--filter", label):
        for image in dict.fromkeys(images):
            _lines(cli, "rmi", "--force", image)


def _lines(cli: Sequence[str], *arguments: str) -> list[str]:
    done = subprocess.run(
        [*cli, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return done.stdout.split()


if __name__ == "__main__":
    sys.stdin.buffer.read()
    remove(sys.argv[2:], sys.argv[1])
