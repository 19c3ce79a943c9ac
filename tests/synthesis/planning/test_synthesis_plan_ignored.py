"""What git ignores in a checkout stays out of the tasks: it held passwords, and was pushed."""

from __future__ import annotations

import os
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rolecraft.cli.main import app
from rolecraft.errors import UsageError
from rolecraft.synthesis.planning.source import copy_source, warnings_of
from rolecraft.synthesis.planning.trees import needed, secrets_among

Project = Callable[[dict[str, str]], Path]

SECRET = "hunter2-which-nobody-may-read"
FILES = {
    ".gitignore": ".env\n*.sqlite\nsecrets/\n/data/\n*.so\n_version.py\n",
    "shapes/__init__.py": "def area(side):\n    return side * side\n",
    "tests/test_area.py": (
        "from shapes import area\n\n\ndef test_area():\n    assert area(2) == 4\n"
    ),
    ".env": SECRET,
    "users.sqlite": SECRET,
    "secrets/id_rsa": SECRET,
    "data/big/points.csv": SECRET,
}
KEPT = {".gitignore", "shapes/__init__.py", "tests/test_area.py"}


def git(folder: Path, *words: str) -> bytes:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    allowed = ("-c", "protocol.file.allow=always")
    command = ["git", "-C", str(folder), *who, *allowed, *words]
    return subprocess.run(command, check=True, capture_output=True).stdout


@pytest.fixture(autouse=True)
def _git(needs_program: Callable[..., Path]) -> None:
    needs_program("git", package="git")


@pytest.fixture
def checkout(project: Project) -> Path:
    """With what git ignores, and what it was not told of yet."""
    folder = project(FILES)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    return folder


def copied(source: Path, target: Path, also: tuple[str, ...] = ()) -> tuple[set[str], set[str]]:
    """The files of a copy, and what was left out."""
    left_out = copy_source(source, target, also=also)
    files = (each for each in target.rglob("*") if each.is_file() or each.is_symlink())
    return {str(each.relative_to(target)) for each in files}, set(left_out)


def test_what_git_ignores_is_left_out_and_named(checkout: Path, tmp_path: Path) -> None:
    files, left_out = copied(checkout, tmp_path / "copy")
    assert files == KEPT
    assert left_out == {".env", "users.sqlite", "secrets/", "data/"}


def test_a_file_that_git_does_not_know_yet_is_taken_and_a_deleted_one_is_not(
    checkout: Path, tmp_path: Path
) -> None:
    (checkout / "shapes" / "new é.py").write_text("")
    (checkout / "tests" / "test_area.py").unlink()
    (checkout / "link").symlink_to("shapes")
    files, _ = copied(checkout, tmp_path / "copy")
    assert files == KEPT - {"tests/test_area.py"} | {"shapes/new é.py", "link"}
    assert (tmp_path / "copy" / "link").is_symlink()


def test_a_file_that_was_committed_is_taken_though_a_pattern_fits_it(
    checkout: Path, tmp_path: Path
) -> None:
    git(checkout, "add", "-f", "users.sqlite")
    assert copied(checkout, tmp_path / "copy")[0] == KEPT | {"users.sqlite"}


def test_a_submodule_and_a_clone_within_have_their_own_say(checkout: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    for name, text in {".gitignore": "*.key\n", "lib.py": "", "a.key": SECRET}.items():
        other.mkdir(exist_ok=True)
        (other / name).write_text(text)
    git(other, "init", "-q")
    git(other, "add", "-A")
    git(other, "commit", "-qm", "one")
    git(checkout, "submodule", "--quiet", "add", str(other), "vendored")
    (checkout / "vendored" / "b.key").write_text(SECRET)
    git(checkout, "clone", "-q", str(other), "beside")
    (checkout / "beside" / "c.key").write_text(SECRET)
    files, left_out = copied(checkout, tmp_path / "copy")
    inside = {
        f"{name}/{each}" for name in ("vendored", "beside") for each in (".gitignore", "lib.py")
    }
    assert files == KEPT | inside | {".gitmodules"}
    assert {"vendored/b.key", "beside/c.key"} <= left_out


def test_a_submodule_that_was_not_fetched_is_an_empty_folder(
    checkout: Path, tmp_path: Path
) -> None:
    git(checkout, "submodule", "--quiet", "add", str(checkout), "again")
    git(checkout, "submodule", "--quiet", "deinit", "-f", "again")
    assert copied(checkout, tmp_path / "copy")[0] == KEPT | {".gitmodules"}


def test_a_folder_of_a_checkout_is_one_too(checkout: Path, tmp_path: Path) -> None:
    (checkout / "shapes" / "users.sqlite").write_text(SECRET)
    files, left_out = copied(checkout / "shapes", tmp_path / "copy")
    assert (files, left_out) == ({"__init__.py"}, {"users.sqlite"})


def test_a_plain_folder_is_taken_whole_also_where_a_checkout_around_ignores_it(
    checkout: Path, project: Project, tmp_path: Path
) -> None:
    assert copied(checkout / "secrets", tmp_path / "a") == ({"id_rsa"}, set())
    plain = tmp_path / "plain"
    (checkout / ".git").rename(tmp_path / "git")
    checkout.rename(plain)
    assert copied(plain, tmp_path / "b") == (set(FILES), set())


def test_a_folder_that_is_ignored_but_for_what_was_committed_is_that(
    checkout: Path, tmp_path: Path
) -> None:
    (checkout / "data" / "load.py").write_text("")
    git(checkout, "add", "-f", "data/load.py")
    assert copied(checkout / "data", tmp_path / "copy")[0] == {"load.py"}


def test_a_name_that_is_no_text_is_left_out_too(
    checkout: Path, bare_environment: Path, tmp_path: Path
) -> None:
    (checkout / os.fsdecode(b"\xff.sqlite")).write_text(SECRET)
    said = planned(checkout, tmp_path / "out", "--environment", bare_environment)
    assert "5 that git ignores" in said


def test_given_tests_leave_out_what_git_ignores(checkout: Path, tmp_path: Path) -> None:
    (checkout / "tests" / ".env").write_text(SECRET)
    source = tmp_path / "plain"
    source.mkdir()
    (source / "shapes.py").write_text("")
    left_out = copy_source(source, tmp_path / "copy", tests=checkout / "tests")
    assert left_out == ("tests/.env",)
    assert not (tmp_path / "copy" / "tests" / ".env").exists()


def test_what_the_hook_of_another_repository_has_set_does_not_matter(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "-q", "other")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "other" / ".git" / "index"))
    assert copied(checkout, tmp_path / "copy")[0] == KEPT


def test_nothing_that_a_repository_names_is_run(checkout: Path, tmp_path: Path) -> None:
    """It may be another user's, and be looked at by root."""
    program = tmp_path / "monitor"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/was-run\n")
    program.chmod(0o755)
    git(checkout, "config", "core.fsmonitor", str(program))
    git(checkout, "status")
    assert (tmp_path / "was-run").exists(), "git itself runs it"
    (tmp_path / "was-run").unlink()
    assert copied(checkout, tmp_path / "copy")[0] == KEPT
    assert not (tmp_path / "was-run").exists()


def test_without_git_a_checkout_is_refused_and_a_plain_folder_is_not(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "shapes.py").write_text("")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"there is no `git` on the PATH.*install it, or give"):
        copy_source(checkout, tmp_path / "copy")
    assert copied(tmp_path / "plain", tmp_path / "copy")[0] == {"shapes.py"}


def test_a_checkout_that_git_cannot_read_is_refused(project: Project, tmp_path: Path) -> None:
    """A worktree whose repository is elsewhere, as in a container that has only the folder."""
    folder = project(FILES)
    (folder / ".git").write_text("gitdir: /nowhere/.git/worktrees/shapes\n")
    with pytest.raises(UsageError, match=r"git cannot say what it ignores there .*nowhere"):
        copy_source(folder, tmp_path / "copy")


@pytest.mark.parametrize(
    ("also", "more"),
    [
        (("users.sqlite",), {"users.sqlite"}),
        (("./data",), {"data/big/points.csv"}),
        (("*.sqlite", "data/big"), {"users.sqlite", "data/big/points.csv"}),
    ],
)
def test_what_tests_need_of_it_is_taken_by_name(
    checkout: Path, tmp_path: Path, also: tuple[str, ...], more: set[str]
) -> None:
    files, left_out = copied(checkout, tmp_path / "copy", also=also)
    assert files == KEPT | more
    assert ("users.sqlite" in left_out) == ("users.sqlite" not in more)
    assert ("data/" in left_out) == ("./data" not in also), "the rest of a folder is left out"
    assert ".env" in left_out


def test_a_name_that_is_none_is_refused(checkout: Path, tmp_path: Path) -> None:
    for also, why in {
        "points.csv": "there is no such file",
        "../git": "no path within",
        "/etc/passwd": "no path within",
    }.items():
        with pytest.raises(UsageError, match=f"--also {also}.*{why}"):
            copy_source(checkout, tmp_path / "copy", also=(also,))
    archive = tmp_path / "shapes-1.0.tar.gz"
    with tarfile.open(archive, "w:gz") as made:
        made.add(checkout / "shapes", "shapes-1.0/shapes")
    with pytest.raises(UsageError, match=r"--also a.* is for a folder"):
        copy_source(archive, tmp_path / "copy", also=("a",))


def test_what_the_build_has_made_beside_the_code_is_taken(checkout: Path, tmp_path: Path) -> None:
    """Git ignores it, and the package does not work without: one is compiled in its folder."""
    (checkout / "pyproject.toml").write_text(
        '[tool.setuptools_scm]\nversion_file = "shapes/_version.py"\n'
    )
    for name in ("shapes/_speed.so", "shapes/_version.py", "data/lib.so", "tests/_version.py"):
        (checkout / name).write_text("")
    files, _ = copied(checkout, tmp_path / "copy")
    assert files == KEPT | {"pyproject.toml", "shapes/_speed.so", "shapes/_version.py"}


AREAS = """def area(side):
    if side < 0:
        raise ValueError("a side is not negative")
    return side * side


def box(width, height):
    return width * height
"""
TEST_AREAS = """import pytest

from shapes import area, box


def test_area():
    assert area(3) == 9


def test_no_area():
    assert area(0) == 0
    with pytest.raises(ValueError):
        area(-1)


def test_box():
    assert box(2, 3) == 6
"""


def run(*words: str | Path, code: int = 0) -> str:
    """What a command says."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == code, (done.stdout, done.stderr)
    return done.stdout + done.stderr


def test_from_the_plan_to_the_pushed_branches_nobody_sees_it(
    checkout: Path, bare_environment: Path, tmp_path: Path
) -> None:
    (checkout / "shapes" / "__init__.py").write_text(AREAS)
    (checkout / "tests" / "test_area.py").write_text(TEST_AREAS)
    out, remote = tmp_path / "out", tmp_path / "remote.git"
    words = ("--out", out, "--environment", bare_environment, "--most", "12")
    said = run("synth", "make", checkout, *words)
    assert "4 that git ignores: .env, " in said
    assert "passwords" not in said
    git(tmp_path, "init", "-q", "--bare", str(remote))
    run("synth", "push", out, "--remote", remote)
    for repository in (out / "tasks" / "repository", remote):
        everything = git(repository, "cat-file", "--batch-all-objects", "--batch")
        assert b"side" in everything
        assert SECRET.encode() not in everything
    for path in out.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


def planned(source: Path, out: Path, *words: str | Path, code: int = 0) -> str:
    return run("synth", "plan", source, "--out", out, *words, code=code)


NEEDY = """from pathlib import Path

from shapes import area


def test_area():
    assert area(2) == 4


def test_points():
    assert (Path(__file__).parent.parent / "data" / "big" / "points.csv").read_text()
"""


def test_a_test_that_cannot_do_without_it_is_told_of_and_how_it_is_taken_along(
    checkout: Path, bare_environment: Path, tmp_path: Path
) -> None:
    (checkout / "tests" / "test_area.py").write_text(NEEDY)
    out, words = tmp_path / "out", ("--environment", bare_environment)
    said = planned(checkout, out, *words, code=2)
    assert "1 of the 2 clean tests of shapes fail" in said
    assert "Git ignores `data`, so it is not in the copy: `--also data` takes it" in said
    said = planned(checkout, out, *words, "--most-failing", "0.5")
    assert "`tests/test_area.py::test_points` cannot do without a file that is left out." in said
    assert "1 fails: tests/test_area.py::test_points (FileNotFoundError" in said
    said = planned(checkout, tmp_path / "whole", *words, "--also", "data")
    assert "2 that pass" in said
    assert "--also" not in said
    # It is one of the settings of the plan, and is named again where it is to be made anew.
    assert "is there already" in planned(checkout, tmp_path / "whole", *words, "--also", "data")
    (checkout / "data" / "big" / "points.csv").write_text("others")
    said = planned(checkout, tmp_path / "whole", *words, "--also", "data", code=2)
    assert "--also data" in said


@pytest.mark.parametrize(
    ("left_out", "message", "path"),
    [
        ("shapes/_grammar.py", "No module named 'shapes._grammar'", "shapes/_grammar.py"),
        ("src/shapes/_grammar.py", "No module named 'shapes._grammar'", "src/shapes/_grammar.py"),
        ("a/b.py", "ImportError: cannot import name 'b' from 'a' (a/__init__.py)", "a/b.py"),
        ("pb/", "ModuleNotFoundError: No module named 'pb.messages'", "pb"),
        ("users.sqlite", "OperationalError: unable to open 'x/users.sqlite'", "users.sqlite"),
        ("tests/data/", "FileNotFoundError: No such file or directory: 'data/a'", "tests/data"),
        ("build/", "AssertionError: build != rebuild", ""),
        ("a/b.py", "No module named 'a.bc'", ""),
        ("users.sqlite", "assert other-users.sqlite", ""),
    ],
)
def test_what_a_test_misses_is_found_in_its_error(left_out: str, message: str, path: str) -> None:
    assert needed(message, ["other", left_out]) == path


def test_files_that_are_named_as_secrets_are_warned_of(project: Project, tmp_path: Path) -> None:
    """Of a plain folder nothing says what is meant for nobody."""
    folder = project({**FILES, ".env.example": "", "shapes/secrets.py": "", "tests/.pypirc": ""})
    copy_source(folder, tmp_path / "copy")
    assert secrets_among(tmp_path / "copy") == [".env", "secrets/id_rsa", "tests/.pypirc"]
    (warning,) = warnings_of(tmp_path / "copy")
    assert warning.startswith("`.env`, `secrets/id_rsa`, `tests/.pypirc`: files of such names")
    copy_source(folder / "shapes", tmp_path / "copy")
    assert warnings_of(tmp_path / "copy") == []
