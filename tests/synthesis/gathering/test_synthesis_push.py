"""Pushing goes where it is told, and takes nothing along that tells of the solutions."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from rolecraft.errors import RolecraftError, UsageError
from rolecraft.synthesis.gathering.gather import gather
from rolecraft.synthesis.gathering.push import push


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def remote(tmp_path: Path, needs_program) -> Path:
    needs_program("git", package="git")
    folder = tmp_path / "remote.git"
    git(tmp_path, "init", "-q", "--bare", str(folder))
    return folder


def test_each_task_is_a_branch_and_the_clean_code_is_not_there(three_bugs, remote) -> None:
    made = three_bugs()
    gather(made.folder)
    assert push(made.folder, str(remote)) == 3
    branches = git(remote, "for-each-ref", "--format=%(refname)").split()
    assert branches == [f"refs/heads/{name}" for name in sorted(made.ids)]
    objects = git(remote, "cat-file", "--batch-all-objects", "--batch-check").splitlines()
    commits = [line.split()[0] for line in objects if " commit " in line]
    assert len(commits) == 3
    clean = git(made.folder.tasks / "repository", "rev-parse", "clean").strip()
    assert clean not in commits


def test_pushing_again_changes_nothing(three_bugs, remote) -> None:
    made = three_bugs()
    gather(made.folder)
    push(made.folder, str(remote))
    before = git(remote, "for-each-ref")
    assert push(made.folder, str(remote)) == 3
    assert git(remote, "for-each-ref") == before


def test_a_branch_that_is_another_there_is_overwritten_only_by_force(three_bugs, remote) -> None:
    made = three_bugs()
    gather(made.folder)
    push(made.folder, str(remote))
    made.write({"README": "Other shapes.\n"})
    gather(made.folder)
    with pytest.raises(RolecraftError, match=r"3 branches are others there: `--force`"):
        push(made.folder, str(remote))
    assert push(made.folder, str(remote), force=True) == 3
    assert git(remote, "show", f"{made.ids[0]}:README") == "Other shapes.\n"


def test_a_remote_that_is_not_there_is_told_in_the_words_of_git(three_bugs, tmp_path) -> None:
    made = three_bugs()
    gather(made.folder)
    with pytest.raises(RolecraftError, match=r"nowhere.*does not appear to be a git repository"):
        push(made.folder, str(tmp_path / "nowhere"))


def test_a_remote_is_never_taken_for_an_option(three_bugs, tmp_path) -> None:
    made = three_bugs()
    gather(made.folder)
    with pytest.raises(RolecraftError, match="git push"):
        push(made.folder, f"--receive-pack=touch {tmp_path}/taken;")
    assert not (tmp_path / "taken").exists()


def test_without_tasks_it_says_what_makes_them(made) -> None:
    with pytest.raises(UsageError, match="rolecraft synth gather"):
        push(made.folder, "somewhere")
