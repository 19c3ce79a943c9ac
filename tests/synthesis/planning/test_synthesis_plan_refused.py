"""What no plan can be made of is refused in one sentence that says why, and the way out."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from rolecraft.errors import RolecraftError, UsageError
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.plan import Plan
from rolecraft.synthesis.planning.make import make_plan
from rolecraft.synthesis.planning.settings import PlanSettings
from rolecraft.synthesis.planning.source import copy_source, writing

Planned = Callable[..., Awaitable[Plan]]
Project = Callable[[dict[str, str]], Path]

CODE = "def area(side):\n    return side * side\n"
TEST = "from shapes import area\n\n\ndef test_area():\n    assert area(2) == 4\n"


def wheel(folder: Path) -> Path:
    path = folder / "shapes-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("shapes/__init__.py", CODE)
        archive.writestr("shapes-1.0.dist-info/METADATA", "Name: shapes\nVersion: 1.0\n")
    return path


async def plan(source: Path, out: Path, **settings: object) -> Plan:
    said = PlanSettings(**settings)  # type: ignore[arg-type]
    return await make_plan(source, SynthesisFolder(out), settings=said)


async def test_no_tests(planned: Planned) -> None:
    with pytest.raises(UsageError, match=r"has no tests.*--tests\.$"):
        await planned({"shapes.py": CODE})


async def test_a_source_archive_without_tests_is_told_where_they_are(
    tmp_path: Path, bare_environment: Path
) -> None:
    """Of one it was said what a wheel has."""
    archive = tmp_path / "shapes-1.0.zip"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("shapes-1.0/shapes.py", CODE)
    with pytest.raises(UsageError, match=r"has no tests.*a checkout of the repository has them"):
        await plan(archive, tmp_path / "out", environment=bare_environment)


async def test_bugs_of_a_plan_that_is_gone(planned: Planned, tmp_path: Path) -> None:
    """With other files their offsets and verdicts would be wrong, and nothing would say so."""
    folder = SynthesisFolder(tmp_path / "out")
    folder.path.mkdir()
    folder.candidates.write_text("{}\n")
    with pytest.raises(UsageError, match=r"a plan that is gone.*another --out"):
        await planned({"shapes.py": CODE, "tests/test_area.py": TEST})
    assert not folder.source.exists()


async def test_no_code(planned: Planned) -> None:
    with pytest.raises(UsageError, match="no package and no module"):
        await planned({"setup.py": "", "tests/test_a.py": TEST})


async def test_a_wheel_has_no_tests_and_takes_those_that_are_given(
    tmp_path: Path, bare_environment: Path, project: Project
) -> None:
    with pytest.raises(UsageError, match=r"has no tests.*a wheel has none"):
        await plan(wheel(tmp_path), tmp_path / "out", environment=bare_environment)
    tests = project({"checks/test_area.py": TEST}) / "checks"
    made = await plan(wheel(tmp_path), tmp_path / "out", environment=bare_environment, tests=tests)
    assert made.suite.passing == ["checks/test_area.py::test_area"]
    assert (made.project.name, made.project.version) == ("shapes", "1.0")
    assert made.project.tests == ("checks/test_area.py",)


async def test_a_clean_suite_that_fails(planned: Planned) -> None:
    tests = TEST + "\n\ndef test_other():\n    assert area(2) == 5\n"
    with pytest.raises(
        UsageError, match=r"1 of the 2 clean tests of shapes fail, more than 20%"
    ) as e:
        await planned({"shapes.py": CODE, "tests/test_a.py": tests})
    assert "test_other`: " in str(e.value)
    assert "assert 4 == 5" in str(e.value)
    assert "--environment" in str(e.value)


async def test_settings_that_pytest_does_not_take(planned: Planned) -> None:
    settings = "[pytest]\naddopts = --there-is-no-such-option\n"
    with pytest.raises(UsageError, match=r"cannot be run.*there-is-no-such-option"):
        await planned({"shapes.py": CODE, "tests/test_a.py": TEST, "pytest.ini": settings})


async def test_tests_of_another_copy(planned: Planned) -> None:
    """Tests that run none of the project's code tell nothing about bugs in it."""
    files = {"shapes.py": CODE, "tests/test_a.py": "def test_a():\n    assert True\n"}
    with pytest.raises(UsageError, match=r"runs a line of its code.*pip uninstall shapes`"):
        await planned(files)


async def test_what_pytest_is_made_of_is_loaded_before_its_tests(planned: Planned) -> None:
    """iniconfig was said to be tested as another copy, with no word of what to do."""
    files = {
        "pyproject.toml": '[project]\nname = "iniconfig"\n',
        "iniconfig/__init__.py": CODE,
        "tests/test_a.py": "import iniconfig\n\n\ndef test_a():\n    assert iniconfig.IniConfig\n",
    }
    with pytest.raises(UsageError, match="pytest itself is made of iniconfig and has loaded"):
        await planned(files)


async def test_a_package_that_needs_compiling(planned: Planned) -> None:
    setup = (
        "from setuptools import Extension, setup\nsetup(ext_modules=[Extension('a', ['a.c'])])\n"
    )
    files = {"shapes.py": CODE, "tests/test_a.py": TEST, "setup.py": setup}
    with pytest.raises(UsageError, match=r"needs compiling: setup\.py has `ext_modules`"):
        await planned(files)
    made = await planned(files, pure=True)
    assert made.suite.passing == ["tests/test_a.py::test_area"]


async def test_an_environment_without_pytest(planned: Planned, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no pytest"):
        await planned({"shapes.py": CODE, "tests/test_a.py": TEST}, environment=tmp_path)
    with pytest.raises(UsageError, match="there is no such folder"):
        await planned({"shapes.py": CODE, "tests/test_a.py": TEST}, environment=tmp_path / "none")


async def test_no_package_index(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip asks a port on which nobody listens."""
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    source = project({"shapes.py": CODE, "tests/test_a.py": TEST})
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="rolecraft-test-") as place:
        os.chmod(place, 0o755)
        with pytest.raises(UsageError, match=r"cannot reach its package index.*--environment"):
            await plan(source, Path(place, "out"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only under root sandboxes are another user's")
async def test_a_folder_into_which_no_sandbox_can_look(project: Project, tmp_path: Path) -> None:
    source = project({"shapes.py": CODE, "tests/test_a.py": TEST})
    (tmp_path / "closed").mkdir(mode=0o700)
    with pytest.raises(UsageError, match=r"only its owner may look.*another folder"):
        await plan(source, tmp_path / "closed" / "out")


@pytest.mark.parametrize("name", ["shapes.tar.gz", "shapes.whl", "shapes.rar", "none"])
async def test_what_is_no_project(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name != "none":
        path.write_bytes(b"nothing of the kind")
    with pytest.raises(UsageError, match=r"cannot be unpacked|is no project|is not there"):
        await plan(path, tmp_path / "out")


def test_an_archive_that_was_cut_off(tmp_path: Path) -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        info = tarfile.TarInfo("shapes/shapes.py")
        info.size = 50_000
        archive.addfile(info, io.BytesIO(os.urandom(50_000)))
    path = tmp_path / "shapes.tar.gz"
    path.write_bytes(data.getvalue()[:20_000])
    with pytest.raises(UsageError, match="cannot be unpacked"):
        copy_source(path, tmp_path / "out" / "source")


def test_a_zip_of_a_folder_is_that_folder(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "shapes.zip", "w") as archive:
        archive.writestr("shapes-main/shapes.py", CODE)
        archive.writestr("shapes-main/__pycache__/shapes.pyc", "")
    copy_source(tmp_path / "shapes.zip", tmp_path / "out" / "source")
    assert (tmp_path / "out" / "source" / "shapes.py").read_text() == CODE
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["source"]


async def test_a_folder_for_the_tasks_inside_of_the_project(project: Project) -> None:
    source = project({"shapes.py": CODE, "tests/test_a.py": TEST})
    with pytest.raises(UsageError, match="inside of the project"):
        await plan(source, source / "out")


async def test_other_settings_for_a_plan_that_is_there(planned: Planned) -> None:
    files = {"shapes.py": CODE, "tests/test_a.py": TEST}
    first = await planned(files)
    assert await planned(files) == first
    with pytest.raises(UsageError, match=r"other settings \(`pure` was False, now it is True\)"):
        await planned(files, pure=True)


FULL = """
import resource, signal, sys
from pathlib import Path
from rolecraft.errors import RolecraftError
from rolecraft.synthesis.planning.source import copy_source, writing
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
source, out = map(Path, sys.argv[1:])
try:
    with writing(out):
        copy_source(source, out / "source")
except RolecraftError as error:
    print(error)
"""


def test_a_disk_that_is_full_is_one_clear_error(project: Project, tmp_path: Path) -> None:
    """The copy is made whole or not at all, and a second try begins anew."""
    source = project({"shapes.py": CODE, "table.py": "# x\n" * 10_000})
    command = [sys.executable, "-c", FULL, str(source), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.count("\n") == 1
    assert "cannot be written: " in done.stdout
    assert not (tmp_path / "out" / "source").exists()
    copy_source(source, tmp_path / "out" / "source")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["source"]


def test_what_the_disk_refuses_names_the_folder(tmp_path: Path) -> None:
    with (
        pytest.raises(RolecraftError, match=r"out` cannot be written: No space left on device\."),
        writing(tmp_path / "out"),
    ):
        Path("/dev/full").write_bytes(b"x")


async def test_tests_that_want_a_network_are_told_that_there_is_none(planned: Planned) -> None:
    """What they wanted was said to be not installed."""
    tests = TEST + (
        "\n\ndef test_page():\n    import urllib.request\n\n"
        "    urllib.request.urlopen('http://example.org')\n"
    )
    with pytest.raises(UsageError, match=r"no network: .* '--deselect TEST'"):
        await planned({"shapes.py": CODE, "tests/test_a.py": tests})
