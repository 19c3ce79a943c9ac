"""R6: what becomes of rows and attempts that fail, and that none is paid for twice."""

from __future__ import annotations

from typing import Any

import pytest

from rolecraft import Action, Role, Team
from rolecraft.errors import MissingKey
from rolecraft.rollouts.batch.ledger import PERMANENT, RETRYABLE


async def test_r6_broken_empty_duplicate_and_huge_rows_each_have_their_outcome(bench: Any) -> None:
    bench.rows.write_bytes(
        b'{"prompt": "a"}\n{"prompt": "a"}\n{oops\n{"prompt": ""}\n{"other": 1}\n[]\n'
        b'{"prompt": "' + b"x" * 5000 + b'"}\n{"prompt": "b"}\n'
    )
    report = await bench.run(max_row_bytes=1000)
    assert bench.statistics["statuses"] == {
        "discarded:empty-prompt": 1,
        "discarded:no-prompt": 1,
        "discarded:too-large": 1,
        "discarded:unreadable": 2,
        "ok": 3,
    }
    assert report.complete
    assert sorted(bench.model.asked) == ["a", "a", "b"]
    assert len({(row, occurrence) for row, occurrence, _ in bench.samples()}) == 3
    assert (await bench.run(max_row_bytes=1000)).ran == 0


async def test_r6_what_may_pass_is_tried_again_and_what_may_not_is_not(bench: Any) -> None:
    failing = {"flaky": 2, "down": 99, "wrong": 99}

    def before(prompt: str) -> None:
        if failing.get(prompt, 0) > 0:
            failing[prompt] -= 1
            raise ValueError("no luck") if prompt == "wrong" else ConnectionError("lost")

    bench.model.before = before
    bench.write(["a", "flaky", "down", "wrong"])
    report = await bench.run(attempts=3)
    asked = {name: bench.model.asked.count(name) for name in ("a", "flaky", "down", "wrong")}
    assert asked == {"a": 1, "flaky": 3, "down": 3, "wrong": 1}
    last = {entry.number: entry for entry in bench.entries}
    assert [last[n].status for n in range(4)] == ["ok", "ok", RETRYABLE, PERMANENT]
    assert (last[1].attempts, last[2].attempts) == (3, 3)
    assert "ValueError: no luck" in last[3].error
    assert (report.left, report.complete) == (1, False)
    failing["down"] = 0
    report = await bench.run()
    assert (report.ran, report.complete) == (1, True)
    assert bench.statistics["statuses"] == {"failed:permanent": 1, "ok": 3}
    failing["wrong"] = 0
    assert (await bench.run(retry_failed=True)).ran == 1
    assert bench.statistics["statuses"] == {"ok": 4}


async def test_r6_what_was_paid_for_is_kept_aside_also_where_the_item_failed(bench: Any) -> None:
    class Break(Action):
        async def run(self, history: Any) -> str:
            await self.ask("first")
            raise ValueError("broken")

    bench.write(["a"])
    report = await bench.run(Team([Role(name="R", actions=[Break])]))
    aside = bench.lines("aside.jsonl")
    assert [row["status"] for row in aside] == [PERMANENT]
    assert "ValueError: broken" in aside[0]["reason"]
    assert aside[0]["conversations"][0]["turns"][-1]["content"] == "answer to first"
    assert (report.statistics.calls, report.statistics.failed_attempts) == (1, 1)


async def test_r6_what_is_wrong_with_the_whole_run_is_entered_for_no_item(bench: Any) -> None:
    def before(prompt: str) -> None:
        raise MissingKey("no key", model="x")

    bench.model.before = before
    bench.write(["a", "b"])
    with pytest.raises(MissingKey):
        await bench.run()
    assert bench.entries == []
    bench.model.before = lambda prompt: None
    assert (await bench.run()).ran == 2
