"""What counts as an agent's patch, and how it gets from one sandbox into another."""

from __future__ import annotations

import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from rolecraft.environments.software_engineering import Instance
from rolecraft.environments.software_engineering.bases import Bases
from rolecraft.environments.software_engineering.instances import BadInstance
from rolecraft.environments.software_engineering.patches import (
    Change,
    PatchError,
    changes_in,
    changes_of_text,
    manifest,
    new_litter,
    put,
)
from rolecraft.environments.software_engineering.quality import MOST_PARSED, complexity, quality_of
from rolecraft.environments.software_engineering.taken import take
from rolecraft.environments.software_engineering.unified import diff, lines_changed
from rolecraft.errors import RolecraftError, SandboxError, UsageError
from rolecraft.sandboxes import Bubblewrap, LocalProcess, SandboxSpec

EDITS = """
import os, pathlib
pathlib.Path("sums/core.py").write_bytes(b"a = 1\\r\\nb = 2\\r\\n")
pathlib.Path("sums/data.bin").write_bytes(bytes(range(256)))
os.rename("README.md", "READ ME.txt")
pathlib.Path("run.sh").write_text("#!/bin/sh\\n")
os.chmod("run.sh", 0o755)
os.symlink("core.py", "sums/link.py")
pathlib.Path("sums/umlaut-\\xe4.py").write_text("x = '\\xe4'\\n")
os.mkdir("sums/__pycache__")
pathlib.Path("sums/__pycache__/core.pyc").write_bytes(b"x")
os.mkdir(".git")
pathlib.Path(".git/config").write_text("x")
os.mkfifo("pipe")
"""


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    command = ["git", *identity, *words]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def commit(folder: Path) -> None:
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "base")


async def test_changes_of_every_kind_come_over_as_they_are(repository) -> None:
    """Binary files, renames, modes, line ends, links and names; by-products of tools do not."""
    provider = Bubblewrap()
    async with await provider.create(SandboxSpec(base=repository)) as sandbox:
        before = await manifest(sandbox)
        assert (await sandbox.run(["python3", "-c", EDITS])).ok
        changes = await changes_in(sandbox, before)
        after = await manifest(sandbox)
    found = {change.path: change for change in changes}
    assert set(found) == {
        *("sums/core.py", "sums/data.bin", "README.md", "READ ME.txt", "run.sh"),
        *("sums/link.py", "sums/umlaut-ä.py"),
    }
    assert found["sums/core.py"].content == b"a = 1\r\nb = 2\r\n"
    assert found["sums/data.bin"].content == bytes(range(256))
    assert found["README.md"].kind == "gone"
    assert found["run.sh"].executable
    assert found["sums/link.py"] == Change("sums/link.py", "link", b"core.py")
    async with await provider.create(SandboxSpec(base=repository)) as sandbox:
        await put(sandbox, changes, python="python3")
        work = {path: entry for path, entry in after.items() if entry != ("litter",)}
        assert await manifest(sandbox) == work
    assert new_litter(before, after) == (".git", "sums/__pycache__")
    assert await changes_of_text(repository, diff(repository, changes)) == changes


async def test_a_diff_that_git_makes_becomes_the_same_changes(repository, tmp_path) -> None:
    commit(repository)
    base = tmp_path / "base"
    git(tmp_path, "clone", "-q", str(repository), str(base))
    (repository / "README.md").rename(repository / "READ.md")
    (repository / "sums" / "core.py").write_text("x = 1\n")
    (repository / "data.bin").write_bytes(bytes(range(256)))
    git(repository, "add", "-A")
    text = git(repository, "diff", "--cached", "--binary", "-M")
    changes = await changes_of_text(base, text)
    assert [(each.path, each.kind) for each in changes] == [
        ("READ.md", "file"),
        ("README.md", "gone"),
        ("data.bin", "file"),
        ("sums/core.py", "file"),
    ]
    assert changes[2].content == bytes(range(256))


async def test_a_diff_that_does_not_apply_is_a_result(grader, instance) -> None:
    text = "--- a/sums/core.py\n+++ b/sums/core.py\n@@ -1 +1 @@\n-no such line\n+x\n"
    with pytest.raises(PatchError, match="does not apply"):
        await changes_of_text((await grader.bases.of(instance)).agent, text)
    grade = await grader.grade_text(instance, text)
    assert (grade.problem, grade.applies, grade.resolved) == ("patch_does_not_apply", False, False)
    assert (await grader.grade_text(instance, "no diff at all")).problem == "patch_does_not_apply"
    assert (await grader.grade_text(instance, "")).problem == "no_patch"


async def test_a_reference_as_text_is_resolved(grader, instance) -> None:
    assert (await grader.grade_text(instance, instance.patch)).resolved


async def test_a_planted_bug_is_taken_out_by_its_reverse(
    grader, instance, repository, mended
) -> None:
    """SWE-smith's polarity: the source is right, and the patch is the bug."""
    (repository / "sums" / "core.py").write_text(mended)
    swapped = instance.patch.replace("-  ", "?  ").replace("+  ", "-  ").replace("?  ", "+  ")
    bug = replace(instance, id="planted", polarity="bug", patch=swapped, hidden=())
    base = await grader.bases.of(bug)
    assert "+ 1" in (base.agent / "sums" / "core.py").read_text()
    assert not (base.agent / "tests" / "test_core.py").exists(), "its tests are hidden by default"
    assert (await grader.grade_reference(bug)).resolved


async def test_a_commit_of_a_repository_and_a_patch_of_tests(grader, instance, repository) -> None:
    """SWE-bench's form: the base is a commit, and the new tests come as a patch."""
    tests = (repository / "tests" / "test_core.py").read_text()
    (repository / "tests" / "test_core.py").unlink()
    commit(repository)
    head = git(repository, "rev-parse", "HEAD").strip()
    (repository / "sums" / "core.py").write_text("a later commit\n")
    added = "".join(f"+{line}\n" for line in tests.splitlines())
    patch = (
        f"--- /dev/null\n+++ b/tests/test_core.py\n@@ -0,0 +1,{len(tests.splitlines())} @@\n{added}"
    )
    row = replace(instance, id="commit", base_commit=head, test_patch=patch, hidden=())
    base = await grader.bases.of(row)
    assert not (base.agent / "tests" / "test_core.py").exists()
    assert (await grader.grade_reference(row)).resolved
    with pytest.raises(BadInstance, match="base_commit"):
        await grader.bases.of(replace(row, base_commit="--output=x"))
    with pytest.raises(BadInstance, match="`test_patch` does not apply"):
        await grader.bases.of(replace(row, test_patch=instance.patch.replace("len", "no")))


async def test_archives_are_sources(instance, repository, tmp_path) -> None:
    import shutil

    bases = Bases()
    wheel = shutil.make_archive(str(tmp_path / "sums"), "zip", repository)
    sdist = shutil.make_archive(
        str(tmp_path / "sums-1.0"), "gztar", repository.parent, repository.name
    )
    for source in (wheel, sdist):
        base = await bases.of(replace(instance, id=source, source=source))
        assert (base.graded / "sums" / "core.py").exists(), source
        assert not (base.agent / "tests").exists()
    (tmp_path / "no.whl").write_text("no archive")
    with pytest.raises(BadInstance, match="cannot be unpacked"):
        await bases.of(replace(instance, source=str(tmp_path / "no.whl")))


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("sums/core.py", True),
        ("sums/testing.py", True),
        ("django/test/client.py", True),
        ("sums/test_core.py", False),
        ("sums/core_test.py", False),
        ("tests/data.json", False),
        ("sums/tests/helper.py", False),
        ("setup.py", True),
        ("docs/tests.md", True),
    ],
)
def test_which_edits_are_of_tests(instance: Instance, tmp_path, path, kept) -> None:
    content = b"def test_x():\n    pass\n"
    taken = take([Change(path, "file", content)], instance, tmp_path)
    assert bool(taken.kept) is kept, taken.dropped


@pytest.mark.parametrize("path", ["sums/test_tools.py", "sums/stats_test.py", "sums/tests.py"])
@pytest.mark.parametrize(
    ("content", "kept"),
    [
        ("def t_test(a): return a\nclass Result: pass\n", True),
        ("def test_a(): pass\n", False),
        ("async def test_a(): pass\n", False),
        ("if True:\n    def test_a(): pass\n", False),
        ("class TestA(Base): pass\n", False),
        ("class Other(unittest.TestCase): pass\n", False),
        ("test_a = made()\n", False),
        ("from sums.core import mean as test_mean\n", False),
        ("from sums.core import *\n", False),
        ("no Python", False),
    ],
)
def test_a_new_module_without_tests_is_code_whatever_its_name(
    instance: Instance, repository, path, content, kept
) -> None:
    taken = take([Change(path, "file", content.encode())], instance, repository)
    assert bool(taken.kept) is kept, taken.dropped


def test_a_module_without_tests_is_dropped_where_one_of_its_name_is_there(
    instance: Instance, repository
) -> None:
    """What tests import by this name would be another module, or it is a test of the base."""
    (repository / "tests" / "test_tools.py").write_text("def equal(a, b): return a == b\n")
    for path in ("test_tools.py", "tests/test_tools.py", "sums/test_tools.py"):
        change = Change(path, "file", b"def equal(a, b): return True\n")
        assert not take([change], instance, repository).kept, path


async def test_a_fix_may_bring_a_module_that_is_called_like_a_test(attempt, mended) -> None:
    """What the patch needs is there while it is graded."""
    files = {
        "sums/stats_test.py": "def t_test(numbers):\n    return len(numbers)\n",
        "sums/core.py": f"from sums.stats_test import t_test\n{mended}",
    }
    grade = await attempt(files)
    assert not grade.dropped
    assert grade.resolved


@pytest.mark.parametrize(
    ("had", "path", "kept"),
    [
        ("flat.py", "flat/__init__.py", True),
        ("flat.py", "flat/core.py", True),
        ("flat/__init__.py", "flat.py", True),
        ("flat/__init__.py", "flat/core.py", True),
        ("src/flat.py", "src/flat/__init__.py", True),
        ("other.py", "flat/__init__.py", False),
        ("other.py", "flat.py", False),
        ("src/flat.py", "flat.py", False),
        ("flat/build.sh", "flat/__init__.py", False),
        ("flat/build.sh", "flat.py", False),
        ("flat/build.sh", "flat/build.sh", True),
        ("flat/build.sh", "flat/clean.sh", True),
        ("other.py", "flat.txt", True),
    ],
)
def test_a_module_of_the_base_may_take_another_form(
    instance: Instance, tmp_path, had, path, kept
) -> None:
    """`flat` is installed from the base, say; what the base has is in front of nothing new."""
    (tmp_path / had).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / had).touch()
    row = replace(instance, python_path=("src",))
    taken = take([Change(path, "file", b"x = 1\n")], row, tmp_path, installed={"flat"})
    assert bool(taken.kept) is kept, taken.dropped


@pytest.mark.parametrize("path", ["build/report.xml", "build"])
def test_a_patch_brings_no_report(instance: Instance, tmp_path, path) -> None:
    row = replace(
        instance, runner="junit", test_command=("make", "check"), report="./build/report.xml"
    )
    changes = [Change(path, "file", b"<testsuite/>"), Change("build.sh", "file", b"make\n")]
    taken = take(changes, row, tmp_path)
    assert [each.path for each in taken.kept] == ["build.sh"]
    assert taken.dropped[0].why == "the tests' report is written there"


def test_a_file_that_the_reference_changes_is_no_test(instance: Instance, tmp_path) -> None:
    """Some projects have code in files that look like tests."""
    reference = "--- a/sums/tests/tools.py\n+++ b/sums/tests/tools.py\n@@ -1 +1 @@\n-a\n+b\n"
    row = replace(instance, patch=reference)
    assert take([Change("sums/tests/tools.py", "file")], row, tmp_path).kept


def test_complexity_counts_branches() -> None:
    assert complexity("x = 1\n") == 0
    assert complexity("def f(): pass\n") == 1
    code = "def f(a):\n    if a and a > 1 or not a:\n        return [x for x in a if x]\n"
    assert complexity(code) == 1 + 1 + 2 + 1
    assert complexity("def f(:\n") is None


async def test_quality_has_both_sides(repository) -> None:
    change = Change("sums/core.py", "file", b"import os\ndef f():\n    return 1\n")
    quality = await quality_of(repository, [change, Change("README.md", "gone")])
    assert (quality.after.lines, quality.after.complexity) == (3, 1)
    assert quality.before.complexity == 3
    assert (quality.lines_added, quality.lines_removed) == (3, 13), "README.md counts, too"
    if not quality.without:
        assert quality.before.findings == 0
        assert quality.after.findings


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo broken >&2; exit 2", "exit code 2: broken"),
        ("kill -9 $$", "exit code -9"),
        ("echo no JSON", "`ruff` failed"),
        ("exec sleep 60", "more than 0.5 s"),
    ],
)
async def test_a_ruff_that_fails_leaves_its_findings_out_and_says_why(
    repository, tmp_path, monkeypatch, script, why
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ruff").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "bin" / "ruff").chmod(0o755)
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    monkeypatch.setattr("rolecraft.environments.software_engineering.quality.RUFF_SECONDS", 0.5)
    quality = await quality_of(repository, [Change("sums/core.py", "file", b"import os\n")])
    assert quality.before.findings is quality.after.findings is None
    assert why in " ".join(quality.without)
    assert (quality.lines_added, quality.after.complexity) == (1, 0)


async def test_of_a_huge_source_only_lines_are_counted(repository) -> None:
    content = b"x = 1\x0c\n" * (MOST_PARSED // 4)
    quality = await quality_of(repository, [Change("sums/core.py", "file", content)])
    assert quality.lines_added == quality.after.lines == MOST_PARSED // 4
    assert quality.after.complexity is quality.after.findings is None
    assert "only lines are counted" in quality.without[0]


@pytest.mark.parametrize("path", ["/etc/x", "../x", "a/../../x", "a\0b", "", ".", "./a", "a//b"])
def test_a_change_is_of_a_path_below_the_work_folder(path) -> None:
    with pytest.raises(UsageError, match="below the work folder"):
        Change(path, "file")


@pytest.mark.parametrize(
    "said",
    [
        "no JSON",
        "[" * 100_000,
        "[]",
        '{"a": 1}',
        '{"a": []}',
        '{"a": ["file"]}',
        '{"a": ["file", 1, true]}',
        '{"a": ["link", null]}',
        '{"a": ["link", "\\ud800"]}',
        '{"\\ud800": ["link", "b"]}',
        '{"../../../../etc/hostname": ["file", "0", false]}',
        '{"/etc/hostname": ["file", "0", false]}',
        '{"a\\u0000b": ["file", "0", false]}',
    ],
)
async def test_a_listing_that_is_none_is_a_failure_of_the_sandbox(tmp_path, said) -> None:
    """Where the sandbox's `python3` is somebody else's, what it prints may be anything."""
    (tmp_path / "said").write_text(said)
    (tmp_path / "python3").write_text("#!/bin/sh\ncat said\n")
    (tmp_path / "python3").chmod(0o755)
    spec = SandboxSpec(base=tmp_path, env={"PATH": ".:/usr/bin:/bin"})
    async with await LocalProcess().create(spec) as sandbox:
        with pytest.raises(SandboxError, match=r"The sandbox lists"):
            await manifest(sandbox)


SWAPS = {
    "a folder by a file": "shutil.rmtree('sums'); pathlib.Path('sums').write_text('x')",
    "a folder by a link": "shutil.rmtree('sums'); os.symlink('tests', 'sums')",
    "a file by a folder": (
        "os.unlink('README.md'); os.mkdir('README.md'); "
        "pathlib.Path('README.md/a.txt').write_text('x')"
    ),
    "a nested folder by a file": "shutil.rmtree('deep'); pathlib.Path('deep').write_text('x')",
}


@pytest.mark.parametrize("how", SWAPS.values(), ids=SWAPS)
async def test_files_folders_and_links_can_take_each_others_places(repository, how) -> None:
    (repository / "deep" / "er").mkdir(parents=True)
    (repository / "deep" / "er" / "a.txt").write_text("a")
    provider = Bubblewrap()
    async with await provider.create(SandboxSpec(base=repository)) as sandbox:
        before = await manifest(sandbox)
        assert (await sandbox.run(["python3", "-c", f"import os, pathlib, shutil\n{how}"])).ok
        after = await manifest(sandbox)
        changes = await changes_in(sandbox, before, after)
    async with await provider.create(SandboxSpec(base=repository)) as sandbox:
        await put(sandbox, changes, python="python3")
        assert await manifest(sandbox) == after


async def test_nothing_is_deleted_beyond_a_link(repository) -> None:
    (repository / "other").symlink_to("tests")
    async with await Bubblewrap().create(SandboxSpec(base=repository)) as sandbox:
        with pytest.raises(PatchError, match=r"other/test_core\.py lies beyond a link"):
            await put(sandbox, (Change("other/test_core.py", "gone"),), python="python3")


async def test_a_diff_does_not_show_what_lies_beyond_a_link_of_the_base(tmp_path) -> None:
    """The agent puts a folder in place of a link that leads out of the base."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "a.txt").write_text("the host's own\n")
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "data").symlink_to("../secret")
    changes = (Change("data", "gone"), Change("data/a.txt", "file", b"x\n"))
    assert "the host's own" not in diff(tmp_path / "base", changes)
    assert lines_changed(tmp_path / "base", changes) == (1, 1)


AWKWARD = {
    "an empty file": [Change("new/empty.py", "file")],
    "a mode only": [Change("run.sh", "file", b"#!/bin/sh\n", executable=True)],
    "a new mode and text": [Change("new.sh", "file", b"#!/bin/sh\nls\n", executable=True)],
    "a new link": [Change("link", "link", b"README.md")],
    "a link that is a file now": [Change("old link", "file", b"README.md\n")],
    "a file that is a link now": [Change("README.md", "link", b"run.sh")],
    "an empty file that is gone": [Change("empty", "gone")],
    "no line end at the end": [Change("README.md", "file", b"Sums.\nno end")],
    "a form feed and a line separator": [
        Change("README.md", "file", "a\x0cb\u2028c\x85d\x1ee\r\nf\rg\n".encode())
    ],
    "bytes that are no UTF-8": [Change("README.md", "file", b"\xe4\n")],
    "a NUL": [Change("README.md", "file", b"a\0b\n")],
    "a name with everything": [Change('sp ace/"qu\\ote\n\t\xe4\udcff*?[x].py', "file", b"x\n")],
    "settings of git that hide": [
        Change(".gitattributes", "file", b"* -diff working-tree-encoding=UTF-16 eol=crlf\n"),
        Change("README.md", "file", b"shown\n"),
    ],
}


@pytest.mark.parametrize("changes", AWKWARD.values(), ids=AWKWARD)
async def test_git_applies_the_diff_of_any_change(repository, changes) -> None:
    (repository / "run.sh").write_text("#!/bin/sh\n")
    (repository / "empty").touch()
    (repository / "old link").symlink_to("run.sh")
    text = diff(repository, changes)
    text.encode()  # a record can hold it
    assert list(await changes_of_text(repository, text)) == changes
    if changes[-1].content == b"shown\n":
        assert "+shown\n" in text


def test_a_large_diff_is_made_in_little_time(tmp_path) -> None:
    """Lines that are alike take a quadratic diff minutes."""
    (tmp_path / "a.py").write_text("".join(f"x = {n % 7}\n" for n in range(30_000)))
    content = "".join(f"x = {n % 11}\n" for n in range(60_000)).encode()
    started = time.monotonic()
    changes = [Change("a.py", "file", content)]
    assert diff(tmp_path, changes)
    added, removed = lines_changed(tmp_path, changes)
    assert added - removed == 30_000
    assert time.monotonic() - started < 30


async def test_without_git_neither_lines_nor_a_diff_but_the_rest(repository, monkeypatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    change = Change("sums/core.py", "file", b"def f(): pass\n")
    with pytest.raises(RolecraftError, match="`git` is not installed"):
        diff(repository, [change])
    quality = await quality_of(repository, [change])
    assert quality.lines_added is quality.lines_removed is None
    assert "lines are not counted: `git` is not installed" in quality.without[0]
    assert (quality.after.lines, quality.after.complexity) == (1, 1)
