"""`rolecraft annotate --mapping FILE`: traces in a form of one's own."""

from __future__ import annotations

import json

import pytest

from rolecraft.cli._exits import ExitCode
from rolecraft.failure_taxonomy.formats import FORMATS

MAPPING = "name: helpdesk\nevents: log\nevent: {role: who, content: text}\n"


@pytest.fixture(autouse=True)
def known():
    before = dict(FORMATS)
    yield
    FORMATS.clear()
    FORMATS.update(before)


def test_files_are_read_as_a_mapping_says(cli, tmp_path):
    (tmp_path / "map.yaml").write_text(MAPPING)
    log = [{"who": "ann", "text": "The lamp is broken."}]
    # It could be a list of messages too: what is given by hand comes first.
    trace = tmp_path / "run.json"
    trace.write_text(json.dumps({"log": log, "messages": [{"role": "user", "content": "no"}]}))
    result = cli("annotate", trace, "--mapping", tmp_path / "map.yaml", "--json")
    assert result.code == ExitCode.OK
    assert result.lines[0]["format"] == "helpdesk"


def test_a_mapping_that_is_wrong_is_one_line(cli, tmp_path):
    (tmp_path / "map.yaml").write_text("name: [")
    (tmp_path / "run.json").write_text("{}")
    result = cli("annotate", tmp_path / "run.json", "--mapping", tmp_path / "map.yaml")
    assert result.code == ExitCode.USAGE
    assert "map.yaml" in result.err
    assert "Traceback" not in result.err


def test_a_file_that_is_no_mapping_is_not_read_out(cli, tmp_path):
    (tmp_path / "labels.json").write_text(json.dumps([{"trace": "x" * 5000}]))
    (tmp_path / "run.json").write_text("{}")
    result = cli("annotate", tmp_path / "run.json", "--mapping", tmp_path / "labels.json")
    assert result.code == ExitCode.USAGE
    assert "is an object with `name`, `events` and `event`" in result.err
    assert len(result.err) < 500 + len(str(tmp_path))
