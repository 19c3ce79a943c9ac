"""R11, R15: what is kept aside because of its reasoning or its tools, and the two switches."""

from __future__ import annotations

from typing import Any

from rolecraft.rollouts.batch import Distribution


async def test_r15_invented_tools_are_kept_aside_counted_and_can_be_switched_on(
    bench: Any, answers: Any
) -> None:
    bench.write(["find a", "b"])
    bench.model = answers(called="dig")
    await bench.run()
    assert len(bench.samples()) == 1
    aside = bench.lines("aside.jsonl")
    assert [(row["status"], row["reason"]) for row in aside] == [
        ("discarded:invented-tools", "no such tool: dig")
    ]
    assert aside[0]["conversations"][0]["turns"]
    assert bench.statistics["invented_tools"] == {"dig": 1}
    report = await bench.run(keep_invented_tools=True)
    assert (report.ran, len(bench.samples()), bench.lines("aside.jsonl")) == (0, 2, [])
    assert bench.statistics["statuses"] == {"ok": 2}


async def test_r15_a_tool_that_was_not_drawn_for_a_sample_is_invented_there(
    bench: Any, answers: Any
) -> None:
    bench.write(["find a"])
    never = Distribution(toolsets={"web": ("search",)}, chances={"web": 0.0}, may_be_empty=True)
    await bench.run(toolsets=never)
    assert bench.statistics["statuses"] == {"discarded:invented-tools": 1}
    assert [(t["tool"], t["count"], t["error"]) for t in bench.statistics["tools"]] == [
        ("read", 0, 0),
        ("search", 1, 1),
    ]


async def test_r11_the_switch_for_samples_without_reasoning_costs_no_call(bench: Any) -> None:
    bench.model.reasoning = ""
    bench.write(["a", "b"])
    await bench.run()
    assert bench.samples() == []
    report = await bench.run(keep_without_reasoning=True)
    assert (report.ran, len(bench.samples())) == (0, 2)
    assert bench.statistics["samples_without_reasoning"] == 2
    assert bench.statistics["reasoning_coverage"] == 0.0
