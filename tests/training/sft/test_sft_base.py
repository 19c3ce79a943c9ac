"""The base model's commit is noted, and a resumed run has the same one, or says that it has not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rolecraft.errors import UsageError
from rolecraft.training.hub import HubError
from rolecraft.training.sft.base import find_base
from rolecraft.training.sft.folders import check_output
from rolecraft.training.sft.settings import SFTSettings

OLD, NEW = "a" * 40, "b" * 40


class Cache:
    """A hub's cache, whose branch `main` can move."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.main = folder, OLD
        self.asked: list[str | None] = []
        self.gone: set[str] = set()

    def fetch(self, name: str, revision: str | None) -> Path:
        self.asked.append(revision)
        commit = self.main if revision in (None, "main") else str(revision)
        if commit in self.gone:
            raise HubError(name, "revision", f"The model `{name}` has no revision {commit!r}.")
        snapshot = self.folder / "models--team--tiny/snapshots" / commit
        snapshot.mkdir(parents=True, exist_ok=True)
        return snapshot


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SFTSettings:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    return SFTSettings(model="team/tiny", data=("d",), output=tmp_path / "out")


def test_a_resumed_run_gets_the_commit_that_it_began_with(
    settings: SFTSettings, cache: Cache
) -> None:
    began, folder = find_base(settings, cache.fetch, resume=False)
    assert (began.commit, Path(folder).name) == (OLD, OLD)
    began.save(settings.output)
    cache.main = NEW
    resumed, folder = find_base(settings, cache.fetch, resume=True)
    assert (resumed.commit, Path(folder).name) == (OLD, OLD)
    assert cache.asked == [None, OLD]
    check_output(resumed, resume=True)
    assert find_base(settings, cache.fetch, resume=False)[0].commit == NEW  # a run of its own


def test_a_commit_that_cannot_be_had_again_is_said(settings: SFTSettings, cache: Cache) -> None:
    began, _ = find_base(settings, cache.fetch, resume=False)
    began.save(settings.output)
    cache.gone = {OLD}
    with pytest.raises(HubError, match=f"began with, commit {OLD} of `team/tiny`, or not") as error:
        find_base(settings, cache.fetch, resume=True)
    assert error.value.problem == "revision"
    Path("team/tiny").mkdir(parents=True)
    with pytest.raises(UsageError, match="is a folder here now"):
        find_base(settings, cache.fetch, resume=True)


def test_a_revision_is_asked_for_and_is_none_of_a_folder(
    settings: SFTSettings, cache: Cache
) -> None:
    find_base(replace(settings, revision="v1"), cache.fetch, resume=False)
    assert cache.asked == ["v1"]
    Path("team/tiny").mkdir(parents=True)
    with pytest.raises(UsageError, match="`revision` 'v1' is of a model on a hub"):
        find_base(replace(settings, revision="v1"), cache.fetch, resume=False)
    assert find_base(settings, None, resume=False) == (settings, "team/tiny")
