"""A program that uses Rolecraft decides what it hears of it, and hears who was doing what."""

from __future__ import annotations

import subprocess
import sys

from loguru import logger

from rolecraft import Action, Role
from rolecraft._log import log

SPEAK = """
from loguru import logger
import rolecraft
from rolecraft._log import log

# As if the message came from within the library.
scope = {"log": log, "__name__": "rolecraft.models"}
exec("def speak():\\n    log.warning('from within')", scope)
scope["speak"]()
logger.warning("from outside")
logger.enable("rolecraft")
scope["speak"]()
"""


def test_the_library_is_silent_until_it_is_enabled_and_nobody_else_is_silenced():
    done = subprocess.run([sys.executable, "-c", SPEAK], capture_output=True, text=True, check=True)
    lines = [line.rpartition(" - ")[2] for line in done.stderr.splitlines()]
    assert lines == ["from outside", "from within"]


COMMAND = """
import sys
from rolecraft.cli.main import main
from rolecraft._log import log

sys.argv = ["rolecraft", "--version"]
try:
    main()
except SystemExit:
    pass
scope = {"log": log, "__name__": "rolecraft.models"}
exec("def speak():\\n    log.warning('from within')", scope)
scope["speak"]()
"""


def test_the_command_says_what_the_library_has_to_say():
    done = subprocess.run(
        [sys.executable, "-c", COMMAND], capture_output=True, text=True, check=True
    )
    assert done.stderr.rstrip().endswith("from within")


class Speak(Action):
    async def run(self) -> str:
        log.bind(role="myself").info("named")
        log.info("in an action")
        return "done"


async def test_a_message_says_which_role_was_in_which_action(logged):
    await Role(name="Ann", actions=[Speak]).run("go")
    log.info("outside")
    extras = [message.record["extra"] for message in logged]
    assert extras == [
        {"role": "myself", "action": "Speak"},
        {"role": "Ann", "action": "Speak"},
        {},
    ]


async def test_messages_go_where_the_program_sends_them():
    lines: list[str] = []
    sink = logger.add(lines.append, format="{extra[role]}/{extra[action]}: {message}")
    try:
        await Role(name="Ann", actions=[Speak]).run("go")
    finally:
        logger.remove(sink)
    assert lines == ["myself/Speak: named\n", "Ann/Speak: in an action\n"]
