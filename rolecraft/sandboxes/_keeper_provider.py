"""How `Bubblewrap` makes its sandboxes: one keeper a loop, and one view of the system a kind."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import weakref
from collections import OrderedDict
from pathlib import Path

from rolecraft.errors import SandboxError
from rolecraft.sandboxes._cgroups import find_places
from rolecraft.sandboxes._keeper_client import Keeper, KeeperError
from rolecraft.sandboxes._keeper_live import KeptSandbox, View, create
from rolecraft.sandboxes._overlay_base import mount_as_nobodys
from rolecraft.sandboxes._seccomp import filter_bytes
from rolecraft.sandboxes.bubblewrap import FOLDER, NEEDS, _program, _python, _system
from rolecraft.sandboxes.live import SandboxRefused, SandboxSpec, check_readable

NETWORK = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ssl", "/etc/pki")
"""What is needed to find hosts and to trust them."""


MOST_VIEWS = 16
"""Views that are kept while no sandbox has them: to make one takes some 10 ms."""
Kind = tuple[tuple[str, ...], str | None, bool, tuple[tuple[int, ...], ...]]
"""Of sandboxes that have one view: what they can read, their root, whether they have no network;
and which files these paths are now: a view goes on showing a folder that was since made anew.
"""


class Kept:
    """The sandboxes of one provider in one event loop."""

    def __init__(self, readable: tuple[Path, ...]) -> None:
        self.readable = readable
        self._keeper: Keeper | None = None
        self._views: OrderedDict[Kind, View] = OrderedDict()
        self._making = asyncio.Lock()

    async def create(self, spec: SandboxSpec) -> KeptSandbox:
        """See `Bubblewrap.create`."""
        if spec.image is not None:
            raise SandboxRefused("`Bubblewrap`", ["image"], "Unpack it, and give its `root`.")
        check_readable((*self.readable, *spec.readable))
        bwrap = _program("bwrap", "bubblewrap")
        if self._keeper is None or self._keeper.lost:
            try:
                self._keeper = Keeper()
            except OSError as error:
                raise SandboxError(f"The sandbox could not be made: {error}.") from error
            self._views.clear()
            self._making = asyncio.Lock()
        keeper = self._keeper
        try:
            await asyncio.shield(keeper.ready)
        except KeeperError as error:
            keeper.close()
            raise SandboxError(f"The sandbox could not be made: {error}. {NEEDS}") from error
        async with self._making:  # many at once share one view
            view = await self._view(keeper, spec, bwrap)
        begin = await _hold(keeper, spec.base) if spec.base is not None else None
        copied = spec.base if begin is None else None
        try:
            return await create(keeper, view, spec, begin, fresh=True, copied=copied)
        finally:
            if begin is not None:
                keeper.tell("drop", number=begin)

    async def _view(self, keeper: Keeper, spec: SandboxSpec, bwrap: str) -> View:
        """The system as sandboxes of this kind see it: made for the first one."""
        readable = [*map(str, dict.fromkeys((*self.readable, *map(Path, spec.readable))))]
        root = None if spec.root is None else str(spec.root)
        found = tuple(map(_identity, (*readable, *(() if root is None else (root,)))))
        key = (tuple(readable), root, spec.network == "none", found)
        if (view := self._views.get(key)) is not None:
            self._views.move_to_end(key)
            return view
        words = [bwrap, "--unshare-pid", "--json-status-fd", "{status}", "--block-fd", "{block}"]
        path = ["/usr/local/bin", "/usr/bin", "/bin"]
        folders = ["/proc", "/dev", "/tmp", FOLDER]
        if root is None:
            python, *mounts = _python()
            path.insert(0, python)
            readable = [*mounts, *readable]
            words += _system()
            words += [word for folder in folders[2:] for word in ("--dir", folder)]
        else:
            path += ["/usr/local/sbin", "/usr/sbin", "/sbin"]
            words += ["--ro-bind", "{root}", "/"]
        words += ["--proc", "/proc", "--dev", "/dev"]
        for name in NETWORK if spec.network != "none" and root is None else ():
            words += ["--ro-bind-try", name, name]
        for folder in readable:
            words += ["--ro-bind", folder, folder]
        words += ["--remount-ro", "/dev", "--remount-ro", "/", "--", "true"]
        held = await _hold(keeper, root) if root is not None else None
        if root is not None and held is None:
            raise SandboxRefused(
                "`Bubblewrap`", [f"root={root!r}"], "Its file system has no id-mapped mounts."
            )
        number = next(keeper.numbers)
        try:
            await keeper.ask(
                "view",
                number=number,
                argv=words,
                root=held,
                folders=[*folders, *readable],
                hidden=[path for path in readable if path.startswith(("/tmp/", "/dev/shm/"))],
            )
        except KeeperError as error:
            raise SandboxError(f"The sandbox could not be made: {error}. {NEEDS}") from error
        env = {"PATH": ":".join(dict.fromkeys(path)), "HOME": FOLDER, "LANG": "C.UTF-8"}
        seccomp = base64.b64encode(filter_bytes()).decode()
        view = View(number, env, seccomp, find_places())
        weakref.finalize(view, _let_go, weakref.ref(keeper), number).atexit = False
        self._views[key] = view
        while len(self._views) > MOST_VIEWS:
            self._views.popitem(last=False)
        return view


def _identity(path: str) -> tuple[int, ...]:
    """What no other file is called while this one is in use; nothing if there is none."""
    try:
        status = os.stat(path)
    except OSError:  # whoever makes the view says so
        return ()
    return status.st_dev, status.st_ino


def _let_go(keeper: weakref.ref[Keeper], number: int) -> None:
    """Have the keeper drop a view that no sandbox or snapshot has, in whatever thread this is."""
    there = keeper()
    if there is not None and not there.loop.is_closed():
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            there.loop.call_soon_threadsafe(_tell, keeper, number)


def _tell(keeper: weakref.ref[Keeper], number: int) -> None:
    if (there := keeper()) is not None:
        there.tell("drop_view", number=number)


async def _hold(keeper: Keeper, base: str | Path) -> int | None:
    """Have the keeper hold a folder of the host; None if it can be had only as a copy."""
    number, mount = next(keeper.numbers), None
    path = await asyncio.to_thread(os.path.abspath, base)
    if os.geteuid() == 0 and (mount := await asyncio.to_thread(mount_as_nobodys, path)) is None:
        return None
    try:
        await keeper.ask("base", [] if mount is None else [mount], number=number, path=path)
    except KeeperError as error:
        raise SandboxError(f"A sandbox cannot begin with `{path}`: {error}.") from error
    finally:
        if mount is not None:
            os.close(mount)
    return number
