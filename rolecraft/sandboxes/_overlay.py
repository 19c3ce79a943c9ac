"""Work folders made of layers: what one sandbox has changed, over what several share.

A *layer* is a folder that nobody changes any more: a folder of the host, or what a sandbox had
written when it was kept. A work folder is an overlay of its layers with a fresh folder in memory on
top, so that a copy of a sandbox costs one mount, whatever the size of its files. All of it lives in
the mount namespace of the keeper, and is gone with it.

Overlays of folders in memory that an ordinary user may mount are there since Linux 6.6. On an older
one every layer is a whole copy.

Standard library only: it is the keeper that imports this.
"""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import stat
import time
from dataclasses import dataclass, field

from rolecraft.sandboxes import _keeper_calls as calls

MOST_LAYERS = 400
"""Linux takes 500, and no more than 4 KiB of names."""
PATIENCE = 0.1
"""Seconds for the kernel to close the files of processes that have ended."""
INODE_BYTES = 1024
"""One file or folder for each so many bytes of a folder's size: empty files take memory, too."""


@dataclass(slots=True)
class Layer:
    """A folder by its name in the keeper's own folder, and how many hold it."""

    mounted: str
    """What is to be unmounted in the end."""
    folder: str
    holders: int = 0


@dataclass(slots=True)
class Layers:
    """All layers of a keeper. Names are relative to its folder, which is short: see MOST_LAYERS."""

    overlays: bool = True
    """Whether layers can be laid over each other; else they are copied."""
    number: itertools.count[int] = field(default_factory=itertools.count)
    free: list[str] = field(default_factory=list)

    def of_host(self, path: str, fd: int | None) -> Layer:
        """A folder of the host as a layer: from its path, or from a mount that was handed over."""
        name = self._name()
        if fd is None:
            calls.mount(path, name, flags=calls.MS_BIND | calls.MS_REC)
        else:
            calls.attach_mount(fd, name)
        return Layer(name, name)

    def fresh(self, size: int) -> Layer:
        """An empty folder in memory, no larger than `size` bytes; writable until it is a layer."""
        name = self._name()
        memory(name, size)
        for folder in ("u", "w"):
            os.mkdir(f"{name}/{folder}", 0o755)
        return Layer(name, f"{name}/u")

    def freeze(self, layer: Layer) -> None:
        """Let nobody write to what `fresh` gave, whoever has its files or folders open.

        Raises `OSError` (EBUSY) if a file of it is open for writing.
        """
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                _remount(layer.mounted, calls.MS_RDONLY)
                return
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise
                if time.monotonic() > deadline:
                    raise OSError(
                        errno.EBUSY,
                        "a process outside of the sandbox has a file of its work folder open for "
                        "writing, so that it cannot be kept as it is",
                    ) from None
                time.sleep(0.002)

    def thaw(self, layer: Layer) -> None:
        """Undo `freeze`."""
        _remount(layer.mounted)

    def hold(self, layers: list[Layer]) -> list[Layer]:
        """Keep layers until they are dropped as often as held."""
        for layer in layers:
            layer.holders += 1
        return layers

    def drop(self, layers: list[Layer]) -> None:
        for layer in layers:
            layer.holders -= 1
            if layer.holders == 0:
                calls.unmount(layer.mounted)
                self.free.append(layer.mounted)

    def work_folder(self, top: Layer, below: list[Layer]) -> int:
        """A mount, attached nowhere yet, of `top` over `below`, the latest of which comes first."""
        if not below:
            return calls.clone_mount(top.folder)
        if not self.overlays:  # then the latest has all that is in those before
            _copy(below[0].folder, top.folder)
            return calls.clone_mount(top.folder)
        if len(below) > MOST_LAYERS:
            raise OSError(
                f"a work folder of {len(below)} layers: no more than {MOST_LAYERS} snapshots of "
                f"snapshots are possible. Download what is there, and begin a new sandbox with it"
            )
        lower = ":".join(layer.folder for layer in below)
        options = f"lowerdir={lower},upperdir={top.folder},workdir={top.mounted}/w,userxattr"
        calls.mount("overlay", "mount", "overlay", options=options)
        try:
            return calls.clone_mount("mount")
        finally:
            calls.unmount("mount")

    def root_folder(self, root: Layer, folders: list[str]) -> str:
        """A read-only root of a file system like `root`, in which there are these folders, too."""
        skeleton, name = self._name(), self._name()
        for folder in folders:
            os.makedirs(f"{skeleton}/{folder.strip('/')}", exist_ok=True)
        lower = f"lowerdir={skeleton}:{root.folder},userxattr"
        calls.mount("overlay", name, "overlay", calls.MS_RDONLY, lower)
        return name

    def _name(self) -> str:
        if self.free:
            return self.free.pop()
        name = f"{next(self.number):x}"
        os.mkdir(name)
        return name


def overlays_work() -> bool:
    """Whether this process may mount an overlay, and it works: it needs attributes of files."""
    for name in ("probe", "probe/l", "probe/u", "probe/w", "probe/m"):
        os.mkdir(name)
    try:
        os.setxattr("probe/u", "user.rolecraft", b"1")
        options = "lowerdir=probe/l,upperdir=probe/u,workdir=probe/w,userxattr"
        calls.mount("overlay", "probe/m", "overlay", options=options)
        calls.unmount("probe/m")
    except OSError:
        return False
    return True


def _copy(source: str, target: str) -> None:
    """Copy what is in a folder: links as links; pipes are made anew, sockets and devices left."""

    def one(source: str, target: str) -> object:
        kind = os.lstat(source).st_mode
        if stat.S_ISREG(kind):
            shutil.copy2(source, target)
        elif stat.S_ISFIFO(kind):
            os.mkfifo(target, stat.S_IMODE(kind))
        return target

    shutil.copytree(source, target, symlinks=True, copy_function=one, dirs_exist_ok=True)


def _remount(target: str, flags: int = 0) -> None:
    """Set a file system in memory as a whole, not one mount of it, to read-only or back."""
    flags |= calls.MS_REMOUNT | calls.MS_NOSUID | calls.MS_NODEV
    calls.mount("rolecraft", target, "tmpfs", flags)


def memory(target: str, size: int, mode: str = "0755") -> None:
    """Mount a file system in memory."""
    options = f"size={size},nr_inodes={1024 + size // INODE_BYTES},mode={mode}"
    calls.mount("rolecraft", target, "tmpfs", calls.MS_NOSUID | calls.MS_NODEV, options)
