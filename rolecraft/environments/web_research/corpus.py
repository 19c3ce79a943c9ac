"""`Corpus`: documents that are searched and read in place of the web.

    corpus = Corpus.of_folder("notes/")
    web = Web(search=corpus, pages=corpus)

A full-text index of SQLite (FTS5, ranked by BM25 with English stemming). The same documents give
the same results in the same order, on every machine.
"""

from __future__ import annotations

import os
import re
import sqlite3
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote

from rolecraft.actions._threads import in_thread
from rolecraft.environments.tool_context_web import Page, PageError, WebHit
from rolecraft.environments.web_research.documents import Document, fingerprint, read_folder
from rolecraft.environments.web_research.words import STOP_WORDS
from rolecraft.errors import UsageError

MOST_WORDS = 32
"""Of a query; what follows is left out."""
_FORM = 1
"""Of the index; another one is made anew."""
_TABLES = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE documents (id INTEGER PRIMARY KEY, key TEXT UNIQUE, address TEXT, title TEXT,
                        text TEXT);
CREATE VIRTUAL TABLE words USING fts5 (title, text, content='documents', content_rowid='id',
                                       tokenize='porter unicode61 remove_diacritics 2');
"""
_SEARCH = """
SELECT documents.address, documents.title, snippet(words, 1, '', '', ' … ', 32)
FROM words JOIN documents ON documents.id = words.rowid
WHERE words MATCH ? ORDER BY bm25(words, 4.0, 1.0), words.rowid LIMIT ?
"""


class Corpus:
    """A `WebSearch` and `PageReader` over documents, kept in memory, or in the file `index`.

    Of two documents with the same address the longer one stays. An index that is there and of the
    same `made_of` is used as it is, and `documents` are not looked at. Raises `UsageError` if there
    are no documents, or SQLite has no FTS5.
    """

    def __init__(
        self, documents: Iterable[Document], *, index: str | Path | None = None, made_of: str = ""
    ) -> None:
        self._lock = threading.Lock()
        self._index: Path | None = None
        made_of = f"{_FORM}/{made_of}" if made_of else ""
        if index is None:
            self._data = _fill(":memory:", documents, made_of)
            return
        self._index = index = Path(index).absolute()
        kept = _open(index, made_of)
        if kept is None:
            # Under another name until it is whole, so that a killed process leaves none in half.
            begun = index.with_name(f"{index.name}.{os.getpid()}.{threading.get_ident()}")
            begun.unlink(missing_ok=True)
            try:
                _fill(str(begun), documents, made_of).close()
                begun.replace(index)
            finally:
                begun.unlink(missing_ok=True)
            kept = _connect(str(index))
        self._data = kept

    @classmethod
    def of_folder(cls, folder: str | Path, *, index: str | Path | None = None) -> Self:
        """The documents of a folder: see `read_folder`. With `index` they are read once."""
        folder = Path(folder)
        made_of = fingerprint(folder) if index is not None else ""
        return cls(read_folder(folder), index=index, made_of=made_of)

    async def search(self, query: str, *, limit: int) -> list[WebHit]:
        """Documents with words of the query, those first that have more and rarer ones."""
        hits: list[WebHit] = await in_thread(self._search, query=query, limit=limit)
        return hits

    async def read(self, url: str) -> Page:
        """A document by its address. Raises `PageError` for one that is not here."""
        page: Page | None = await in_thread(self._read, key=_key(url))
        if page is None:
            raise PageError(url, "it is not in the corpus")
        return page

    def __len__(self) -> int:
        with self._lock:
            (count,) = self._data.execute("SELECT count(*) FROM documents").fetchone()
        return int(count)

    def close(self) -> None:
        """Close the index. Harmless when called twice."""
        with self._lock:
            self._data.close()

    def __getstate__(self) -> dict[str, Any]:
        """For another process: the path of the index, or all of it where it is in memory."""
        with self._lock:
            return {"index": self._index, "data": None if self._index else self._data.serialize()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._lock, self._index = threading.Lock(), state["index"]
        self._data = _connect(str(self._index or ":memory:"))
        if self._index is None:
            self._data.deserialize(state["data"])

    def _search(self, query: str, limit: int) -> list[WebHit]:
        words = re.findall(r"\w+", query)[:MOST_WORDS]
        telling = [word for word in words if word.casefold() not in STOP_WORDS] or words
        if not telling:
            return []
        match = " OR ".join(f'"{word}"' for word in dict.fromkeys(telling))
        with self._lock:
            rows = self._data.execute(_SEARCH, (match, limit)).fetchall()
        return [WebHit(address, title, snippet) for address, title, snippet in rows]

    def _read(self, key: str) -> Page | None:
        with self._lock:
            row = self._data.execute(
                "SELECT address, title, text FROM documents WHERE key = ?", (key,)
            ).fetchone()
        return Page(*row) if row is not None else None


def _key(address: str) -> str:
    """What is the same for two ways to write one address."""
    plain = unquote(address.strip().partition("#")[0]).rstrip("/")
    for beginning in ("https://", "http://", "www."):
        plain = plain.removeprefix(beginning)
    host, slash, path = plain.partition("/")
    return _storable(host.lower() + slash + path)


def _storable(text: str) -> str:
    """Without lone surrogates, which SQLite does not take."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _connect(path: str) -> sqlite3.Connection:
    return sqlite3.connect(path, check_same_thread=False)  # under a lock of ours


def _open(index: Path, made_of: str) -> sqlite3.Connection | None:
    """The index that is there, if it is of the same documents."""
    if not made_of or not index.is_file():
        return None
    data = _connect(str(index))
    try:
        row = data.execute("SELECT value FROM about WHERE name = 'made of'").fetchone()
    except sqlite3.DatabaseError:  # something else, or broken: made anew
        row = None
    if row == (made_of,):
        return data
    data.close()
    return None


def _fill(path: str, documents: Iterable[Document], made_of: str) -> sqlite3.Connection:
    data = _connect(path)
    try:
        data.executescript(_TABLES)
    except sqlite3.OperationalError as error:
        data.close()
        raise UsageError(
            f"This Python's SQLite ({sqlite3.sqlite_version}) has no full-text search: {error}."
        ) from error
    try:
        for each in documents:
            values = [_storable(text) for text in (each.address, each.title, each.text)]
            data.execute(
                "INSERT INTO documents (key, address, title, text) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (key) DO UPDATE SET address = excluded.address, "
                "title = excluded.title, text = excluded.text "
                "WHERE length(excluded.text) > length(documents.text)",
                (_key(each.address), *values),
            )
        if data.execute("SELECT 1 FROM documents LIMIT 1").fetchone() is None:
            raise UsageError("A `Corpus` needs at least one document, and got none.")
        data.execute("INSERT INTO words (words) VALUES ('rebuild')")
        data.execute("INSERT INTO about VALUES ('made of', ?)", (made_of,))
        data.commit()
    except BaseException:
        data.close()
        raise
    return data
