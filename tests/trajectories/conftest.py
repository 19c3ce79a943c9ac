"""Where the tests of the store keep an index: SQLite files, schemas of a real PostgreSQL server."""

from __future__ import annotations

import itertools
import os
import pwd
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
import sqlalchemy as sql


class Places(Protocol):
    """A kind of database."""

    def new(self) -> Path | str:
        """A place for another index: what `Store` takes."""


class SqliteFiles:
    def __init__(self, folder: Path) -> None:
        self.folder, self.numbers = folder, itertools.count()

    def new(self) -> Path:
        return self.folder / f"index-{next(self.numbers)}.db"


class Postgres:
    """A server of the test session's own, which only a socket in its folder leads to."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.programs, self.folder, self.numbers = programs, folder, itertools.count()
        self.user: dict[str, Any] = {}
        if not os.geteuid():  # the server refuses to run as root
            nobody = pwd.getpwnam("nobody")
            self.user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": ()}
            os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        # English order of letters, so that a test sees where Rolecraft's own is needed.
        order = ["--locale-provider=icu", "--icu-locale=en"]
        self.run("initdb", "-U", "rolecraft", "-A", "trust", "-E", "UTF8", "--no-sync", *order)

    def run(self, program: str, *options: str) -> None:
        command = [self.programs / program, "-D", self.folder / "data", *options]
        # Not a pipe: the server inherits it, and whoever read from it would wait for its end.
        with (self.folder / "output").open("w+") as output:
            done = subprocess.run(
                command, cwd=self.folder, stdout=output, stderr=output, check=False, **self.user
            )
            output.seek(0)
            assert done.returncode == 0, output.read()

    def start(self) -> None:
        settings = f"-k {self.folder} -c listen_addresses= -c fsync=off -c max_connections=50"
        log = str(self.folder / "log")
        self.run("pg_ctl", "start", "-w", "-l", log, "-o", settings)

    def stop(self) -> None:
        self.run("pg_ctl", "stop", "-w", "-m", "fast")

    @property
    def url(self) -> str:
        return f"postgresql://rolecraft@/postgres?host={self.folder}"

    def execute(self, statement: str) -> None:
        engine = sql.create_engine(self.url.replace("postgresql:", "postgresql+psycopg:"))
        with engine.begin() as connection:
            connection.exec_driver_sql(statement)
        engine.dispose()

    def new(self) -> str:
        schema = f"place_{next(self.numbers)}"
        self.execute(f"CREATE SCHEMA {schema}")
        return f"{self.url}&options=-csearch_path%3D{schema}"


@pytest.fixture(scope="session")
def postgres(needs_program: Any) -> Iterator[Postgres]:
    programs = needs_program("initdb", package="postgresql").parent
    # Not in pytest's folder, whose path may be too long for a socket and closed to other users.
    with tempfile.TemporaryDirectory(prefix="pg-") as folder:
        server = Postgres(programs, Path(folder))
        server.start()
        yield server
        server.stop()


@pytest.fixture(params=["sqlite", "postgresql"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Places:
    """Both kinds of database; every test that asks for this runs on both."""
    if request.param == "sqlite":
        return SqliteFiles(tmp_path)
    places: Places = request.getfixturevalue("postgres")
    return places
