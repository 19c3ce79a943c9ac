"""Long-term memory in one SQLite file, with full-text search: nothing to install or to run.

Ranked by BM25 over words (English ones by their stem) and, in Chinese, Japanese and other texts
without spaces, over pairs of characters. Invariant: a query is taken apart by our own rules before
SQLite sees it, so that no text has a meaning in its search syntax.

Several processes may share a file on a local disk: one writes at a time, the others wait.
"""

from __future__ import annotations

import contextlib
import json
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Self, TypeVar

from rolecraft.actions._threads import in_thread
from rolecraft.errors import LongTermMemoryError, UsageError
from rolecraft.roles._terms import query_terms, terms_of
from rolecraft.roles.long_term import Remembered

if TYPE_CHECKING:
    import sqlite3

T = TypeVar("T")

APPLICATION = 0x526F6C65
"""Written into the file, so that no other program's database is taken for a memory."""
VERSION = 1
PATIENCE = 60.0
"""Seconds to wait for another process that writes."""
MOST_TERMS = 200
"""Of a longer query, the first different terms count."""

_TABLES = f"""
CREATE TABLE memories (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  trajectory TEXT NOT NULL,
  source TEXT NOT NULL,
  line TEXT NOT NULL
);
CREATE INDEX memories_by_trajectory ON memories (trajectory);
CREATE INDEX memories_by_source ON memories (source);
CREATE VIRTUAL TABLE found_by USING fts5(terms, tokenize = 'porter ascii');
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
"""


class SqliteMemory:
    """A `LongTermMemory` in the file `path`, made if it is not there; an async context manager.

    `":memory:"` keeps it in this process only. The file is opened when it is first used. Every
    method raises `LongTermMemoryError` if it cannot be used, or is of a newer Rolecraft.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = str(path)
        self._lock = Lock()  # one connection, used by one thread at a time
        self._connection: sqlite3.Connection | None = None
        self._free: weakref.finalize[..., SqliteMemory] | None = None

    async def add(self, memories: Sequence[Remembered]) -> None:
        if memories:
            await self._do(lambda connection: _add(connection, memories))

    async def search(self, query: str, k: int = 5) -> list[Remembered]:
        if k < 1:
            raise UsageError(f"`search(k={k!r})`: expected how many memories to find, from 1.")
        terms = query_terms(query, MOST_TERMS)
        if not terms:
            return []
        return await self._do(lambda connection: _search(connection, terms, k))

    async def forget(
        self, ids: Iterable[str] = (), *, trajectory: str | None = None, source: str | None = None
    ) -> int:
        known = [ids] if isinstance(ids, str) else list(ids)
        return await self._do(lambda connection: _forget(connection, known, trajectory, source))

    async def aclose(self) -> None:
        await in_thread(self._close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        done: T = await in_thread(self._locked, work=work)
        return done

    def _locked(self, work: Callable[[sqlite3.Connection], T]) -> T:
        import sqlite3

        with self._lock:
            try:
                if self._connection is None:
                    self._connection = _open(self.path)
                    self._free = weakref.finalize(self, self._connection.close)
                return work(self._connection)
            except (sqlite3.Error, OSError) as error:
                raise LongTermMemoryError(self.path, f"cannot be used: {error}") from error

    def _close(self) -> None:
        with self._lock:
            if self._free is not None:
                self._free()
            self._connection = self._free = None

    def __repr__(self) -> str:
        return f"SqliteMemory({self.path!r})"


def _open(path: str) -> sqlite3.Connection:
    import sqlite3

    if path != ":memory:":
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(
        path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
    )
    try:
        if not _is_ours(connection, path):
            with _writing(connection):
                if not _is_ours(connection, path):  # nobody made it in the meantime
                    for statement in _TABLES.split(";\n"):
                        connection.execute(statement)
        # Writers then do not keep readers waiting. Refused while others use the file: once one
        # process was alone with it, it stays so.
        with contextlib.suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        connection.close()
        raise
    return connection


def _is_ours(connection: sqlite3.Connection, path: str) -> bool:
    """False for a new file. Raises `LongTermMemoryError` for any other that is no memory."""
    with _at_once(connection):  # else another process may make it between two of these
        [tables] = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        [application] = connection.execute("PRAGMA application_id").fetchone()
        [version] = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION:
        if tables:
            raise LongTermMemoryError(
                path, "is another program's database. Give the memory a file of its own."
            )
        return False
    if version > VERSION:
        raise LongTermMemoryError(
            path,
            f"has version {version}, this Rolecraft knows up to {VERSION}. "
            "Update it, in a clone of Rolecraft, with: git pull && pip install .",
        )
    return True


@contextmanager
def _at_once(connection: sqlite3.Connection) -> Iterator[None]:
    """Read the file as it is at one moment."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")  # nothing was written


@contextmanager
def _writing(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # on a full disk SQLite has ended it already
            connection.execute("ROLLBACK")
        raise


def _add(connection: sqlite3.Connection, memories: Sequence[Remembered]) -> None:
    with _writing(connection):
        for memory in memories:
            line = json.dumps(asdict(memory))  # in ASCII: whatever the text, SQLite can hold it
            added = connection.execute(
                "INSERT INTO memories (id, trajectory, source, line) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (id) DO NOTHING",
                (_key(memory.id), _key(memory.trajectory), _key(memory.source), line),
            )
            if added.rowcount:
                connection.execute(
                    "INSERT INTO found_by (rowid, terms) VALUES (?, ?)",
                    (added.lastrowid, " ".join(terms_of(memory.content))),
                )


def _search(connection: sqlite3.Connection, terms: list[str], k: int) -> list[Remembered]:
    rows = connection.execute(
        "SELECT line FROM found_by JOIN memories ON number = found_by.rowid "
        "WHERE found_by MATCH ? ORDER BY bm25(found_by), number DESC LIMIT ?",
        (" OR ".join(f'"{term}"' for term in terms), min(k, 2**31)),
    )
    return [Remembered(**json.loads(line)) for [line] in rows]


def _forget(
    connection: sqlite3.Connection, ids: list[str], trajectory: str | None, source: str | None
) -> int:
    with _writing(connection):
        numbers: set[int] = set()
        wanted = [("id", memory) for memory in ids]
        wanted += [("trajectory", trajectory)] if trajectory is not None else []
        wanted += [("source", source)] if source is not None else []
        for column, value in wanted:
            rows = connection.execute(
                f"SELECT number FROM memories WHERE {column} = ?", (_key(value),)
            )
            numbers.update(number for [number] in rows)
        for number in numbers:
            connection.execute("DELETE FROM memories WHERE number = ?", (number,))
            connection.execute("DELETE FROM found_by WHERE rowid = ?", (number,))
    return len(numbers)


def _key(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
