"""With `fsync`, what is recorded is on the disk before anything else happens."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rolecraft import Action, Role, Team
from rolecraft.models import ScriptedModel


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> set[tuple[int, int]]:
    """File (inode) and size at every `os.fsync` of the test."""
    seen: set[tuple[int, int]] = set()
    fsync = os.fsync

    def noting(fd: int) -> None:
        fsync(fd)
        stat = os.fstat(fd)
        seen.add((stat.st_ino, stat.st_size))

    monkeypatch.setattr(os, "fsync", noting)
    return seen


class Ask(Action):
    """Ask the model."""

    async def run(self, history) -> str:
        return await self.ask("?")


def team(journal: Path, *, fsync: bool) -> Team:
    roles = [Role(name=name, actions=[Ask]) for name in ("ada", "bob")]  # both in one round
    return Team(roles, model=ScriptedModel(["1", "2"]), journal=journal, fsync=fsync)


async def test_every_line_is_on_the_disk_when_it_is_written(
    tmp_path: Path, synced: set[tuple[int, int]]
) -> None:
    journal = tmp_path / "run.jsonl"
    await team(journal, fsync=True).run("go")
    written, folder = os.stat(journal), os.stat(tmp_path)
    assert (written.st_ino, written.st_size) in synced
    assert folder.st_ino in {inode for inode, _ in synced}, "the file's name, too"
    # The round of both is kept beside the journal until it is committed, one event at a time.
    pending = {size for inode, size in synced if inode not in (written.st_ino, folder.st_ino)}
    assert len(pending - {0}) >= 4


async def test_without_it_nothing_waits_for_the_disk(
    tmp_path: Path, synced: set[tuple[int, int]]
) -> None:
    await team(tmp_path / "run.jsonl", fsync=False).run("go")
    assert not synced
