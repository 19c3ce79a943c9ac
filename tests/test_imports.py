"""Importing Rolecraft is cheap and needs nothing: no network, no configuration, no key."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = {
    "torch",
    "transformers",
    "vllm",
    "ray",
    "litellm",
    "openai",
    "tenacity",
    "httpx",
    "sqlalchemy",
    "psycopg",
    "sqlite3",
    "typer",
    "rich",
    "numpy",
}
STATEMENTS = (
    "import rolecraft",
    "from rolecraft import Action, Environment, Message, Role, Team",
)

# Runs in a fresh interpreter. An audit hook cannot be taken off again, and sees every connection
# and every file, whoever opens it.
PROBE = """
import json, sys
opened = []
def watch(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.bind"):
        raise RuntimeError(f"{event} while importing: {args!r}")
    if event == "open" and isinstance(args[0], str):
        opened.append(args[0])
    if event == "subprocess.Popen":
        raise RuntimeError(f"a process was started while importing: {args!r}")
sys.addaudithook(watch)
before = set(sys.modules)
exec(sys.argv[1])
print(json.dumps({"modules": sorted(set(sys.modules) - before), "opened": opened}))
"""


def probe(statement: str, home: Path) -> dict[str, list[str]]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROBE, statement],
        cwd=ROOT,
        env={"HOME": str(home)},  # no keys, no settings of the machine
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_heavy_libraries_are_loaded_on_first_use_only(statement: str, tmp_path: Path) -> None:
    loaded = set(probe(statement, tmp_path)["modules"])
    assert "rolecraft" in loaded
    assert not loaded & HEAVY


@pytest.mark.parametrize("statement", STATEMENTS)
def test_at_most_250_modules_are_loaded(statement: str, tmp_path: Path) -> None:
    modules = probe(statement, tmp_path)["modules"]
    assert len(modules) <= 250, modules


@pytest.mark.parametrize("statement", STATEMENTS)
def test_importing_reads_nothing_but_python_and_writes_nothing_at_home(
    statement: str, tmp_path: Path
) -> None:
    opened = probe(statement, tmp_path)["opened"]
    settings = (".toml", ".yaml", ".yml", ".ini", ".cfg", ".env", ".json")
    assert [path for path in opened if path.endswith(settings)] == []
    assert [path for path in opened if path.startswith(str(tmp_path))] == []
    assert list(tmp_path.iterdir()) == []


def test_the_command_loads_what_a_subcommand_needs_when_it_is_called(tmp_path: Path) -> None:
    loaded = set(probe("import rolecraft.cli.main", tmp_path)["modules"])
    late = ("failure_taxonomy", "viewer", "experiments", "scenarios")
    assert not loaded & {f"rolecraft.{package}" for package in late}
    # Of training, only settings, whose defaults the help shows.
    training = {name for name in loaded if name.startswith("rolecraft.training.")}
    assert training <= {"rolecraft.training.sft", "rolecraft.training.sft.settings"}
    assert not loaded & {"torch", "litellm", "httpx", "sqlalchemy", "starlette"}


def test_names_of_higher_floors_are_known_before_they_are_loaded() -> None:
    """`from rolecraft import train` works although `import rolecraft` does not load training."""
    import rolecraft

    for name in (*rolecraft.__all__, "Algorithm", "train"):
        assert getattr(rolecraft, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        rolecraft.nonsense  # noqa: B018


def test_everything_by_star_needs_no_extra() -> None:
    """`Algorithm` and `train` need torch, so `*` leaves them out."""
    code = "import sys; sys.modules['torch'] = None; from rolecraft import *; print(Team, annotate)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
