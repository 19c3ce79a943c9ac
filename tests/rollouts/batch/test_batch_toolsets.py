"""Named distributions of toolsets, drawn per row with its seed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rolecraft.errors import UnknownName, UsageError
from rolecraft.rollouts.batch.toolsets import Distribution, load_distribution

SETS = {"web": ("search", "extract"), "files": ("read", "write"), "never": ("rm",)}


def made(**changes: Any) -> Distribution:
    return Distribution(**{"toolsets": SETS, "chances": {"web": 0.9, "files": 0.3}, **changes})


def test_each_toolset_is_drawn_as_often_as_its_chance_says_and_alone() -> None:
    tools = made(may_be_empty=True)
    drawn = [tools.draw(seed) for seed in range(20_000)]
    web = sum("web" in each for each in drawn) / 20_000
    files = sum("files" in each for each in drawn) / 20_000
    both = sum(len(each) == 2 for each in drawn) / 20_000
    assert web == pytest.approx(0.9, abs=0.01)
    assert files == pytest.approx(0.3, abs=0.015)
    assert both == pytest.approx(0.27, abs=0.015)
    assert not any("never" in each for each in drawn)


def test_what_is_drawn_depends_on_the_seed_and_nothing_else() -> None:
    assert [made().draw(seed) for seed in range(50)] == [made().draw(seed) for seed in range(50)]
    more = made(toolsets={**SETS, "more": ("x",)}, chances={"web": 0.9, "files": 0.3, "more": 0.5})
    for seed in range(50):
        without = tuple(name for name in more.draw(seed) if name != "more")
        assert without in (made(may_be_empty=True).draw(seed), ("web",))


def test_a_sample_without_any_toolset_gets_the_likeliest_unless_it_may_be_empty() -> None:
    rare = {"web": 0.01, "files": 0.02}
    assert all(made(chances=rare).draw(seed) for seed in range(200))
    assert ("files",) in {made(chances=rare).draw(seed) for seed in range(200)}
    assert () in {made(chances=rare, may_be_empty=True).draw(seed) for seed in range(200)}
    assert made(chances={"web": 0.0}).draw(1) == ()  # nothing may be drawn at all


def test_tools_that_are_in_no_toolset_are_always_there() -> None:
    tools = ("search", "read", "think")
    assert made().allowed(("web",), tools) == ("search", "think")
    assert made().allowed((), tools) == ("think",)


def test_a_toolset_of_a_tool_that_nobody_has_is_refused() -> None:
    with pytest.raises(UnknownName, match="'extract'"):
        made().check(["search", "read", "write", "rm"])


def test_a_distribution_goes_through_json_and_refuses_what_it_does_not_know() -> None:
    assert Distribution.from_dict(made().to_dict()) == made()
    with pytest.raises(UnknownName, match="'chance'"):
        Distribution.from_dict({**made().to_dict(), "chance": {}})


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"chances": {"web": 1.5}}, "from 0 to 1"),
        ({"chances": {"web": "much"}}, "not a number"),
        ({"chances": {"wbe": 0.5}}, "Did you mean"),
        ({"toolsets": {"web": "search"}}, "list of tools"),
        ({"toolsets": ["web"]}, "table"),
        ({"may_be_empty": 1}, "true or false"),
    ],
)
def test_a_wrong_distribution_names_what_is_wrong(changes: Any, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        made(**changes)


def test_distributions_are_read_from_a_file_by_name(tmp_path: Path) -> None:
    path = tmp_path / "tools.toml"
    path.write_text(
        '[toolsets]\nweb = ["search"]\nfiles = ["read"]\n'
        "[distributions.research]\nweb = 0.9\n[distributions.coding]\nfiles = 1.0\n"
    )
    assert load_distribution(path, "coding").draw(3) == ("files",)
    assert load_distribution(path, "research").name == "research"
    with pytest.raises(UsageError, match="several distributions"):
        load_distribution(path)
    with pytest.raises(UsageError, match=r"tools\.toml`: Distribution 'writing' is not known"):
        load_distribution(path, "writing")
    path.write_text("[toolset]\nweb = []\n")
    with pytest.raises(UsageError, match="'toolset' is unknown"):
        load_distribution(path)
    with pytest.raises(UsageError, match="cannot be read"):
        load_distribution(tmp_path / "none.toml")


# --- in a whole run -------------------------------------------------------------------------------


async def test_toolsets_are_drawn_per_row_and_are_in_the_output(bench: Any) -> None:
    bench.write([f"p{n}" for n in range(30)])
    tools = Distribution(
        toolsets={"web": ("search",), "files": ("read",)}, chances={"web": 0.5, "files": 0.5}
    )
    await bench.run(toolsets=tools, samples=2)
    used = {}
    for row in bench.lines("openai.jsonl"):
        names = {each["function"]["name"] for each in json.loads(row["tools"])}
        assert names == {{"web": "search", "files": "read"}[each] for each in row["toolsets_used"]}
        used[row["id"]] = tuple(row["toolsets_used"])
    assert {*used.values()} == {("web",), ("files",), ("web", "files")}
    counted = bench.statistics["toolsets"]
    assert counted["web"] == sum("web" in each for each in used.values())
    await bench.run(toolsets=tools, samples=2, folder=bench.folder / "again")
    bench.out = bench.folder / "again"
    assert {row["id"]: tuple(row["toolsets_used"]) for row in bench.lines("openai.jsonl")} == used


async def test_a_toolset_of_no_tool_is_refused_before_anything_is_asked(bench: Any) -> None:
    bench.write(["a"])
    with pytest.raises(UsageError, match="'serach'"):
        await bench.run(toolsets=Distribution(toolsets={"web": ("serach",)}, chances={"web": 1.0}))
    assert bench.model.asked == []
