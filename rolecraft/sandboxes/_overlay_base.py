"""A folder of the host as the bottom of work folders, where Rolecraft is root.

Sandboxes are nobody's there, and nobody may change root's files, not even their copies. So the
folder is mounted with its owner shown as nobody (an id-mapped mount, Linux 5.12): files that belong
to the folder's own user and group can be changed in the sandbox, those of others as their rights
say. Nothing is changed on disk.
"""

from __future__ import annotations

import errno
import os
import subprocess
from functools import lru_cache
from pathlib import Path

from rolecraft.sandboxes import _keeper_calls as calls

NOBODY = 65534


def mount_as_nobodys(folder: str | Path) -> int | None:
    """A mount of `folder`, attached nowhere yet; None if it cannot be shown so here.

    It can't where root may not mount, and on file systems without such mounts, such as NFS.
    """
    status = os.stat(folder)
    try:
        mount = calls.clone_mount(os.path.abspath(folder))
    except OSError as error:
        if error.errno in (errno.EPERM, errno.ENOSYS):
            return None
        raise
    if (status.st_uid, status.st_gid) == (NOBODY, NOBODY):
        return mount
    try:
        namespace = _namespace(status.st_uid, status.st_gid)
        calls.map_owners(mount, namespace.fd)
    except OSError as error:
        os.close(mount)
        if error.errno in (errno.EPERM, errno.EINVAL, errno.ENOSYS):
            return None
        raise
    return mount


class _Namespace:
    """An open file that stands for a user namespace. It is closed with this object's last user."""

    def __init__(self, path: str) -> None:
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if hasattr(self, "fd"):
            os.close(self.fd)


@lru_cache(maxsize=64)
def _namespace(user: int, group: int) -> _Namespace:
    """A user namespace whose map turns this user and group into nobody."""
    words = ["unshare", "--user", "sh", "-c", "echo; read wait"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if not process.stdout.readline():
            raise PermissionError(errno.EPERM, "no user namespace can be made")
        for name, own in (("uid_map", user), ("gid_map", group)):
            Path(f"/proc/{process.pid}/{name}").write_text(f"{own} {NOBODY} 1")
        namespace = _Namespace(f"/proc/{process.pid}/ns/user")
        process.stdin.close()
        return namespace
