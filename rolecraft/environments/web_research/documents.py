"""Documents of an offline corpus, and a folder of them: text, Markdown, HTML.

A `.txt` or `.md` file may begin with lines between two `---` that say `title:` and `url:`; of an
HTML page these are its `<title>` and its canonical link. A document without an address has its path
within the folder in its place.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rolecraft.environments.tool_context_web import html_text
from rolecraft.errors import UsageError

SUFFIXES = (".txt", ".md", ".html", ".htm")
_FRONT = re.compile(r"\A---[ \t]*\n(.*?)\n---[ \t]*(?:\n|\Z)", re.DOTALL)
_FIELD = re.compile(r"^(title|url|source)[ \t]*:[ \t]*(.+?)[ \t]*$", re.MULTILINE | re.IGNORECASE)
_HEADING = re.compile(r"^#[ \t]+(.+?)[ \t]*#*$", re.MULTILINE)
_LINK = re.compile(r"<link\b[^<>]*>", re.IGNORECASE)
_REL = re.compile(r"\brel\s*=\s*[\"']?canonical\b", re.IGNORECASE)
_HREF = re.compile(r"\bhref\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'<>]+))", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Document:
    """A text with an address, which need not be one of the web."""

    address: str
    title: str
    text: str


def read_folder(folder: str | Path) -> Iterator[Document]:
    """The documents of a folder and of those in it, by path; files of other kinds are left alone.

    Raises `UsageError` for what is no folder, has no document, or holds one that is no UTF-8.
    """
    folder = Path(folder)
    for path in files_in(folder):
        yield read_document(path, path.relative_to(folder).as_posix())


def files_in(folder: Path) -> list[Path]:
    """The files that are documents. Raises `UsageError` if there are none."""
    if not folder.is_dir():
        raise UsageError(f"There is no folder of documents at `{folder}`.")
    found = sorted(
        path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file()
    )
    if not found:
        raise UsageError(f"`{folder}` holds no document: {', '.join(SUFFIXES)} are read.")
    return found


def fingerprint(folder: Path) -> str:
    """Changes when a document of the folder does, as far as names, sizes and times tell."""
    known = hashlib.sha256()
    for path in files_in(folder):
        at = path.stat()
        line = f"{path.relative_to(folder).as_posix()}\0{at.st_size}\0{at.st_mtime_ns}\n"
        known.update(line.encode("utf-8", "surrogateescape"))
    return known.hexdigest()


def read_document(path: Path, address: str) -> Document:
    """One file as a document; `address` is what it has without one of its own."""
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"The document `{path}` is no UTF-8 text: {error}.") from error
    text = text.replace("\r\n", "\n")
    if path.suffix.lower() in (".html", ".htm"):
        title, shown = html_text(text)
        return Document(_canonical(text) or address, title or path.stem, shown)
    front = _FRONT.match(text)
    fields: dict[str, str] = {}
    if front is not None:
        fields = {name.lower(): value for name, value in _FIELD.findall(front[1])}
        text = text[front.end() :]
    heading = _HEADING.search(text)
    title = fields.get("title") or (heading[1] if heading is not None else path.stem)
    return Document(fields.get("url") or fields.get("source") or address, title, text.strip())


def _canonical(html: str) -> str:
    for link in _LINK.findall(html):
        if _REL.search(link) and (href := _HREF.search(link)):
            return next(part for part in href.groups() if part is not None).strip()
    return ""
