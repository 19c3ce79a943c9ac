"""Which of a repository's files are fetched, and of which commit."""

from __future__ import annotations

import pytest

from rolecraft.training.hub import HubError, HubSettings, commit_of, fetch


def names(folder) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_of_weights_that_are_there_twice_those_in_safetensors_are_fetched(hub, tmp_path) -> None:
    """The others are as large again, and are programs when they are read."""
    hub.files |= {"pytorch_model.bin": b"p" * 1000, "pytorch_model.bin.index.json": b"{}"}
    hub.files |= {"training_args.bin": b"t"}
    online = hub.settings(tmp_path / "cache")
    folder = fetch(hub.name, "model", online)
    assert names(folder) == {"config.json", "weights.safetensors"}
    assert not any("pytorch_model" in asked for asked in hub.asked)
    assert fetch(hub.name, "model", hub.settings(tmp_path / "cache", offline=True)) == folder


def test_weights_that_are_there_in_no_other_format_are_fetched(hub, tmp_path) -> None:
    hub.files = {"config.json": b"{}", "pytorch_model.bin": b"p" * 1000}
    folder = fetch(hub.name, "model", hub.settings(tmp_path / "cache"))
    assert names(folder) == {"config.json", "pytorch_model.bin"}
    assert fetch(hub.name, "model", hub.settings(tmp_path / "cache", offline=True)) == folder


def test_of_a_data_set_every_file_is_fetched(hub, tmp_path) -> None:
    hub.files = {"data.jsonl": b"{}", "images.bin": b"i", "vectors.h5": b"v"}
    assert names(fetch(hub.name, "dataset", hub.settings(tmp_path))) == set(hub.files)


def test_a_commit_that_is_in_the_cache_is_taken_without_asking_anybody(hub, tmp_path) -> None:
    """A branch moves, a commit cannot: a run that is resumed has the weights it began with."""
    settings = hub.settings(tmp_path / "cache")
    folder = fetch(hub.name, "model", settings)
    first = commit_of(folder)
    assert first == hub.commit
    hub.commit = "f" * 40
    hub.files["weights.safetensors"] = b"other weights"
    assert commit_of(fetch(hub.name, "model", settings)) == "f" * 40
    asked = len(hub.asked)
    assert fetch(hub.name, "model", settings, revision=first) == folder
    assert len(hub.asked) == asked
    hub.answers["GET /api/models"] = lambda handler: hub.send(
        handler, 404, X_Error_Code="RevisionNotFound"
    )
    with pytest.raises(HubError, match="has no revision") as caught:
        fetch(hub.name, "model", hub.settings(tmp_path / "another"), revision=first)
    assert caught.value.problem == "revision"


def test_a_folder_that_is_of_no_hub_has_no_commit(tmp_path) -> None:
    assert commit_of(tmp_path) is None
    assert commit_of(tmp_path / "snapshots" / "main") is None


@pytest.mark.parametrize(
    ("endpoint", "token", "is_open"),
    [
        ("http://mirror.example:8080/hub", "t", True),
        ("http://mirror.example", "", False),
        ("https://mirror.example", "t", False),
        ("http://127.0.0.1:8080", "t", False),
        ("http://[::1]:8080", "t", False),
    ],
)
def test_a_token_over_plain_http_to_another_machine_is_open(endpoint, token, is_open) -> None:
    assert HubSettings(endpoint=endpoint, token=token).token_is_open == is_open
