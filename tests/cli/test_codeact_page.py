"""The scenario that docs/codeact.md shows is a whole file that `rolecraft run` plays."""

import re
from pathlib import Path

from rolecraft.cli._exits import ExitCode

PAGE = Path(__file__).parents[2] / "docs" / "codeact.md"


def test_the_scenario_of_the_page_is_played_by_the_command(cli, tmp_path: Path) -> None:
    found = re.search(r"```python\n(# repair\.py\n.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert found is not None
    (tmp_path / "repair.py").write_text(found[1])
    result = cli("run", "repair.py:repair", "--task", "area", "--json")
    assert result.code == ExitCode.OK
    record = result.lines[0]
    assert (record["task"], record["stop"], record["reward"]) == ("area", "finished", 1.0)
