"""What runs a model's code where nobody chose: the strongest walls there are, never none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rolecraft.errors import SandboxError
from rolecraft.sandboxes import Bubblewrap, default_provider, landlock
from rolecraft.sandboxes import default as module
from rolecraft.sandboxes._landlock import version
from rolecraft.sandboxes.landlock import Landlock


@pytest.fixture(autouse=True)
def _afresh() -> Iterator[None]:
    """What was found out is for the machine as it is, not as these tests have it."""
    module._why_not_bubblewrap.cache_clear()
    module._say_once.cache_clear()
    yield
    module._why_not_bubblewrap.cache_clear()


def test_where_bubblewrap_works_it_is_bubblewrap(needs_program) -> None:
    needs_program("bwrap", package="bubblewrap")
    assert isinstance(default_provider(), Bubblewrap)


@pytest.fixture
def _bwrap_may_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    refuses = tmp_path / "bwrap"
    refuses.write_text(
        "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1"
    )
    refuses.chmod(0o755)
    monkeypatch.setattr(module, "_as_nobody", list)
    monkeypatch.setattr(module.shutil, "which", lambda name: str(refuses))


@pytest.mark.skipif(version() < 1, reason="this kernel has no Landlock")
@pytest.mark.usefixtures("_bwrap_may_not")
async def test_where_namespaces_are_forbidden_it_is_landlock_and_the_log_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    monkeypatch.setattr(module.log, "warning", said.append)
    provider = default_provider()
    assert isinstance(provider, Landlock)
    assert (await provider.run(["echo", "hi"])).stdout == "hi\n"
    default_provider()
    assert len(said) == 1, "once"
    assert "No permissions to create new namespace" in said[0]
    assert "network" in said[0]


@pytest.mark.parametrize(
    ("found", "advice"), [(None, "apt install bubblewrap"), ("", "allow them")]
)
def test_where_there_is_neither_the_error_says_what_to_do(
    found: str | None, advice: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if found is None:
        monkeypatch.setattr(module.shutil, "which", lambda name: None)
    else:
        request.getfixturevalue("_bwrap_may_not")
    monkeypatch.setattr(landlock._landlock, "version", lambda: 0)
    with pytest.raises(SandboxError, match=advice) as raised:
        default_provider()
    for words in ("Linux 5.13", "LocalProcess()", "Remote"):
        assert words in str(raised.value)
