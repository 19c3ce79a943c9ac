"""Where an index can be: files of SQLite, PostgreSQL servers; and what is refused as a place."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rolecraft.errors import MissingExtra, StoreError, UsageError
from rolecraft.trajectories import Event, Journal, Recorder, Store, header


@pytest.fixture
def run(tmp_path: Path) -> Path:
    with Journal(tmp_path / "runs" / "a.jsonl", header("run")) as journal:
        Recorder(journal).add(Event("message", role="Ann", content="hello"))
    return journal.path


# --- SQLite ----------------------------------------------------------------------------------


def test_a_database_url_and_a_path_with_odd_characters_are_understood(
    tmp_path: Path, run: Path
) -> None:
    with Store(f"sqlite:///{tmp_path}/by-url.db") as index:
        assert index.index(run) == 1
    with Store(str(tmp_path / "new folder" / "what? 100%#.db")) as index:
        assert index.index(run) == 1
    assert (tmp_path / "new folder" / "what? 100%#.db").exists()


def test_what_is_no_index_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("dear diary " * 100)
    with pytest.raises(StoreError, match=r"not a database.*can be deleted"):
        Store(tmp_path / "notes.txt")
    with pytest.raises(StoreError, match=r"notes\.txt"):
        Store(tmp_path / "notes.txt" / "index.db")


# --- PostgreSQL ------------------------------------------------------------------------------


@pytest.fixture
def stopped(postgres: Any) -> Iterator[Any]:
    """The server, which a test may stop; it runs again afterwards."""
    yield postgres
    try:
        postgres.execute("SELECT 1")
    except Exception:
        postgres.start()


def test_a_server_that_was_restarted_is_used_as_before(stopped: Any, run: Path) -> None:
    with Store(stopped.new()) as index:
        assert index.index(run) == 1
        stopped.stop()
        stopped.start()
        assert [event.content for _, event in index.events()] == ["hello"]
        assert index.rebuild(run.parent) == 1


def test_a_server_that_is_away_is_an_error_and_costs_nothing(stopped: Any, run: Path) -> None:
    place = stopped.new()
    with Store(place) as index:
        index.index(run)
        stopped.stop()
        for use in (lambda: Store(place), index.trajectories, lambda: index.index(run)):
            with pytest.raises(
                StoreError, match=r"(?s)cannot be used \(.*Nothing is lost.*rebuild"
            ):
                use()
        stopped.start()
        assert index.index(run) == 0, "the same index goes on when the server is back"
        assert len(index.trajectories()) == 1


def test_a_user_who_may_only_read_can_ask(postgres: Any, run: Path) -> None:
    place = postgres.new()
    with Store(place) as index:
        index.index(run)
    schema = place.rpartition("%3D")[2]
    postgres.execute(
        f"DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN; "
        f"GRANT USAGE ON SCHEMA {schema} TO reader; "
        f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO reader"
    )
    try:
        with Store(place.replace("rolecraft@", "reader@")) as index:
            assert [event.content for _, event in index.events()] == ["hello"]
            with pytest.raises(StoreError, match=r"permission denied.*may this user write"):
                index.rebuild(run.parent)
    finally:
        postgres.execute("DROP OWNED BY reader; DROP ROLE reader")


def test_a_password_is_not_shown(postgres: Any) -> None:
    place = postgres.url.replace("rolecraft@", "nobody:hunter2@")
    with pytest.raises(StoreError, match="does not exist") as raised:
        Store(place)
    assert "hunter2" not in str(raised.value)


def test_without_its_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra, match=r"pip install '\.\[postgres\]'"):
        Store("postgresql://host/x")


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("nosuchdb://host/x", "Store.*nosuchdb"),
        ("postgresql+nosuchdriver://host/x", "Store.*nosuchdriver"),
    ],
)
def test_a_bad_url_is_refused(where: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Store(where)
