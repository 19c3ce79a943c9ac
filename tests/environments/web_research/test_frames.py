"""FRAMES as it is published and with documents; bad rows; and the split that never moves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecraft.environments.web_research import (
    BadRow,
    FramesError,
    Question,
    ResearchTasks,
    load_frames,
)
from rolecraft.environments.web_research.frames import of_row, of_rows
from rolecraft.environments.web_research.tasks import mark
from rolecraft.errors import UsageError

WIKI = "https://en.wikipedia.org/wiki"
ROW = {  # the columns are those of the published table, the text is ours
    "": "0",
    "Prompt": "Who led the town in the year\nin which its bridge opened?",
    "Answer": " Ada Quill ",
    "wikipedia_link_1": f"{WIKI}/Town",
    "wikipedia_link_2": f"{WIKI}/Bridge",
    "wikipedia_link_11+": f"{WIKI}/Mayor_(town), {WIKI}/Year",
    "reasoning_types": "Numerical reasoning | Multiple constraints",
    "wiki_links": f"['{WIKI}/Town', '{WIKI}/Bridge', \"{WIKI}/Ada's_town\"]",
}
PAGES = [
    {"title": "Town", "source": f"{WIKI}/Town", "text": "The town has a bridge."},
    {"title": "Bridge", "source": f"{WIKI}/Bridge", "text": "The bridge opened in 1900."},
]


def table(path: Path, *rows: dict[str, Any], delimiter: str = "\t") -> Path:
    def cell(value: Any) -> str:
        return '"' + str(value).replace('"', '""') + '"'

    lines = [delimiter.join(map(cell, ROW)), *(delimiter.join(map(cell, r.values())) for r in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(("name", "delimiter"), [("frames.tsv", "\t"), ("frames.csv", ",")])
def test_the_published_table_as_it_is(tmp_path: Path, name: str, delimiter: str) -> None:
    loaded = load_frames(table(tmp_path / name, ROW, delimiter=delimiter))
    (question,) = loaded.questions
    assert question.question == "Who led the town in the year\nin which its bridge opened?"
    assert question.answer == "Ada Quill"
    assert question.links == (f"{WIKI}/Town", f"{WIKI}/Bridge", f"{WIKI}/Ada's_town")
    assert question.kinds == ("Numerical reasoning", "Multiple constraints")
    assert question.more == {"": "0"}
    assert loaded.refused == ()


def test_without_a_list_of_links_the_columns_of_single_links_are_read() -> None:
    question = of_row({**ROW, "wiki_links": ""})
    assert question.links == (
        f"{WIKI}/Town",
        f"{WIKI}/Bridge",
        f"{WIKI}/Mayor_(town)",
        f"{WIKI}/Year",
    )


@pytest.mark.parametrize("form", ["jsonl", "json", "parquet", "folder"])
def test_other_forms_hold_the_same(tmp_path: Path, form: str) -> None:
    rows = [{**ROW, "wiki_links": [f"{WIKI}/Town"], "Answer": "1900"}]
    path = tmp_path / f"frames.{form}"
    if form == "jsonl":
        path.write_text(json.dumps(rows[0]) + "\n")
    elif form == "json":
        path.write_text(json.dumps(rows))
    elif form == "parquet":
        arrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(arrow.Table.from_pylist(rows), path)
    else:
        path.mkdir()
        table(path / "test.tsv", {**ROW, "wiki_links": f"['{WIKI}/Town']", "Answer": "1900"})
    (question,) = load_frames(path).questions
    assert (question.answer, question.links) == ("1900", (f"{WIKI}/Town",))


async def test_the_variant_with_documents_is_its_own_web(tmp_path: Path) -> None:
    path = tmp_path / "frames.jsonl"
    longer = {**PAGES[1], "text": "The bridge opened in 1900. It is long."}
    rows = [{**ROW, "documents": PAGES}, {**ROW, "Prompt": "And?", "documents": [longer]}]
    path.write_text("\n".join(map(json.dumps, rows)))
    loaded = load_frames(path)
    assert [document.address for document in loaded.documents] == [f"{WIKI}/Town", f"{WIKI}/Bridge"]
    corpus = loaded.corpus(index=tmp_path / "index.sqlite")
    assert (await corpus.read(f"{WIKI}/Bridge")).text == longer["text"]
    corpus.close()
    with pytest.raises(UsageError, match="no column `documents`"):
        of_rows([ROW]).corpus()


@pytest.mark.parametrize(
    ("changed", "column", "problem"),
    [
        ({"Prompt": None}, "Prompt", "is missing"),
        ({"Prompt": ""}, "Prompt", "is empty"),
        ({"Answer": ["a"]}, "Answer", "is no text"),
        ({"Answer": None}, "Answer", "is missing"),
        ({"wiki_links": "[1, 2]"}, "wiki_links", "no list of texts"),
        ({"wiki_links": "['a'"}, "wiki_links", "is no list"),
        ({"wiki_links": "[__import__('os').getcwd()]"}, "wiki_links", "is no list"),
        ({"documents": "{"}, "documents", "is no JSON"),
        ({"documents": {"a": 1}}, "documents", "is no list"),
        ({"documents": [{"title": "x"}]}, "documents", "without a `source`"),
    ],
)
def test_a_bad_row_is_refused_by_number_and_column_and_the_rest_goes_on(
    changed: dict[str, Any], column: str, problem: str
) -> None:
    loaded = of_rows([{**ROW, "Prompt": "First?"}, {**ROW, **changed}, ROW])
    assert len(loaded.questions) == 2
    (refused,) = loaded.refused
    assert refused.row == 1
    assert column in refused.column
    assert problem in refused.problem


def test_a_file_without_a_question_is_an_error_and_never_another_set_of_questions(
    tmp_path: Path,
) -> None:
    """The predecessor trained on ten built-in questions whenever loading failed."""
    path = tmp_path / "frames.jsonl"
    path.write_text('{"text": "something else"}\n{broken\n')
    with pytest.raises(FramesError, match="has no question") as caught:
        load_frames(path)
    assert [problem.row for problem in caught.value.refused] == [0, 1]
    assert isinstance(caught.value.refused[0], BadRow)
    for missing in ("missing.tsv", "missing.jsonl", "missing"):
        with pytest.raises(UsageError, match="There is no data set"):
            load_frames(tmp_path / missing)
    path.write_text("")
    with pytest.raises(FramesError, match="has no question"):
        load_frames(path)
    (tmp_path / "frames.tsv").write_bytes(b"Prompt\tAnswer\n\xff\xfe\t1\n")
    with pytest.raises(UsageError, match="no table of texts"):
        load_frames(tmp_path / "frames.tsv")
    (tmp_path / "frames.tsv").write_text("Prompt\tAnswer\nWho?\tAda\tmore\n")
    with pytest.raises(FramesError, match="more columns"):
        load_frames(tmp_path / "frames.tsv")


def test_a_question_that_comes_twice_is_one_unless_its_answer_differs() -> None:
    spaced = {**ROW, "Prompt": ROW["Prompt"].replace("\n", "  ")}
    loaded = of_rows([ROW, spaced, {**ROW, "Answer": "Tobias"}])
    assert len(loaded.questions) == loaded.repeated == 1
    assert [(problem.row, problem.column) for problem in loaded.refused] == [(2, "`Answer`")]


def test_the_split_is_the_same_for_ever() -> None:
    """By the words of the question alone: the predecessor shuffled anew at each start."""
    tasks = ResearchTasks([Question(f"Question {n}?", "x") for n in range(30)])
    held_out = [n for n in range(30) if tasks.split(f"Question {n}?") == "test"]
    assert held_out == [10, 15, 16, 22, 23, 26]


@settings(deadline=None)
@given(st.lists(st.text(min_size=1, max_size=30).filter(str.strip), min_size=1, max_size=12))
def test_a_question_stays_in_its_split_whatever_is_beside_it(texts: list[str]) -> None:
    known = {mark(text): Question(text, "x") for text in texts}
    all_of_them = ResearchTasks(known.values())
    for each in known.values():
        alone = ResearchTasks([each])
        assert alone.split(each.question) == all_of_them.split(f"  {each.question}\n")


def test_samples_are_drawn_from_the_seed_and_splits_do_not_overlap() -> None:
    tasks = ResearchTasks([Question(f"Question {n}?", "x") for n in range(40)], held_out=0.3)
    train = {task.id for task in tasks.sample(100, split="train")}
    test = {task.id for task in tasks.sample(100, split="test")}
    assert train
    assert test
    assert not train & test
    assert len(train | test) == 40
    again = [task.id for task in tasks.sample(9, seed=4)]
    assert again == [task.id for task in tasks.sample(9, seed=4)]
    assert again != [task.id for task in tasks.sample(9, seed=5)]


def test_tasks_that_cannot_be_made_say_why() -> None:
    with pytest.raises(UsageError, match="twice"):
        ResearchTasks([Question("Who?", "a"), Question(" Who? ", "b")])
    with pytest.raises(UsageError, match="from 0 to 1"):
        ResearchTasks([], held_out=2)
    with pytest.raises(UsageError, match="held_out=1"):
        ResearchTasks([Question("Who?", "a")], held_out=0).sample(1, split="test")
    with pytest.raises(UsageError, match="must be a list of texts"):
        Question("Who?", "a", aliases="b")
    with pytest.raises(UsageError, match="must be a text"):
        Question("Who?", " ")
