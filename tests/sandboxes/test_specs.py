"""What a `SandboxSpec`, its limits, and content for a file cannot be is said at once."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rolecraft.errors import UsageError
from rolecraft.sandboxes import AllowList, Bubblewrap, LocalProcess, SandboxLimits, SandboxSpec
from rolecraft.sandboxes._landlock import version
from rolecraft.sandboxes.base import MOST, MOST_SECONDS
from rolecraft.sandboxes.landlock import Landlock, why_not
from rolecraft.sandboxes.live import SandboxLost, check_readable


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"network": "on"}, "network='on'"),
        ({"network": ["example.org"]}, "network="),
        ({"env": {"A": 1}}, "got {str: int}"),
        ({"env": ["A=1"]}, "got list"),
        ({"files": {"a": 3}}, "got {str: int}"),
        ({"files": {3: "a"}}, "files="),
        ({"files": "main.py"}, "got str"),
        ({"requires": "network"}, "requires='network'"),
        ({"requires": {"moat"}}, "moat"),
        ({"readable": "/data"}, "readable='/data'"),
        ({"readable": (3,)}, "readable="),
        ({"limits": {"seconds": 3}}, "limits="),
        ({"ports": (0,)}, "1 to 65535"),
        ({"ports": (65536,)}, "1 to 65535"),
        ({"ports": ("80",)}, "ports="),
        ({"ports": 80}, "ports=80"),
        ({"base": 3}, "base=3"),
        ({"root": "/no/such/folder"}, "no such folder"),
        ({"image": ""}, "image=''"),
        ({"ttl_seconds": "60"}, "ttl_seconds='60'"),
    ],
)
def test_a_spec_says_which_field_cannot_be(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match="SandboxSpec") as error:
        SandboxSpec(**fields)
    assert said in str(error.value)


def test_the_error_has_no_secret_of_the_environment() -> None:
    env: Any = {"TOKEN": "a secret", "PORT": 80}
    with pytest.raises(UsageError) as error:
        SandboxSpec(env=env)
    assert "a secret" not in str(error.value)


def test_lists_are_taken_for_what_they_hold() -> None:
    fields: dict[str, Any] = {"readable": ["/usr"], "ports": [80, 65535], "requires": ["files"]}
    spec = SandboxSpec(**fields)
    assert spec.readable == ("/usr",)
    assert spec.ports == (80, 65535)
    assert spec.requires == frozenset({"files"})
    assert SandboxSpec(network=AllowList(("a.test",))).network == AllowList(("a.test",))


@pytest.mark.parametrize("hosts", ["a.test", (), ("",), (3,), 3])
def test_an_allow_list_is_of_names(hosts: Any) -> None:
    with pytest.raises(UsageError, match="AllowList"):
        AllowList(hosts)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seconds", "5"),
        ("seconds", None),
        ("seconds", True),
        ("seconds", math.nan),
        ("seconds", math.inf),
        ("seconds", 0),
        ("memory_bytes", 2.5),
        ("seconds", -1.5),
        ("seconds", 10**400),
        ("processes", -1),
        ("cpu_seconds", 2**40),
        ("memory_bytes", 2**61),
        ("disk_bytes", 10**400),
    ],
)
def test_a_limit_is_a_number_above_0_that_can_be_held(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"SandboxLimits\\({name}="):
        SandboxLimits(**{name: value})


@pytest.mark.parametrize(
    "limits",
    [
        SandboxLimits(seconds=10**7),
        SandboxLimits(
            seconds=MOST_SECONDS,
            cpu_seconds=MOST_SECONDS,
            memory_bytes=MOST,
            processes=MOST,
            file_bytes=MOST,
            disk_bytes=MOST,
            output_bytes=MOST,
        ),
    ],
    ids=["four months", "the largest"],
)
@pytest.mark.parametrize("kind", [LocalProcess, Bubblewrap, Landlock])
async def test_large_limits_are_limits_like_others(
    kind: type[Any], limits: SandboxLimits, needs_program: Callable[..., None]
) -> None:
    """A keeper could not wait for 10**7 seconds, and all of its sandboxes were lost with it."""
    if kind is Bubblewrap:
        needs_program("bwrap", package="bubblewrap")
    if kind is Landlock and version() < 1:
        pytest.skip("this kernel has no Landlock")
    async with await kind().create(SandboxSpec(limits=limits)) as sandbox:
        first = await sandbox.run(["echo", "one"])
        shell = await sandbox.shell()
        second = await shell.run("echo two")
    assert (first.stdout, first.exit_code) == ("one\n", 0), first.stderr
    assert (second.stdout, second.exit_code) == ("two\n", 0), second.stderr


async def test_what_is_no_text_cannot_be_written() -> None:
    wrong: Any = 3
    async with await LocalProcess().create() as sandbox:
        with pytest.raises(UsageError, match="text or bytes, got int"):
            await sandbox.write("a", wrong)
        with pytest.raises(UsageError, match="text or bytes, got int"):
            await sandbox.run(["true"], files={"a": wrong})
        with pytest.raises(UsageError, match="text or bytes, got int"):
            await sandbox.run(["cat"], stdin=wrong)


async def test_a_shell_of_a_sandbox_that_was_forked_says_so() -> None:
    async with await LocalProcess().create() as sandbox:
        shell = await sandbox.shell()
        copy = await sandbox.fork()
        await copy.close()
        with pytest.raises(SandboxLost, match="its sandbox was forked"):
            await shell.run("true")


def test_a_missing_readable_folder_is_named(tmp_path: Path) -> None:
    check_readable((tmp_path, "/usr"))
    with pytest.raises(UsageError, match="/no/such/folder"):
        check_readable((tmp_path, "/no/such/folder"))


@pytest.mark.skipif(bool(why_not()), reason="this kernel has no Landlock")
async def test_landlock_names_a_missing_readable_folder() -> None:
    with pytest.raises(UsageError, match="/no/such/folder"):
        await Landlock(readable=["/no/such/folder"]).run(["true"])
