"""FRAMES (arXiv 2409.12941), as it is published, and its variant with documents.

    loaded = load_frames("frames.tsv")
    tasks = ResearchTasks(loaded.questions)
    for problem in loaded.refused:      # one `BadRow` a bad row, with its number and column
        print(problem)

The published table has the columns `Prompt`, `Answer`, `wikipedia_link_1` to `_10`,
`wikipedia_link_11+`, `reasoning_types` (parted by `|`) and `wiki_links` (a Python list as text).
The variant has a column `documents` with `title`, `source` and `text` of each page, from which
`loaded.corpus()` makes the web. A row that cannot be read is refused and named. There are no
questions to fall back on: a file without one is an error.
"""

from __future__ import annotations

import ast
import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from rolecraft.environments.row_files import Row, read_rows
from rolecraft.environments.web_research.corpus import Corpus
from rolecraft.environments.web_research.documents import Document
from rolecraft.environments.web_research.tasks import Question, mark
from rolecraft.errors import RolecraftError, UsageError

QUESTION, ANSWER, KINDS, LINKS, DOCUMENTS = (
    "Prompt",
    "Answer",
    "reasoning_types",
    "wiki_links",
    "documents",
)
_OTHER_NAMES = {QUESTION: ("prompt", "question"), ANSWER: ("answer",)}
"""As copies of the data set call them."""
_LINK = "wikipedia_link_"
_NEXT_LINK = re.compile(r"[\s,;]+(?=https?://)")
_TABLES = {".tsv": "\t", ".csv": ","}
_LONGEST_FIELD = 64 * 2**20


class BadRow(RolecraftError):
    """A row of a data set that is no question. Attributes: `row` (from 0), `column`, `problem`."""

    def __init__(self, row: int, column: str, problem: str) -> None:
        self.row, self.column, self.problem = row, column, problem
        super().__init__(f"Row {row} is no question: {column} {problem}.")


class FramesError(UsageError):
    """A file has no question of FRAMES in it. Attributes: `path`, `refused` (its bad rows)."""

    def __init__(self, path: str, reason: str, refused: Sequence[BadRow] = ()) -> None:
        self.path, self.refused = path, tuple(refused)
        first = f" The first of {len(refused)} bad rows: {refused[0]}" if refused else ""
        super().__init__(f"`{path}` {reason}.{first}")


@dataclass(frozen=True, slots=True)
class Loaded:
    """What came of the rows: each is a question, or refused, or was there before."""

    questions: tuple[Question, ...]
    refused: tuple[BadRow, ...]
    documents: tuple[Document, ...]
    """Of the variant that has them: the pages of all questions, each once."""
    repeated: int = 0
    """Rows whose question was there before, with the same answer."""

    def corpus(self, *, index: str | Path | None = None) -> Corpus:
        """The documents as an offline web. Raises `UsageError` if the rows had none.

        An `index` that is there is used if it is of the same addresses and lengths of texts.
        """
        if not self.documents:
            raise UsageError(
                "These rows have no column `documents`, so there is no corpus: load the variant "
                "that has it, or use the web (`PolitePages`, `LiteLLMSearch`)."
            )
        made_of = mark("\n".join(f"{each.address} {len(each.text)}" for each in self.documents))
        return Corpus(self.documents, index=index, made_of=made_of)


def load_frames(path: str | Path) -> Loaded:
    """The questions of a file (`.tsv`, `.csv`, `.jsonl`, `.json`, `.parquet`) or folder.

    Raises `FramesError` if no row is a question, `UsageError` for what cannot be read at all,
    `MissingExtra` for a format that needs a library.
    """
    path = Path(path)
    tables = sorted(path.glob("*.tsv")) if path.is_dir() else [path]
    if tables and all(table.suffix.lower() in _TABLES for table in tables):
        rows: Iterator[Row] = chain.from_iterable(map(_of_table, tables))
    else:
        rows = read_rows(path)
    return of_rows(rows, path=str(path))


def of_rows(rows: Iterable[Row | Mapping[str, Any]], *, path: str = "the rows") -> Loaded:
    """The questions of rows that are already here. Raises `FramesError` if there is none."""
    questions: dict[str, Question] = {}
    refused: list[BadRow] = []
    documents: dict[str, Document] = {}
    repeated = 0
    for number, row in enumerate(rows):
        try:
            if isinstance(row, Row):
                if row.problem:
                    raise BadRow(number, "it", row.problem)
                row = row.fields
            question = of_row(row, number=number)
            known = questions.get(mark(question.question))
            if known is not None and known.answer != question.answer:
                raise BadRow(number, f"`{ANSWER}`", f"is another than before: {known.answer!r}")
            of_question = list(_documents(row, number))
        except BadRow as problem:
            refused.append(problem)
            continue
        repeated += known is not None
        questions.setdefault(mark(question.question), question)
        for each in of_question:
            if each.address not in documents or len(each.text) > len(documents[each.address].text):
                documents[each.address] = each
    if not questions:
        raise FramesError(path, "has no question", refused)
    return Loaded(tuple(questions.values()), tuple(refused), tuple(documents.values()), repeated)


def of_row(row: Mapping[str, Any], *, number: int = 0) -> Question:
    """One row as a question. Raises `BadRow`, which names the row's column."""
    names = {
        column: next((name for name in (column, *_OTHER_NAMES[column]) if name in row), column)
        for column in (QUESTION, ANSWER)
    }
    texts = {}
    for column, name in names.items():
        value = row.get(name)
        if column == ANSWER and isinstance(value, (int, float)) and not isinstance(value, bool):
            value = str(value)  # a copy of the table has numbers as numbers
        if not isinstance(value, str) or not value.strip():
            problem = "is missing" if value is None else "is empty" if value == "" else "is no text"
            raise BadRow(number, f"`{name}`", problem)
        texts[column] = value.strip()
    links = _links(row, number)
    used = {KINDS, LINKS, DOCUMENTS, *names.values()}
    more = {
        key: value
        for key, value in row.items()
        if isinstance(key, str)
        and key not in used
        and not key.startswith(_LINK)
        and isinstance(value, (str, int, float, bool))
    }
    kinds = _listed(row.get(KINDS), number, KINDS)
    return Question(texts[QUESTION], texts[ANSWER], links=links, kinds=kinds, more=more)


def _links(row: Mapping[str, Any], number: int) -> tuple[str, ...]:
    """The pages of a row, from `wiki_links`, else from the columns of single links."""
    links = _listed(row.get(LINKS), number, LINKS)
    if not links:
        single = [row[key] for key in row if isinstance(key, str) and key.startswith(_LINK)]
        texts = [value.strip() for value in single if isinstance(value, str) and value.strip()]
        links = tuple(chain.from_iterable(map(_NEXT_LINK.split, texts)))
    return tuple(dict.fromkeys(links))


def _listed(value: Any, number: int, column: str) -> tuple[str, ...]:
    """A list, or one written as text: in Python, in JSON, or parted by `|`."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return ()
    if isinstance(value, str):
        if not value.lstrip().startswith("["):
            return tuple(part.strip() for part in value.split("|") if part.strip())
        try:
            value = ast.literal_eval(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
            raise BadRow(number, f"`{column}`", f"is no list: {error}") from None
    if not isinstance(value, (list, tuple)) or not all(isinstance(each, str) for each in value):
        raise BadRow(number, f"`{column}`", "is no list of texts")
    return tuple(each.strip() for each in value if each.strip())


def _documents(row: Mapping[str, Any], number: int) -> Iterator[Document]:
    value = row.get(DOCUMENTS)
    if isinstance(value, str) and value.strip():
        try:
            value = json.loads(value)
        except ValueError as error:
            raise BadRow(number, f"`{DOCUMENTS}`", f"is no JSON: {error}") from None
    if not value:
        return
    if not isinstance(value, (list, tuple)):
        raise BadRow(number, f"`{DOCUMENTS}`", "is no list")
    for each in value:
        page = each if isinstance(each, Mapping) else {}
        source, title, text = (page.get(name) for name in ("source", "title", "text"))
        if not (isinstance(source, str) and source.strip() and isinstance(text, str)):
            raise BadRow(number, f"`{DOCUMENTS}`", "has one without a `source` or a `text`")
        yield Document(source.strip(), title if isinstance(title, str) else source, text)


def _of_table(path: Path) -> Iterator[Row]:
    if not path.is_file():
        raise UsageError(f"There is no data set `{path}`: name a file or a folder that exists.")
    before = csv.field_size_limit(_LONGEST_FIELD)
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            table = csv.DictReader(lines, delimiter=_TABLES[path.suffix.lower()])
            for number, fields in enumerate(table):
                problem = "has more columns than the table" if None in fields else ""
                yield Row(number, {} if problem else dict(fields), problem)
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"`{path}` is no table of texts: {error}.") from error
    finally:
        csv.field_size_limit(before)
