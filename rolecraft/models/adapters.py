"""One LoRA adapter per role, swapped while requests run.

Invariants: a request is served from its first token to its last by the version that was current
when it began; a served name (`planner@3`) means the same tensors for ever; a version that was
replaced is removed from the engine once the last request that holds it has ended.

What is served is a private copy of the two files, made and fingerprinted when the version is
loaded. Engines read adapters late and again (when one was pushed out of memory), so a trainer that
writes the next version into the same folder would otherwise change what the old name means.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rolecraft._log import log
from rolecraft.errors import AdapterError, UsageError
from rolecraft.models._base_names import compare_bases
from rolecraft.models.adapter_files import (
    CONFIG,
    WEIGHTS,
    Shape,
    check_fits,
    digest_of,
    read_adapter,
)

__all__ = ["AdapterVersion", "Adapters", "digest_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterVersion:
    """One version of one role's adapter, as it is served."""

    role: str
    version: int
    """Policy version, from 1; 0 is the base model."""
    number: int
    """Counts the versions of all roles from 1; never used twice in one process."""
    path: Path
    """Folder of the private copy that the engine reads."""
    source: Path
    """Folder that it was loaded from."""
    digest: str
    """SHA-256 over names, types, shapes and bytes of the tensors: see `digest_of`."""
    rank: int
    base: str
    """The base model that the adapter says it was trained on; may be empty."""

    @property
    def name(self) -> str:
        """The name it is served under."""
        return f"{self.role}@{self.version}"


Hook = Callable[[AdapterVersion], Awaitable[None]]


class Adapters:
    """Which version of which role's adapter an engine serves.

    `load` and `unload` put a version into the engine and take it out. `base` are the names that
    the base model goes by (paths, names on a hub), `shapes` its weights' shapes by module, or a
    function that finds them out (None skips that check), `max_rank` the largest rank that the
    engine has room for. One event loop uses it.

    An adapter names the base model it was trained on: see `_base_names` for when that is taken to
    be this one. Where the names say nothing, the shapes of what the adapter changes decide; that
    includes the vocabulary's where it changes the embeddings or the head.
    """

    def __init__(
        self,
        *,
        load: Hook,
        unload: Hook,
        base: Sequence[str] = (),
        shapes: Mapping[str, Shape] | Callable[[], Mapping[str, Shape] | None] | None = None,
        max_rank: int = 64,
    ) -> None:
        self._load, self._unload = load, unload
        self._base, self._shapes, self._max_rank = tuple(base), shapes, max_rank
        self._current: dict[str, AdapterVersion] = {}
        self._last: dict[str, int] = {}
        """The highest version of each role ever loaded: names are not used again."""
        self._numbers = 0
        self._users: dict[AdapterVersion, int] = {}
        """Every version that the engine holds, and how many requests hold it."""
        self._swapping = asyncio.Lock()
        self._removals: set[asyncio.Task[None]] = set()
        self._folder: Path | None = None

    # --- what requests do --------------------------------------------------------------------

    @contextmanager
    def hold(self, role: str) -> Iterator[AdapterVersion | None]:
        """The role's current version, kept in the engine until the block ends.

        None for a role without an adapter, which the base model serves.
        """
        version = self._current.get(role)
        if version is None:
            yield None
            return
        self._users[version] += 1
        try:
            yield version
        finally:
            if version in self._users:  # else the engine has ended meanwhile
                self._users[version] -= 1
                self._remove_unused(version)

    def current(self, role: str) -> AdapterVersion | None:
        """The version that the role's next request gets; None for the base model."""
        return self._current.get(role)

    def last(self, role: str) -> int:
        """The highest version that the role has ever had; 0 if none. The next one is higher."""
        return self._last.get(role, 0)

    @property
    def roles(self) -> list[str]:
        """The roles that have an adapter, sorted."""
        return sorted(self._current)

    @property
    def loaded(self) -> list[AdapterVersion]:
        """All versions in the engine, old ones that requests still hold too, oldest first."""
        return sorted(self._users, key=lambda version: version.number)

    # --- swapping ----------------------------------------------------------------------------

    async def swap(
        self, role: str, path: str | Path, *, version: int | None = None
    ) -> AdapterVersion:
        """Serve the adapter in the folder `path` to the requests of `role` that begin from now on.

        Requests under way finish on the version they began with. `version` is the next number of
        this role when not given; a given one must be higher than all before it. Raises
        `AdapterError` if the adapter is damaged or does not fit; the old version then stays, as
        it does when the caller is cancelled: the new one is then taken out of the engine again.
        """
        if not role:
            raise UsageError(
                "An adapter belongs to a role, and `role` is empty: name the role that it is for."
            )
        async with self._swapping:
            last = self.last(role)
            if version is not None and version <= last:
                raise UsageError(
                    f"`version={version!r}`: role {role!r} has had version {last} already, and a "
                    f"served name never changes its meaning. Give a higher one, or none."
                )
            taken = await self._taken(role, Path(path), version or last + 1)
            self._last[role] = taken.version
            try:
                await self._put_in(taken)
            except Exception as error:
                if isinstance(error, AdapterError):
                    raise
                raise AdapterError(
                    f"The engine refuses the adapter `{path}` of role {role!r}: {error}"
                ) from error
            old = self._current.get(role)
            self._users[taken] = 0
            self._current[role] = taken
            if old is not None:
                self._remove_unused(old)
            return taken

    async def remove(self, role: str) -> None:
        """Serve the base model to the requests of `role` that begin from now on."""
        async with self._swapping:
            old = self._current.pop(role, None)
            if old is not None:
                self._remove_unused(old)

    async def reload(self) -> None:
        """Put the current versions into an engine that has started anew; old ones are gone."""
        async with self._swapping:
            for version in self.loaded:
                if self._current.get(version.role) is version:
                    await self._load(version)
                else:
                    del self._users[version]
                    await asyncio.to_thread(shutil.rmtree, version.path, True)

    async def settle(self) -> None:
        """Wait until every version that nobody holds any more is out of the engine."""
        while self._removals:
            await asyncio.gather(*self._removals)

    async def aclose(self) -> None:
        """Delete the private copies, when the engine is gone. Harmless when called twice."""
        await self.settle()
        self._current.clear()
        self._users.clear()
        folder, self._folder = self._folder, None
        if folder is not None:
            await asyncio.to_thread(shutil.rmtree, folder, True)

    async def _taken(self, role: str, source: Path, version: int) -> AdapterVersion:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="rolecraft-adapters-"))
        self._numbers += 1
        work = asyncio.to_thread(self._take, role, source, version, self._folder, self._numbers)
        taking = asyncio.ensure_future(work)
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            self._later(self._forget(taking))
            raise

    async def _put_in(self, version: AdapterVersion) -> None:
        """Load a version whole or not at all, also where the caller is cancelled meanwhile."""
        loading = asyncio.ensure_future(self._load(version))
        try:
            await asyncio.shield(loading)
        except asyncio.CancelledError:
            self._later(self._undo(loading, version))
            raise
        except Exception:
            shutil.rmtree(version.path, ignore_errors=True)
            raise

    async def _forget(self, taking: asyncio.Future[AdapterVersion]) -> None:
        """Delete the copy that nobody wants any more, once it is made."""
        with suppress(Exception):
            await asyncio.to_thread(shutil.rmtree, (await taking).path, True)

    async def _undo(self, loading: asyncio.Future[None], version: AdapterVersion) -> None:
        """Take a version out that nobody wants any more, once the engine has taken it in."""
        try:
            await loading
        except (Exception, asyncio.CancelledError):
            await asyncio.to_thread(shutil.rmtree, version.path, True)
        else:
            await self._remove(version)

    def _take(
        self, role: str, source: Path, version: int, folder: Path, number: int
    ) -> AdapterVersion:
        """Copy, read and check an adapter. In a thread: files may be large."""
        if not source.is_dir():
            raise AdapterError(f"There is no adapter folder `{source}`. Check the path.")
        copy = folder / str(number)
        copy.mkdir()
        try:
            for name in (CONFIG, WEIGHTS):
                if (source / name).is_file():
                    shutil.copyfile(source / name, copy / name)
            # Read from the copy: what was checked is what is served. Errors name the source.
            files = read_adapter(copy, source)
            shapes = self._shapes() if callable(self._shapes) else self._shapes
            self._check(source, files.base, files.rank, by_shapes=shapes is not None)
            if shapes is not None:
                check_fits(source, files.shapes, shapes)
        except BaseException:
            shutil.rmtree(copy, ignore_errors=True)
            raise
        return AdapterVersion(
            role=role,
            version=version,
            number=number,
            path=copy,
            source=source,
            digest=files.digest,
            rank=files.rank,
            base=files.base,
        )

    def _check(self, source: Path, base: str, rank: int, *, by_shapes: bool) -> None:
        if rank > self._max_rank:
            raise AdapterError(
                f"The adapter `{source}` has rank {rank}, and the engine has room for "
                f"{self._max_rank}. Start it with `max_rank={rank}` (`rolecraft serve`: `--set "
                f"max_rank={rank}`), or train a smaller adapter."
            )
        if not base or not self._base:
            return
        verdict = compare_bases(base, self._base)
        if verdict == "taken as the same":
            log.info(
                f"The adapter `{source}` was trained on {base!r}, which is taken to be "
                f"{self._base[0]!r}: the last parts of the names agree."
            )
        elif verdict == "another" or (verdict == "unknown" and not by_shapes):
            raise AdapterError(
                f"The adapter `{source}` was trained on {base!r}, and the engine serves "
                f"{self._base[0]!r}. Serve its own base model; if the two are the same, say so "
                f"where the engine is made: `also_known_as=({base!r},)`, or `rolecraft serve "
                f"--also-known-as {base}`."
            )

    def _remove_unused(self, version: AdapterVersion) -> None:
        if self._users.get(version) != 0 or self._current.get(version.role) is version:
            return
        del self._users[version]
        self._later(self._remove(version))

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._removals.add(task)
        task.add_done_callback(self._removals.discard)

    async def _remove(self, version: AdapterVersion) -> None:
        try:
            await self._unload(version)
        except Exception as error:
            # Nobody asks for this name again: the engine holds memory for nothing, no more.
            log.warning(f"The engine did not remove the old adapter `{version.name}`: {error}")
        await asyncio.to_thread(shutil.rmtree, version.path, True)
