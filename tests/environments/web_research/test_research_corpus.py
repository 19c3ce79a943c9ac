"""The offline web: documents of a folder, their addresses, and the search in them."""

from __future__ import annotations

import asyncio
import os
import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecraft.environments.tool_context_web import PageError
from rolecraft.environments.web_research.corpus import Corpus
from rolecraft.environments.web_research.documents import Document, read_folder
from rolecraft.environments.web_research.examples import CORPUS, examples
from rolecraft.errors import UsageError


def corpus(**texts: str) -> Corpus:
    return Corpus(Document(f"https://{name}.example/", name, text) for name, text in texts.items())


def test_a_document_says_its_title_and_address_itself() -> None:
    found = {document.address: document for document in read_folder(CORPUS)}
    marrow = found["https://archive.harrow.example/people/ida-marrow"]  # a canonical link
    assert marrow.title == "Ida Marrow, engineer"
    assert "born in Skerry Town" in marrow.text
    assert "visits" not in marrow.text
    rock = found["https://www.harrow-lights.example/gull-rock"]  # lines between `---`
    assert rock.title == "Gull Rock light"
    assert rock.text.startswith("Gull Rock is a reef")


def test_a_document_without_an_address_has_its_path(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/notes.md").write_bytes(b"\xef\xbb\xbf# A heading\r\n\r\ntext\r\n")
    (tmp_path / "plain.txt").write_text("nothing but text")
    (tmp_path / "image.png").write_bytes(b"\x89PNG")
    found = [(each.address, each.title, each.text) for each in read_folder(tmp_path)]
    assert found == [
        ("deep/notes.md", "A heading", "# A heading\n\ntext"),
        ("plain.txt", "plain", "nothing but text"),
    ]


def test_what_is_no_folder_of_documents_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no folder of documents"):
        Corpus.of_folder(tmp_path / "missing")
    with pytest.raises(UsageError, match="holds no document"):
        Corpus.of_folder(tmp_path)
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=r"bad\.txt` is no UTF-8"):
        Corpus.of_folder(tmp_path)
    with pytest.raises(UsageError, match="at least one document"):
        Corpus([])


@pytest.mark.parametrize("name", examples())
async def test_each_search_of_the_reference_finds_its_page_among_the_first(name: str) -> None:
    web = Corpus.of_folder(CORPUS)
    for query, address in examples()[name].looks:
        hits = await web.search(query, limit=3)
        assert address in [hit.url for hit in hits]
        assert (await web.read(address)).text
    web.close()
    web.close()


async def test_rarer_words_and_titles_weigh_more_and_forms_of_words_are_found() -> None:
    web = corpus(bridges="a bridge is long", walks="long long long walks", boats="ferries sail")
    assert [hit.title for hit in await web.search("long bridges", limit=5)] == ["bridges", "walks"]
    assert [hit.title for hit in await web.search("the ferry", limit=5)] == ["boats"]
    assert await web.search("submarine", limit=5) == []
    assert len(await web.search("long", limit=1)) == 1


async def test_a_search_looks_the_same_each_time() -> None:
    web = corpus(**{f"d{n}": "equal words in each" for n in range(20)})
    first = await web.search("equal words", limit=10)
    assert first == await web.search("equal words", limit=10)
    assert [hit.title for hit in first] == [f"d{n}" for n in range(10)]


@settings(deadline=None)
@given(st.text(st.sampled_from("\"'*()^:-+{}ANDORNEAR ab\0\ud800é") | st.characters(), max_size=60))
def test_no_query_and_no_address_is_an_error_of_the_index(text: str) -> None:
    """What a model writes is words, never the query language of the index."""
    asyncio.run(_ask(text))


WEB = corpus(one="some text about a lighthouse")


async def _ask(text: str) -> None:
    await WEB.search(text, limit=3)
    with pytest.raises(PageError, match="it is not in the corpus"):
        await WEB.read(f"no such page: {text}")


async def test_one_address_may_be_written_in_several_ways() -> None:
    web = Corpus([Document("https://en.wikipedia.org/wiki/Caf%C3%A9", "Café", "text")])
    for address in (
        "https://en.wikipedia.org/wiki/Café",
        "http://EN.wikipedia.org/wiki/Caf%C3%A9#History",
        " https://en.wikipedia.org/wiki/Café/ ",
    ):
        assert (await web.read(address)).title == "Café"
    with pytest.raises(PageError, match="not in the corpus"):
        await web.read("https://en.wikipedia.org/wiki/café")


async def test_of_two_documents_with_one_address_the_longer_one_stays() -> None:
    for texts in (["short", "a longer text"], ["a longer text", "short"]):
        web = Corpus(Document("https://x.example/", "x", text) for text in texts)
        assert len(web) == 1
        assert (await web.read("x.example")).text == "a longer text"


async def test_an_index_in_a_file_is_made_once_and_again_when_a_document_changes(
    tmp_path: Path,
) -> None:
    folder, index = tmp_path / "documents", tmp_path / "index.sqlite"
    folder.mkdir()
    note = folder / "note.txt"
    note.write_text("first words")
    Corpus.of_folder(folder, index=index).close()
    made = index.stat().st_ino
    again = Corpus.of_folder(folder, index=index)
    assert index.stat().st_ino == made
    assert [hit.url for hit in await again.search("first", limit=2)] == ["note.txt"]
    again.close()
    note.write_text("second words")
    os.utime(note, ns=(1, 1))
    changed = Corpus.of_folder(folder, index=index)
    assert await changed.search("first", limit=2) == []
    assert len(await changed.search("second", limit=2)) == 1
    changed.close()
    assert sorted(os.listdir(tmp_path)) == ["documents", "index.sqlite"]


@pytest.mark.parametrize("kept", ["in memory", "in a file"])
async def test_a_corpus_goes_to_another_process(tmp_path: Path, kept: str) -> None:
    """As workers on other machines need it; of a file goes the path alone."""
    made = Corpus.of_folder(CORPUS, index=tmp_path / "index" if kept == "in a file" else None)
    packed = pickle.dumps(made)
    made.close()
    copy = pickle.loads(packed)
    assert (await copy.search("Ida Marrow", limit=1))[0].title == "Ida Marrow, engineer"
    copy.close()
    assert (len(packed) < 1000) is (kept == "in a file")


async def test_what_is_no_index_is_made_anew(tmp_path: Path) -> None:
    folder, index = tmp_path / "documents", tmp_path / "index.sqlite"
    folder.mkdir()
    (folder / "note.txt").write_text("words")
    index.write_bytes(b"this is something else" * 100)
    web = Corpus.of_folder(folder, index=index)
    assert len(await web.search("words", limit=1)) == 1
    web.close()
