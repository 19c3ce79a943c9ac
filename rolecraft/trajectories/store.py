"""An SQL index of many trajectories: find runs by role, outcome or signal without reading them all.

Invariant: the journals (and the findings files beside them) are the truth, the store only an
index. It can be deleted at any time, and `rebuild` makes an equal one. Every batch is one
transaction together with the place up to which the journal was read, so a kill at any moment
loses no more than the batch, which the next `index` reads again.

One process at a time writes to a database, the others wait.

All methods block; in an event loop call them through `asyncio.to_thread`.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Self

import sqlalchemy as sql
from sqlalchemy import ColumnElement, Connection, Row, Table

from rolecraft.errors import MissingExtra, StoreError, TraceError, UnknownName, UsageError
from rolecraft.trajectories import _tables as t
from rolecraft.trajectories._rows import (
    Indexed,
    changed,
    event_row,
    finding_row,
    indexed,
    key_of,
    place_of,
    signal_row,
    summary,
    text_of,
)
from rolecraft.trajectories.codec import decode_event, decode_finding
from rolecraft.trajectories.events import EVENT_KINDS, Event, FailureFinding, Signal
from rolecraft.trajectories.findings import append_findings, load_findings
from rolecraft.trajectories.jsonl import trace_files
from rolecraft.trajectories.reader import Reader, open_trace
from rolecraft.trajectories.trajectory import signal_of

BATCH = 1000
"""Events per transaction, and rows per read."""
FILES = 200
"""Journals per transaction."""
WRITERS = 0x526F6C65
"""The advisory lock of PostgreSQL that whoever writes to an index holds."""


class Store:
    """An index in an SQL database; a context manager.

    `where` is a file for SQLite (made if it is not there) or a database URL that SQLAlchemy
    knows, such as `postgresql://user@host/database` (extra `postgres`). Raises `StoreError` if the
    database cannot be used, `UsageError` for a bad URL, `MissingExtra` without its driver.
    """

    def __init__(self, where: Path | str) -> None:
        self._engine = _engine_for(where)
        self._name = self._engine.url.render_as_string(hide_password=True)
        try:
            with self._transaction(reads=True) as connection:
                known = self._is_ours(connection)
            if not known:  # an index that may only be read is opened all the same
                with self._transaction() as connection:
                    if not self._is_ours(connection):
                        t.metadata.create_all(connection)
                        connection.execute(t.about_index.insert(), {"version": t.INDEX_VERSION})
        except BaseException:
            self.close()
            raise

    def _is_ours(self, connection: Connection) -> bool:
        """Whether there are tables of this version; raises `StoreError` for those of another."""
        if not sql.inspect(connection).has_table(t.about_index.name):
            return False
        version = connection.scalar(sql.select(t.about_index.c.version))
        if version not in (None, t.INDEX_VERSION):
            way_out = (
                "Delete it and index the journals again."
                if self._is_file
                else "Give this one a database or a schema of its own, or drop those tables."
            )
            raise StoreError(
                f"`{self._name}` is an index of version {version}, this Rolecraft has "
                f"{t.INDEX_VERSION}. {way_out}"
            )
        return version is not None

    @property
    def _is_file(self) -> bool:
        return self._engine.dialect.name == "sqlite"

    def close(self) -> None:
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # --- filling ------------------------------------------------------------------------------

    def index(self, path: Path | str) -> int:
        """Take up what is new in a journal, or in all journals of a folder: how many events.

        A journal that was shortened or rewritten since the last time is read again from the start;
        one that is gone from the folder is forgotten. Raises `TraceError` for a journal that
        cannot be read at all: in a folder, after all others were indexed.
        """
        path = Path(path)
        if path.is_dir():
            return self._index_folder(path)
        count, errors = self._index_files([path])
        if errors:
            raise errors[0]
        return count

    def rebuild(self, folder: Path | str) -> int:
        """Forget everything below `folder` and index it anew; returns how many events."""
        folder = Path(folder)
        with self._transaction() as connection:
            self._forget(connection, self._below(connection, folder).values())
        return self._index_folder(folder)

    def add_findings(self, journal: Path | str, findings: Iterable[FailureFinding]) -> None:
        """Append findings to the findings file of a journal, and index both."""
        journal = Path(journal)
        open_trace(journal).close()
        append_findings(journal, findings)
        self.index(journal)

    def _index_folder(self, folder: Path) -> int:
        try:
            files = trace_files(folder)
        except TraceError as error:  # all journals are gone
            files, count, errors = [], 0, [error]
        else:
            count, errors = self._index_files(files)
        there = set(map(key_of, files))
        with self._transaction() as connection:
            known = self._below(connection, folder)
            self._forget(connection, [known[path] for path in known.keys() - there])
        if errors:
            more = f" (and {len(errors) - 1} more files of {folder})" if errors[1:] else ""
            raise TraceError(errors[0].path, errors[0].reason + more)
        return count

    def _index_files(self, files: Iterable[Path]) -> tuple[int, list[TraceError]]:
        """Read what is new in journals; many small ones share a transaction, which waits for disk.

        Returns the number of events, and what is wrong with journals that cannot be read at all;
        those are forgotten.
        """
        waiting, count, errors = deque(files), 0, []
        overtaken: Path | None = None
        while waiting:
            with self._transaction() as connection:
                room = BATCH
                for _ in range(min(len(waiting), FILES)):
                    path, read = waiting[0], 0
                    try:
                        with connection.begin_nested():
                            read = self._index_batch(connection, path)
                    except sql.exc.IntegrityError:  # another process indexed it just now
                        if path == overtaken:
                            raise
                        overtaken = path
                        continue
                    except TraceError as error:
                        errors.append(error)
                        mine = sql.select(t.trajectories.c.key).where(_of(path))
                        self._forget(connection, connection.scalars(mine).all())
                    if read < BATCH:
                        waiting.popleft()
                    count += read
                    room -= read
                    if room <= 0:
                        break
        return count, errors

    def _index_batch(self, connection: Connection, path: Path) -> int:
        """Read the next events of a journal into the tables; returns how many."""
        row = connection.execute(
            sql.select(t.trajectories).where(_of(path)).with_for_update()
        ).one_or_none()
        if row is not None and changed(row, path):
            self._forget(connection, [row.key])
            row = None
        reader = Reader(
            path,
            place=place_of(row),
            header=json.loads(row.header) if row and row.header else None,
        )
        batch = list(islice(reader.events(), BATCH))
        if row is None:
            reader.check_readable()
        fields = summary(row, reader, batch)
        if row is None:
            inserted = connection.execute(t.trajectories.insert().values(fields))
            key = inserted.inserted_primary_key.key  # type: ignore[union-attr]
        else:
            key = row.key
        if batch:
            _insert(connection, t.events, [event_row(key, event) for event in batch])
            measured = [signal_row(key, event) for event in batch if event.kind == "signal"]
            _insert(connection, t.signals, measured)
        if fields["findings_fingerprint"] != (row.findings_fingerprint if row else ""):
            connection.execute(t.findings.delete().where(t.findings.c.trajectory == key))
            found = enumerate(load_findings(path))
            _insert(connection, t.findings, [finding_row(key, n, f) for n, f in found])
        if row is not None and fields.items() - row._mapping.items():
            mine = t.trajectories.c.key == key
            connection.execute(t.trajectories.update().where(mine).values(fields))
        return len(batch)

    def _below(self, connection: Connection, folder: Path) -> dict[str, int]:
        """Path and key of the journals in a folder and the folders in it."""
        top = key_of(folder).rstrip("/\\")
        rows = connection.execute(sql.select(t.trajectories.c.path, t.trajectories.c.key))
        return {path: key for path, key in rows if path.startswith((top + "/", top + "\\"))}

    def _forget(self, connection: Connection, keys: Iterable[int]) -> None:
        for key in sorted(keys):
            for table in (t.events, t.signals, t.findings):
                connection.execute(table.delete().where(table.c.trajectory == key))
            connection.execute(t.trajectories.delete().where(t.trajectories.c.key == key))

    # --- asking -------------------------------------------------------------------------------

    def trajectories(
        self,
        *,
        role: str | None = None,
        stop_reason: str | None = None,
        signal: str | None = None,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> list[Indexed]:
        """The trajectories to which all of this applies, by path.

        `role` did something in it, it ended with `stop_reason`, and `signal` was measured, with a
        value between `at_least` and `at_most`.
        """
        if signal is None and (at_least is not None or at_most is not None):
            raise UsageError("`at_least` and `at_most` need `signal=`, the name of a signal.")
        where: list[ColumnElement[bool]] = []
        if role is not None:
            where.append(_exists(t.events, t.events.c.role == text_of(role)))
        if stop_reason is not None:
            where.append(t.trajectories.c.stop_reason == text_of(stop_reason))
        if signal is not None:
            measured = [t.signals.c.name == text_of(signal)]
            if at_least is not None:
                measured.append(t.signals.c.value >= at_least)
            if at_most is not None:
                measured.append(t.signals.c.value <= at_most)
            where.append(_exists(t.signals, *measured))
        query = sql.select(t.trajectories).where(*where).order_by(t.trajectories.c.path)
        with self._transaction(reads=True) as connection:
            return [indexed(row) for row in connection.execute(query)]

    def events(
        self,
        *,
        kind: str | None = None,
        role: str | None = None,
        trajectory: Path | str | None = None,
    ) -> Iterator[tuple[str, Event]]:
        """Path and event, for every event to which all of this applies, by path and `seq`.

        `trajectory` is the path of a journal or a trajectory id (there may be several of one id).
        """
        if kind is not None and kind not in EVENT_KINDS:
            raise UnknownName("Event kind", kind, EVENT_KINDS)
        where = _equal(t.events, kind=kind, role=role)
        for path, row in self._rows(t.events, t.events.c.seq, where, trajectory):
            yield path, decode_event(json.loads(row.line))

    def signals(
        self,
        *,
        name: str | None = None,
        role: str | None = None,
        trajectory: Path | str | None = None,
    ) -> Iterator[tuple[str, Signal]]:
        """Path and signal, for every signal to which all of this applies, by path and `seq`."""
        # The event's line has what the signals table has not: unit, source, cost, and NaN.
        both = sql.and_(
            t.signals.c.trajectory == t.events.c.trajectory, t.signals.c.seq == t.events.c.seq
        )
        measured = _equal(t.signals, name=name, role=role)
        where: list[ColumnElement[bool]] = [sql.exists().where(both, *measured)]
        for path, row in self._rows(t.events, t.events.c.seq, where, trajectory):
            yield path, signal_of(decode_event(json.loads(row.line)))

    def findings(
        self,
        *,
        mode: str | None = None,
        verdict: str | None = None,
        role: str | None = None,
        source: str | None = None,
        trajectory: Path | str | None = None,
    ) -> Iterator[tuple[str, FailureFinding]]:
        """Path and finding, for every finding to which all of this applies, by path and age."""
        where = _equal(t.findings, mode=mode, verdict=verdict, role=role, source=source)
        for path, row in self._rows(t.findings, t.findings.c.number, where, trajectory):
            yield path, decode_finding(json.loads(row.line))

    def _rows(
        self,
        table: Table,
        order: ColumnElement[int],
        where: list[ColumnElement[bool]],
        trajectory: Path | str | None,
    ) -> Iterator[tuple[str, Row[Any]]]:
        """Rows page by page, so that a caller may write to the store between two of them."""
        of = sql.select(t.trajectories.c.path, t.trajectories.c.key).where(_exists(table, *where))
        if trajectory is not None:
            of = of.where(
                sql.or_(
                    _of(trajectory),
                    t.trajectories.c.id == text_of(str(trajectory)),
                )
            )
        with self._transaction(reads=True) as connection:
            runs = connection.execute(of.order_by(t.trajectories.c.path)).all()
        for path, key in runs:
            last = -1
            while True:
                page = sql.select(table).where(table.c.trajectory == key, order > last, *where)
                with self._transaction(reads=True) as connection:
                    rows = connection.execute(page.order_by(order).limit(BATCH)).all()
                for row in rows:
                    yield path, row
                if len(rows) < BATCH:
                    break
                last = rows[-1]._mapping[order]

    @contextmanager
    def _transaction(self, *, reads: bool = False) -> Iterator[Connection]:
        try:
            with self._engine.connect() as connection:
                # A writer says so at the start, or it may be refused half-way.
                connection = connection.execution_options(rolecraft_writes=not reads)
                with connection.begin():
                    yield connection
        except sql.exc.DBAPIError as error:
            way_out = (
                "It can be deleted; `Store.rebuild` makes it anew from the journals."
                if self._is_file
                else "Is the server there, and may this user write? Nothing is lost: the journals "
                "hold it all, and `Store.rebuild` reads them again."
            )
            raise StoreError(
                f"The index `{self._name}` cannot be used ({_first_cause(error)}). {way_out}"
            ) from error


def _first_cause(error: sql.exc.DBAPIError) -> str:
    """What the database said first.

    When a disk is full, SQLite ends the whole transaction, and then complains that the part of it
    that is to be taken back is not there.
    """
    said, at = error.orig, error.__context__
    while at is not None:
        if isinstance(at, sql.exc.DBAPIError):
            said = at.orig
        at = at.__context__
    return str(said).strip()


def _engine_for(where: Path | str) -> sql.Engine:
    url: sql.URL | str = str(where)
    if isinstance(where, Path) or "://" not in where:
        path = Path(where)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"The index `{path}` cannot be made: {error.strerror}.") from error
        url = sql.URL.create("sqlite", database=str(path))
    try:
        url = sql.make_url(url)
        if url.drivername == "postgresql":
            url = url.set(drivername="postgresql+psycopg")  # what it means differs by version
        # A connection that a restarted server forgot is found out before it is used.
        engine = sql.create_engine(url, pool_pre_ping=url.get_backend_name() != "sqlite")
    except sql.exc.ArgumentError as error:
        raise UsageError(f"`Store({where!r})`: {error}") from None
    except ImportError as error:
        if error.name == "psycopg":
            raise MissingExtra("psycopg", "postgres", "An index in PostgreSQL") from None
        raise UsageError(
            f"`Store({where!r})` needs the module {error.name!r}; install the database's driver."
        ) from None
    if engine.dialect.name == "sqlite":
        sql.event.listen(engine, "connect", _sqlite_connect)
        sql.event.listen(engine, "begin", _sqlite_begin)
    elif engine.dialect.name == "postgresql":
        sql.event.listen(engine, "begin", _postgresql_begin)
    return engine


def _sqlite_connect(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # sqlite3 shall not start transactions by itself
    connection.execute("PRAGMA busy_timeout = 60000")  # milliseconds to wait for another writer


def _sqlite_begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE" if _writes(connection) else "BEGIN")


def _postgresql_begin(connection: Connection) -> None:
    if _writes(connection):  # two that lock the same rows in another order would stop each other
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({WRITERS})")


def _writes(connection: Connection) -> bool:
    return bool(connection.get_execution_options().get("rolecraft_writes", True))


def _of(path: Path | str) -> ColumnElement[bool]:
    return t.trajectories.c.path == key_of(path)


def _equal(table: Table, **values: str | None) -> list[ColumnElement[bool]]:
    return [table.c[name] == text_of(value) for name, value in values.items() if value is not None]


def _exists(table: Table, *where: ColumnElement[bool]) -> ColumnElement[bool]:
    return sql.exists().where(table.c.trajectory == t.trajectories.c.key, *where)


def _insert(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    if rows:
        connection.execute(table.insert(), rows)
