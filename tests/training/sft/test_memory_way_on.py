"""What an error of memory proposes can be done: a run with a checkpoint goes on as it began."""

from __future__ import annotations

from pathlib import Path

import pytest

from rolecraft.errors import UsageError
from rolecraft.training.sft.folders import check_output
from rolecraft.training.sft.out_of_memory import OutOfMemory
from rolecraft.training.sft.settings import SFTSettings

torch = pytest.importorskip("torch")


def said(**about: object) -> str:
    inputs = {"input_ids": torch.zeros(4, 8, dtype=torch.long)}
    inputs["attention_mask"] = torch.ones(4, 8, dtype=torch.long)
    how = {"instead": "--batch 2 --accumulate 2", "auto": False, **about}
    return str(OutOfMemory(3, inputs, "no memory", **how))  # type: ignore[arg-type]


def test_with_a_checkpoint_the_way_on_is_one_that_resume_takes() -> None:
    text = said(resumable=True)
    assert "Go on with `--resume --auto-batch`" in text
    assert "in another folder with `--batch 2 --accumulate 2`" in text
    assert "Begin in another folder with `--batch 2" in said(resumable=True, auto=True)
    assert "Use `--batch 2 --accumulate 2`; `--auto-batch` halves" in said(resumable=False)


def test_a_resume_may_halve_batches_and_change_nothing_else(tmp_path: Path) -> None:
    began = {"model": "tiny", "data": ("talks.jsonl",), "output": tmp_path}
    SFTSettings(**began).save(tmp_path)  # type: ignore[arg-type]
    (tmp_path / "adapter_config.json").write_text("{}")
    check_output(SFTSettings(**began, auto_batch=True), resume=True)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="began with `batch`"):
        check_output(SFTSettings(**began, batch=1), resume=True)  # type: ignore[arg-type]
