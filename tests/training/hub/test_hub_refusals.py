"""What cannot be had is told in words; what is here is not asked for."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from rolecraft.errors import UsageError
from rolecraft.training.hub import HubError, HubSettings, fetch, is_local


def test_nobody_listens(hub, tmp_path) -> None:
    settings = HubSettings(
        endpoint="http://127.0.0.1:1", cache=tmp_path, connect_seconds=5, retries=0
    )
    with pytest.raises(HubError, match="cannot be reached") as caught:
        fetch(hub.name, "model", settings)
    assert caught.value.problem == "silent"


@pytest.mark.parametrize(
    ("status", "code", "problem", "words"),
    [
        (404, "RepoNotFound", "missing", "neither a folder here nor known to"),
        (401, "", "missing", "or is private"),
        pytest.param(
            *(401, "GatedRepo", "gated", "its owner lets in who asks"), marks=pytest.mark.slow
        ),
        (403, "GatedRepo", "gated", "HF_TOKEN"),
        pytest.param(
            *(404, "RevisionNotFound", "revision", "has no revision 'main'"),
            marks=pytest.mark.slow,
        ),
        pytest.param(403, "", "refused", "403", marks=pytest.mark.slow),
    ],
)
def test_what_a_hub_refuses_is_told_in_words(hub, tmp_path, status, code, problem, words) -> None:
    headers = {"X_Error_Code": code} if code else {}
    hub.answers["GET /api/"] = lambda handler: hub.send(handler, status, **headers)
    with pytest.raises(HubError, match=words) as caught:
        fetch(hub.name, "model", hub.settings(tmp_path))
    assert caught.value.problem == problem
    assert caught.value.name == hub.name
    assert len(hub.asked) == 1


def test_the_token_goes_to_the_hub_and_into_no_message(hub, tmp_path) -> None:
    seen = []

    def gated(handler: BaseHTTPRequestHandler) -> None:
        seen.append(handler.headers.get("Authorization"))
        hub.send(handler, 403, X_Error_Code="GatedRepo")

    hub.answers["GET /api/"] = gated
    settings = hub.settings(tmp_path, token="hf_a_secret")
    with pytest.raises(HubError, match="The token that was given is not enough") as caught:
        fetch(hub.name, "model", settings)
    assert seen == ["Bearer hf_a_secret"]
    assert "secret" not in f"{caught.value} {settings} {settings!r}"


def test_the_signature_of_a_file_in_a_store_goes_into_no_message(hub, tmp_path) -> None:
    """Hubs send on to a store on another host, by an address that lets in whoever has it."""
    store = hub.url.replace("127.0.0.1", "localhost") + "/store/weights"
    to_store = {"Location": f"{store}?X-Amz-Signature=a_secret", "X_Repo_Commit": hub.commit}
    sent_on = {"ETag": '"0123"', "X_Linked_Size": "300000", **to_store}
    hub.answers["HEAD /"] = lambda handler: hub.send(handler, 302, **sent_on)
    hub.answers["GET /store"] = lambda handler: hub.send(handler, 503)
    with pytest.raises(HubError, match=r"status 503 \(.*/store/weights; tried 1") as caught:
        fetch(hub.name, "model", hub.settings(tmp_path, retries=0))
    assert "secret" not in str(caught.value)


def test_an_address_with_a_password_is_refused_without_repeating_it() -> None:
    with pytest.raises(UsageError, match="HF_TOKEN") as caught:
        HubSettings(endpoint="https://me:a_secret@mirror.example/hub")
    assert "secret" not in str(caught.value)
    HubSettings(endpoint="https://mirror.example/@team")


def test_a_cache_that_cannot_be_written_is_told(hub, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HubError) as caught:
        fetch(hub.name, "model", hub.settings(tmp_path / "file" / "cache"))
    assert caught.value.problem == "disk"


def test_a_folder_is_taken_as_it_is_and_nobody_is_asked(hub, tmp_path) -> None:
    (tmp_path / "team" / "tiny").mkdir(parents=True)
    assert fetch(hub.name, "model", hub.settings(tmp_path / "cache")) == Path(hub.name)
    assert hub.asked == []


@pytest.mark.parametrize("path", ["./model", "/a/b/c", "~/model", "data/talks.jsonl", "a b", ".."])
def test_what_can_only_be_a_path_is_not_looked_for_on_a_hub(path) -> None:
    assert is_local(path)


def test_a_path_that_is_not_there_is_wrong_usage(tmp_path) -> None:
    with pytest.raises(UsageError, match=r"The data set `data/talks\.jsonl` is not there"):
        fetch("data/talks.jsonl", "dataset", HubSettings(cache=tmp_path))


def test_a_name_that_no_hub_can_have(hub, tmp_path) -> None:
    with pytest.raises(HubError) as caught:
        fetch("team/--tiny", "model", hub.settings(tmp_path))
    assert caught.value.problem == "name"


def test_settings_are_one_line_and_look_after_themselves(tmp_path) -> None:
    mirror = HubSettings(endpoint="https://mirror.example", cache=tmp_path)
    assert str(mirror) == f"Hub: https://mirror.example; cache: {tmp_path}"
    offline = HubSettings(cache=tmp_path, offline=True)
    assert str(offline) == f"Hub: offline, from the cache alone; cache: {tmp_path}"
    with pytest.raises(UsageError, match=r"'mirror\.example' does not"):
        HubSettings(endpoint="mirror.example")
    with pytest.raises(UsageError, match="retries"):
        HubSettings(retries=-1)
