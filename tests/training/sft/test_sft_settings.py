"""Settings are checked when they are made, and come back from their file as they were."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft.errors import ModelError, UnknownName, UsageError
from rolecraft.training.sft.run import fine_tune
from rolecraft.training.sft.settings import SFTSettings

Settings = Callable[..., SFTSettings]

PLAIN = SFTSettings(model="m", data=("d",), output=Path("o"))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"data": ()}, "nothing to learn from"),
        ({"rank": 0}, "`rank` is 0; it wants a whole number from 1"),
        ({"batch": 2.0}, r"`batch` is 2\.0"),
        ({"batch": True}, "`batch` is True"),
        ({"rate": float("nan")}, "`rate` is nan"),
        ({"dropout": 1.0}, r"`dropout` is 1\.0; it wants a number from 0 and below 1"),
        ({"epochs": -1.0}, "above 0"),
        ({"patience": 2, "eval_share": 0.0}, "leaves nothing to evaluate"),
        ({"roles": ("a", "a")}, "names a role twice"),
        ({"method": "full", "adapter": "a"}, "Merge it into its base"),
        ({"method": "full", "rank": 4}, "`rank` is of an adapter"),
        ({"adapter": "a", "targets": ("q_proj",)}, "leave them out"),
        ({"method": "qlora-4", "precision": "fp32"}, "contradicts it"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_reason(
    changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        replace(PLAIN, **changes)


def test_roles_that_would_share_a_folder_are_refused_before_anything_is_read(
    tmp_path: Path,
) -> None:
    """Resumed, the second would be taken for trained: with the adapter of the first."""
    settings = replace(PLAIN, output=tmp_path, roles=("QA lead", "tester", "QA_lead"))
    with pytest.raises(UsageError, match=r"'QA lead' and 'QA_lead' .*`.*/QA_lead`"):
        fine_tune(settings)


def test_unknown_choices_name_those_there_are() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'lora'"):
        replace(PLAIN, method="lorra")  # type: ignore[arg-type]
    with pytest.raises(UnknownName, match="`sdpa`"):
        replace(PLAIN, attention="spda")  # type: ignore[arg-type]


def test_the_rate_depends_on_what_is_trained() -> None:
    assert PLAIN.peak_rate == 2e-4
    assert replace(PLAIN, adapter="a").peak_rate == 1e-5
    assert replace(PLAIN, method="full").peak_rate == 1e-5
    assert replace(PLAIN, rate=3e-3).peak_rate == 3e-3


@given(
    st.builds(
        SFTSettings,
        model=st.text(min_size=1),
        data=st.lists(st.text(), min_size=1).map(tuple),
        output=st.just(Path("o")),
        roles=st.lists(st.text(), unique=True).map(tuple),
        batch=st.integers(1, 1000),
        rate=st.none() | st.floats(1e-9, 0.9),
        packing=st.booleans(),
        template_settings=st.dictionaries(st.text(), st.booleans() | st.text()),
    )
)
def test_settings_come_back_from_json_as_they_were(settings: SFTSettings) -> None:
    import json

    assert SFTSettings.of_record(json.loads(json.dumps(settings.record()))) == settings


def test_a_file_of_settings_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no fine-tuning was begun there"):
        SFTSettings.load(tmp_path)
    (tmp_path / "settings.json").write_text("{", "utf-8")
    with pytest.raises(UsageError, match="cannot be read"):
        SFTSettings.load(tmp_path)
    (tmp_path / "settings.json").write_text('{"modle": "m"}', "utf-8")
    with pytest.raises(UnknownName, match="Did you mean 'model'"):
        SFTSettings.load(tmp_path)


def test_a_file_of_settings_that_cannot_be_written_leaves_the_one_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resumed run saves its settings again: a kill or a full disk then must cost nothing."""
    PLAIN.save(tmp_path)
    path = tmp_path / "settings.json"
    before = path.stat()
    PLAIN.save(tmp_path)
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)

    def refuse(source: Path, _: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(source))

    with monkeypatch.context() as full:
        full.setattr(os, "replace", refuse)
        with pytest.raises(OSError, match="No space left"):
            replace(PLAIN, batch=1).save(tmp_path)
    assert SFTSettings.load(tmp_path) == PLAIN
    assert [path.name for path in tmp_path.iterdir()] == ["settings.json"]
    replace(PLAIN, batch=1).save(tmp_path)
    assert SFTSettings.load(tmp_path).batch == 1


def test_a_role_that_the_data_never_names_is_told_with_those_that_it_names(
    settings: Settings, tmp_path: Path, heard: Any
) -> None:
    said = [{"role": "user", "content": "Which?"}, {"role": "assistant", "content": "This."}]
    rows = tmp_path / "rows.jsonl"
    rows.write_text(
        "".join(json.dumps({"messages": said, "role": role}) + "\n" for role in ("coder", None))
    )
    with pytest.raises(ModelError, match="no-such-base"):
        fine_tune(
            settings(
                model=str(tmp_path / "no-such-base"),
                data=(str(rows),),
                output=tmp_path / "out",
                roles=("codr", "coder"),
            ),
            listener=heard,
        )
    (told,) = heard.warnings
    assert "`codr`" in told
    assert "Roles in the data: coder." in told
