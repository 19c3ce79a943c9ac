"""Our long-term memories do what every one must, and what only a file of SQLite can."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rolecraft.errors import LongTermMemoryError, UsageError
from rolecraft.roles import LongTermMemory, Remembered, SqliteMemory
from rolecraft.roles._terms import query_terms, terms_of
from rolecraft.roles.conformance import ANN, BOB, CY, LongTermMemoryConformance


class TestSqliteFile(LongTermMemoryConformance):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "new" / "memory.db"

    def make(self) -> LongTermMemory:
        return SqliteMemory(self.path)


class TestSqliteInProcess(LongTermMemoryConformance):
    def make(self) -> LongTermMemory:
        return SqliteMemory(":memory:")


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[SqliteMemory]:
    async with SqliteMemory(tmp_path / "memory.db") as made:
        yield made


# --- what is found ---------------------------------------------------------------------------


@given(st.text(max_size=60), st.text(max_size=60))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_whatever_the_text_it_finds_itself(tmp_path: Path, content: str, query: str) -> None:
    async with SqliteMemory(":memory:") as memory:
        await memory.add([Remembered(content)])
        assert await memory.search(query) in ([], [Remembered(content)])
        found = await memory.search(content)
        assert found == ([Remembered(content)] if terms_of(content) else [])


@given(st.text())
def test_no_term_means_anything_to_a_search_engine(text: str) -> None:
    for term in (*terms_of(text), *query_terms(text, 10**9)):
        assert re.fullmatch(r"[a-z0-9\u0080-\U0010ffff]+", term)


@given(st.text())
def test_every_term_of_a_query_is_one_of_the_text(text: str) -> None:
    assert set(query_terms(text, 10**9)) <= set(terms_of(text))


async def test_words_are_found_in_any_case_with_any_accent_and_in_other_forms(
    memory: SqliteMemory,
) -> None:
    said = Remembered("The Café ordered EIGHT boxes; read_register() returned ﬁve.")
    await memory.add([said])
    for query in ("cafe", "CAFÉ", "ordering", "box", "register", "five", "Eight?"):
        assert await memory.search(query) == [said], query
    assert await memory.search("caf") == []


async def test_a_rare_word_counts_for_more_than_a_common_one(memory: SqliteMemory) -> None:
    common = [Remembered(f"the report of day {day}") for day in range(30)]
    rare = Remembered("a zebra was seen")
    await memory.add([*common[:15], rare, *common[15:]])
    assert (await memory.search("report zebra"))[0] == rare


async def test_k_must_be_positive(memory: SqliteMemory) -> None:
    with pytest.raises(UsageError, match=r"search\(k=0\)"):
        await memory.search("tea", 0)


# --- the file --------------------------------------------------------------------------------


async def test_a_later_process_finds_what_an_earlier_one_kept(tmp_path: Path) -> None:
    async with SqliteMemory(tmp_path / "m.db") as memory:
        await memory.add([ANN])
    async with SqliteMemory(str(tmp_path / "m.db")) as again:
        assert await again.search("harvest") == [ANN]


def test_making_one_touches_no_file(tmp_path: Path) -> None:
    """A role does no I/O in its constructor, nor does what it is given."""
    SqliteMemory(tmp_path / "m.db")
    assert list(tmp_path.iterdir()) == []


async def test_two_of_one_file_see_what_the_other_adds(tmp_path: Path) -> None:
    async with SqliteMemory(tmp_path / "m.db") as one, SqliteMemory(tmp_path / "m.db") as two:
        await asyncio.gather(one.add([ANN]), two.add([BOB]))
        await asyncio.gather(one.add([BOB]), two.add([ANN]))
        assert set(await one.search("harvest")) == set(await two.search("harvest")) == {ANN, BOB}


def test_several_processes_may_share_a_file(tmp_path: Path) -> None:
    """Also a new one, which only one of them makes."""
    program = """
import asyncio, sys
from rolecraft.roles import Remembered, SqliteMemory
async def main():
    async with SqliteMemory(sys.argv[1]) as memory:
        for number in range(20):
            await memory.add([Remembered(f"tea {number}", sys.argv[2]), Remembered("all")])
            assert len(await memory.search("tea", 999)) > number
asyncio.run(main())
"""
    path = tmp_path / "m.db"
    together = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(path), str(number)], stderr=subprocess.PIPE
        )
        for number in range(3)
    ]
    assert [process.communicate()[1] for process in together] == [b""] * 3

    async def found() -> list[int]:
        async with SqliteMemory(path) as memory:
            return [len(await memory.search(query, 999)) for query in ("tea", "all")]

    assert asyncio.run(found()) == [60, 1]


def test_a_kill_loses_nothing_that_was_added(tmp_path: Path) -> None:
    program = """
import asyncio, os, signal, sys
from rolecraft.roles import Remembered, SqliteMemory
async def main():
    memory = SqliteMemory(sys.argv[1])
    for number in range(int(sys.argv[2])):
        await memory.add([Remembered(f"tea {number}")])
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    path = tmp_path / "m.db"
    for count in (1, 7):
        subprocess.run([sys.executable, "-c", program, str(path), str(count)], check=False)
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("SELECT count(*) FROM memories").fetchone() == (count,)
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.parametrize("version", [2, 99])
async def test_a_memory_of_a_newer_version_is_refused_with_a_way_out(
    tmp_path: Path, version: int
) -> None:
    path = tmp_path / "m.db"
    async with SqliteMemory(path) as memory:
        await memory.add([ANN])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(
        LongTermMemoryError, match=rf"version {version}.*git pull && pip install \."
    ):
        await SqliteMemory(path).search("harvest")


async def test_what_is_no_memory_is_left_as_it_is(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE memories (x)")
    (tmp_path / "notes.txt").write_text("dear diary " * 100)
    for name, message in (("other.db", "another program's"), ("notes.txt", "not a database")):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(LongTermMemoryError, match=message) as raised:
            await SqliteMemory(tmp_path / name).add([ANN])
        assert raised.value.path == str(tmp_path / name)
        assert (tmp_path / name).read_bytes() == before
    with pytest.raises(LongTermMemoryError, match=r"below`? cannot be used"):
        await SqliteMemory(tmp_path / "notes.txt" / "below").add([ANN])


async def test_an_add_that_fails_adds_nothing(memory: SqliteMemory) -> None:
    broken = Remembered("tea", id="x")
    object.__setattr__(broken, "content", object())
    with pytest.raises(TypeError):
        await memory.add([CY, broken])
    assert await memory.search("ship") == []
    await memory.add([CY])
    assert await memory.search("ship") == [CY]


# --- what is remembered ----------------------------------------------------------------------


def test_the_id_of_a_memory_is_made_from_all_of_it() -> None:
    assert Remembered("a", "b") == Remembered("a", "b")
    assert len({Remembered("a", "b").id, Remembered("ab").id, Remembered("a", "", "b").id}) == 3
    assert Remembered("a", id="mine").id == "mine"
    assert str(ANN) == "Ann: The harvest begins in September."
