"""`new` puts the run of a folder away whole, also when it is killed meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rolecraft.rollouts.batch.config import default_formats
from rolecraft.rollouts.batch.output import FILES

OF_A_RUN = {
    *("aside.jsonl", "ledger.jsonl", "openai.jsonl"),
    *("samples.jsonl", "statistics.json", "sharegpt.jsonl"),
    *(FILES[form] for form in default_formats()),
}


class Killed(BaseException):
    """The process is no more."""


def names(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


@pytest.mark.parametrize("again", [True, False], ids=["asked for once more", "gone on with"])
@pytest.mark.parametrize("moves", range(len(OF_A_RUN) + 1))
async def test_a_run_that_was_half_put_away_is_in_no_other(
    bench: Any, monkeypatch: pytest.MonkeyPatch, moves: int, again: bool
) -> None:
    """Its samples would be found again, as if they were of the new run."""
    bench.write(["a", "b"])
    await bench.run(seed=1)
    before = {name: (bench.out / name).read_bytes() for name in OF_A_RUN}
    rename, left = Path.rename, moves

    def until_killed(self: Path, target: Path) -> Path:
        nonlocal left
        if not left:
            raise Killed
        left -= 1
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", until_killed)
        with pytest.raises(Killed):
            await bench.run(seed=2, new=True)

    report = await bench.run(seed=2, new=again)
    assert (report.ran, report.output.samples) == (2, 2)
    assert len(bench.model.asked) == 4
    assert names(bench.out) == OF_A_RUN | {"before-1"}
    assert names(bench.out / "before-1") == OF_A_RUN
    for name, content in before.items():
        assert (bench.out / "before-1" / name).read_bytes() == content


async def test_runs_are_put_away_one_after_the_other(bench: Any) -> None:
    bench.write(["a"])
    for seed in (1, 2, 3):
        await bench.run(seed=seed, new=True)
    assert names(bench.out) == OF_A_RUN | {"before-1", "before-2"}
