"""What AutoGen's console, OpenManus and the AppWorld agents print.

`autogen_console.log` was printed by autogen-agentchat 0.7.5 with a replayed model.
"""

from __future__ import annotations

from pathlib import Path

from rolecraft.failure_taxonomy import read, recognise

FILES = Path(__file__).parent / "files"


def accounted(path: Path) -> bool:
    counts = read(path).about["accounting"]
    return counts["total"] == len(path.read_text().splitlines()) and not counts["unsegmented"]


def test_autogens_console_has_turns_thoughts_calls_results_and_the_end() -> None:
    path = FILES / "autogen_console.log"
    assert recognise(path) == "autogen"
    trajectory = read(path)
    assert [(event.kind, event.role, event.cause) for event in trajectory.events] == [
        ("message", "user", None),
        ("thought", "clerk", None),
        ("tool_call", "clerk", None),
        ("tool_result", "clerk", 2),
        ("message", "clerk", None),
        ("message", "boss", None),
        ("message", "clerk", None),
        ("message", "boss", None),
        ("stop", "", None),
    ]
    call, result = trajectory.events[2:4]
    assert (call.data["tool"], call.data["arguments"]) == ("weigh", {"thing": "parcel"})
    assert (result.content, result.data["ok"]) == ("the parcel weighs 2 kg", True)
    assert trajectory.events[7].data["farewell"] is True
    assert trajectory.stop_reason == "finished"
    assert trajectory.about["task"] == "Send the parcel."
    assert accounted(path)
    assert not trajectory.problems


def test_a_test_bed_around_a_magentic_one_run_is_header_and_its_verdict_a_label(
    tmp_path: Path,
) -> None:
    path = tmp_path / "console_log.txt"
    path.write_text(
        "RUN.SH STARTING !#!#\n---------- not a turn ----------\nCollecting autogen\n"
        "SCENARIO.PY STARTING !#!#\n"
        "---------- user ----------\nWhich bird?\n"
        "---------- MagenticOneOrchestrator ----------\nLook.\n```sh\nls\n```\n\n"
        "---------- ComputerTerminal ----------\nwren.txt\n"
        "SCENARIO.PY COMPLETE !#!#\nSCENARIO.PY RUNTIME: 5 !#!#\nSECRET ALL TESTS PASSED !#!#\n"
        "RUN.SH COMPLETE !#!#\n"
    )
    trajectory = read(path)
    assert [(event.kind, event.role, event.content.strip()) for event in trajectory.events] == [
        ("message", "user", "Which bird?"),
        ("message", "MagenticOneOrchestrator", "Look.\n```sh\nls\n```"),
        ("tool_result", "ComputerTerminal", "wren.txt"),
    ]
    assert trajectory.events[2].cause == 1
    assert trajectory.about["labels"] == {"test_bed": ["SECRET ALL TESTS PASSED !#!#"]}
    assert trajectory.about["accounting"]["labels"] == 1
    assert accounted(path)


def test_openmanus_thinks_calls_tools_and_is_stopped() -> None:
    path = FILES / "openmanus.log"
    assert recognise(path) == "openmanus"
    trajectory = read(path)
    assert [(event.kind, event.role, event.cause) for event in trajectory.events] == [
        ("thought", "Manus", None),
        ("tool_call", "Manus", None),
        ("tool_result", "Manus", 1),
        ("error", "Manus", None),
        ("stop", "", None),
    ]
    assert trajectory.events[0].content == "I write the file first.\nThen I look at it."
    assert trajectory.events[1].data["arguments"] == {"command": "create", "path": "/w/a.py"}
    assert trajectory.events[2].content.endswith("File created successfully at: /w/a.py")
    assert trajectory.stop_reason == "rounds"
    assert accounted(path)
    assert not trajectory.problems


def test_appworld_agents_run_code_within_code() -> None:
    path = FILES / "appworld.log"
    assert recognise(path) == "appworld"
    trajectory = read(path)
    assert [(event.kind, event.role, event.cause) for event in trajectory.events] == [
        ("tool_call", "Supervisor", None),
        ("message", "Supervisor", None),
        ("tool_call", "Spotify", None),
        ("tool_result", "Spotify", 2),
        ("message", "Spotify", None),
        ("tool_result", "Supervisor", 0),
        ("message", "Supervisor", None),
    ]
    assert trajectory.about["task"] == "Like the song Wren."
    assert trajectory.events[2].data["arguments"]["code"].startswith("print(apis.spotify")
    assert trajectory.events[3].data["ok"] is False
    assert trajectory.events[4].to == ("Supervisor",)
    assert trajectory.about["labels"]["evaluation"].startswith("───")
    assert "Num Passed" not in "".join(event.content for event in trajectory.events)
    assert accounted(path)
    assert not trajectory.problems
