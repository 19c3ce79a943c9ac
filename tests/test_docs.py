"""README and docs tell the truth: Python runs, commands parse, links lead somewhere.

How to write a code block, by what follows its opening ticks:

- `python`: is run. Blocks of one file share their names, in order; `await` is allowed anywhere;
  the working folder is an empty one and real models are forbidden.
- `text output`, right after such a block: what that block must have printed.
- `python no-run`: must compile. Its first line is a comment `# not run: ` with the reason.
- `sh`, and `console` (lines after `$ `): every `rolecraft` and `make` command must be one that
  exists, with the options it names.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import re
import shlex
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TOP_LEVEL_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


class Block(NamedTuple):
    page: Path
    line: int
    """Line of the opening fence, from 1."""
    info: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def read_blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, also those inside lists (their indentation is taken off)."""
    lines = iter(enumerate(page.read_text("utf-8").splitlines(), 1))
    for number, line in lines:
        fence = re.match(r"( *)(```+)\s*(.*)", line)
        if fence is None:
            continue
        indent, ticks, info = fence.groups()
        body = []
        for _, inner in lines:
            if inner.strip() == ticks:
                break
            body.append(inner.removeprefix(indent))
        else:
            raise AssertionError(f"{page}:{number}: the block that opens here is never closed")
        yield Block(page, number, info.strip(), "\n".join(body) + "\n")


BLOCKS = [block for page in PAGES if page.exists() for block in read_blocks(page)]


def compiled(block: Block) -> types.CodeType:
    # Empty lines in front, so that a traceback shows the page's own line numbers.
    source = "\n" * block.line + block.text
    return compile(source, str(block.page), "exec", flags=TOP_LEVEL_AWAIT, dont_inherit=True)


# --- Python ----------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def registries() -> Iterator[None]:
    """What a page makes known to the process, its formats and modes, is forgotten again."""
    from rolecraft.failure_taxonomy import MODES
    from rolecraft.failure_taxonomy.formats import FORMATS

    registered: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (known, dict(known)) for known in (FORMATS, MODES)
    ]
    yield
    for known, before in registered:
        known.clear()
        known.update(before)


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(b.page == page and b.info == "python" for b in BLOCKS)],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_every_python_block_runs_and_prints_what_the_page_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # A real module, because pydantic and pickle look classes up by the name of theirs.
    module = types.ModuleType("docs_" + re.sub(r"\W", "_", page.stem))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    printed: str | None = None
    with asyncio.Runner() as runner:
        for block in read_blocks(page):
            if block.info == "python":
                printed = run_block(block, module, runner)
            elif block.info == "text output":
                assert printed is not None, f"{block}: no Python block stands before this output"
                assert printed.rstrip() == block.text.rstrip(), f"{block}: printed something else"


def run_block(block: Block, module: types.ModuleType, runner: asyncio.Runner) -> str:
    code = compiled(block)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        if code.co_flags & inspect.CO_COROUTINE:
            runner.run(eval(code, module.__dict__))
        else:  # may call `asyncio.run` itself
            exec(code, module.__dict__)
    return out.getvalue()


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.info == "python no-run"], ids=str)
def test_a_block_that_is_not_run_compiles_and_says_why(block: Block) -> None:
    compiled(block)
    first = block.text.splitlines()[0]
    assert re.match(r"# not run: \S+", first), f"{block}: the first line must be `# not run: why`"


def test_no_block_escapes_by_its_info_string() -> None:
    known = {"python", "python no-run", "text output", "sh", "console"}
    for block in BLOCKS:
        word = block.info.split(" ")[0].lower()
        if word in {"python", "py", "python3", "pycon", "sh", "bash", "shell", "console"}:
            assert block.info in known, f"{block}: {block.info!r} is none of {sorted(known)}"


# --- commands --------------------------------------------------------------------------------


def commands() -> Iterator[tuple[Block, str]]:
    for block in BLOCKS:
        if block.info not in ("sh", "console"):
            continue
        text = block.text.replace("\\\n", " ")
        for line in text.splitlines():
            if block.info == "console":
                if not line.startswith("$ "):
                    continue  # what the command prints
                line = line[2:]
            for command in re.split(r"&&|\|\||[|;]", line):
                if command.strip() and not command.strip().startswith("#"):
                    yield block, command.strip()


COMMANDS = list(commands())


def words_of(command: str) -> list[str]:
    """The words of a command, without settings in front and the folder of the program."""
    words = shlex.split(command, comments=True)
    while words and re.fullmatch(r"[A-Za-z_]\w*=.*", words[0]):
        words.pop(0)
    return [words[0].rsplit("/", 1)[-1], *words[1:]] if words else []


@pytest.mark.parametrize(
    ("block", "command"),
    [(b, c) for b, c in COMMANDS if words_of(c)[:1] == ["rolecraft"]],
    ids=str,
)
def test_every_rolecraft_command_parses(block: Block, command: str) -> None:
    parse_rolecraft(words_of(command)[1:])


def parse_rolecraft(words: list[str]) -> None:
    """Find the sub-command and parse its options, without running it or looking at its files."""
    from typer.main import get_command

    from rolecraft.cli.main import app

    current: Any = get_command(app)
    while words and not words[0].startswith("-") and hasattr(current, "commands"):
        assert words[0] in current.commands, f"{words[0]!r} is none of {sorted(current.commands)}"
        current = current.commands[words.pop(0)]
    if "--help" in words:
        return
    context = current.context_class(current, info_name=current.name)
    # Raises for an unknown option, an option without its value, and too many values.
    values, left, _ = current.make_parser(context).parse_args(list(words))
    missing = [p.name for p in current.params if p.required and not values.get(p.name)]
    assert not missing, f"missing: {missing}"
    assert not left or hasattr(current, "commands"), f"too many arguments: {left}"


@pytest.mark.parametrize(
    ("block", "command"), [(b, c) for b, c in COMMANDS if words_of(c)[:1] == ["make"]], ids=str
)
def test_every_make_target_exists(block: Block, command: str) -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for word in words_of(command)[1:]:
        if "=" in word:
            assert re.search(rf"\b{word.split('=')[0]}\b", makefile), f"{word!r} sets nothing"
        else:
            assert re.search(rf"^{re.escape(word)}:", makefile, re.MULTILINE), f"no target {word!r}"


# --- links -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "page", [p for p in PAGES if p.exists()], ids=lambda page: str(page.relative_to(ROOT))
)
def test_every_relative_link_leads_to_a_file(page: Path) -> None:
    prose = re.sub(r"^ *(```+).*?^ *\1 *$", "", page.read_text("utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", path):
            continue  # another site; tests need no internet
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{page.name} links to {target!r}, which is not there"
        if anchor and there.suffix == ".md":
            headings = re.findall(r"^#+ (.+)$", there.read_text("utf-8"), flags=re.M)
            assert anchor in [as_anchor(h) for h in headings], f"no heading {anchor!r} in {path}"


def as_anchor(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
