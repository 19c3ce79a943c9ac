"""Archives, also those that somebody has made to write where they should not."""

from __future__ import annotations

import io
import os
import stat
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecraft.errors import SandboxError
from rolecraft.sandboxes._conformance import tree
from rolecraft.sandboxes._transfer import pack, unpack


def _member(name: str, content: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, content


def _link(name: str, goal: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    return _member(name, type=kind, linkname=goal)


def _archive(*members: tuple[tarfile.TarInfo, bytes]) -> list[bytes]:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return [data.getvalue()]


FOLDER = _member(".", type=tarfile.DIRTYPE, mode=0o755)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A folder to unpack in, beside one that must stay as it is."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("secret")
    return tmp_path / "target"


def _outside_is_untouched(target: Path) -> None:
    assert tree(target.parent / "outside") == {"secret": b"secret"}
    assert sorted(os.listdir(target.parent)) in (["outside"], ["outside", "target"])


HOSTILE = {
    "an absolute name": [_member("/tmp/rolecraft-hostile", b"x")],
    "a name that goes up": [_member("../outside/new", b"x"), _member("a/../../outside/new", b"x")],
    "a link out, then through it": [_link("l", "../outside"), _member("l/new", b"x")],
    "an absolute link, then through it": [_link("l", "/tmp"), _member("l/rolecraft-hostile", b"x")],
    "a link to a file, then over it": [_link("l", "../outside/secret"), _member("l", b"x")],
    "two links that together lead out": [
        _link("deep", "."),
        _link("deep2", "deep/.."),
        _member("deep2/outside/new", b"x"),
    ],
    "a link up through a link": [
        _member("d/e/f", type=tarfile.DIRTYPE, mode=0o755),
        _link("d/e/top", "../../"),
        _link("out", "d/e/top/../outside"),
        _member("out/new", b"x"),
    ],
    "a hard link out": [
        _link("h", "../outside/secret", tarfile.LNKTYPE),
        _link("g", "/etc/hostname", tarfile.LNKTYPE),
    ],
    "a hard link through a link": [
        _link("l", "../outside"),
        _link("h", "l/secret", tarfile.LNKTYPE),
    ],
    "devices, pipes": [
        _member("zero", type=tarfile.CHRTYPE, devmajor=1, devminor=5),
        _member("disk", type=tarfile.BLKTYPE, devmajor=8, devminor=0),
        _member("pipe", type=tarfile.FIFOTYPE),
    ],
    "a link over the folder itself": [_link(".", "../outside"), _member("new", b"x")],
    "no name": [_member("", b"x")],
}


@pytest.mark.parametrize("members", HOSTILE.values(), ids=HOSTILE.keys())
def test_nothing_is_written_outside_and_good_members_are(
    members: list[tuple[tarfile.TarInfo, bytes]], target: Path
) -> None:
    left_out = unpack(_archive(FOLDER, *members, _member("good", b"good")), target)
    assert left_out
    _outside_is_untouched(target)
    assert not Path("/tmp/rolecraft-hostile").exists()
    assert (target / "good").read_bytes() == b"good"
    for path in target.rglob("*"):
        assert path.resolve().is_relative_to(target), path
        assert stat.S_IFMT(path.lstat().st_mode) in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)


@pytest.mark.parametrize("members", HOSTILE.values(), ids=HOSTILE.keys())
def test_with_links_out_nothing_is_written_through_them_either(
    members: list[tuple[tarfile.TarInfo, bytes]], target: Path
) -> None:
    unpack(_archive(FOLDER, *members), target, links_out=True)
    _outside_is_untouched(target)
    assert not Path("/tmp/rolecraft-hostile").exists()


def test_links_that_are_there_already_are_not_followed(target: Path) -> None:
    target.mkdir()
    (target / "l").symlink_to("../outside")
    (target / "s").symlink_to("../outside/secret")
    left_out = unpack(_archive(FOLDER, _member("l/new", b"x"), _member("s", b"x")), target)
    assert left_out == ["l/new"]
    _outside_is_untouched(target)
    assert (target / "s").read_bytes() == b"x", "the link itself is replaced"


def test_rights_that_nobody_asked_for_are_dropped(target: Path) -> None:
    members = (
        _member("f", b"x", mode=0o6777, uid=0),
        _member("d", type=tarfile.DIRTYPE, mode=0o2777),
    )
    unpack(_archive(FOLDER, *members), target)
    assert stat.S_IMODE((target / "f").stat().st_mode) == 0o755
    assert stat.S_IMODE((target / "d").stat().st_mode) == 0o755
    assert (target / "f").stat().st_uid == os.geteuid()


def test_an_archive_of_one_file_is_that_file_and_no_more(target: Path) -> None:
    assert unpack(_archive(_member("any-name", b"x")), target / "a/b") == []
    assert (target / "a/b").read_bytes() == b"x"
    with pytest.raises(SandboxError, match="another"):
        unpack(_archive(_member("one", b"1"), _member("two", b"2")), target / "c")
    with pytest.raises(SandboxError, match="another"):
        unpack(_archive(_member("one", b"1"), _link("one", "/etc")), target / "d")


def test_more_than_is_allowed_is_an_error(target: Path) -> None:
    members = [_member(name, b"x" * 600) for name in "ab"]
    with pytest.raises(SandboxError, match="larger"):
        unpack(_archive(FOLDER, *members), target, max_bytes=1000)
    unpack(_archive(FOLDER, *members), target, max_bytes=1200)
    hard = [_link(f"h{n}", "a", tarfile.LNKTYPE) for n in range(9)]
    with pytest.raises(SandboxError, match="larger"):
        unpack(_archive(FOLDER, members[0], *hard), target, max_bytes=1200)


def test_a_huge_header_is_refused_before_it_is_read(target: Path) -> None:
    def endless() -> Iterator[bytes]:
        info = tarfile.TarInfo("././@LongLink")
        info.type, info.size = tarfile.GNUTYPE_LONGNAME, 8 * 2**30
        yield info.tobuf(tarfile.GNU_FORMAT)
        for _ in range(1000):
            yield bytes(2**16)
        raise AssertionError("it reads 64 MB of a name")

    with pytest.raises(SandboxError, match="header"):
        unpack(endless(), target)


def test_what_is_no_archive_is_an_error(target: Path) -> None:
    whole = _archive(FOLDER, _member("a", b"x" * 5000))[0]
    for data in (b"x" * 5000, whole[:2000], b"", whole[: 512 + 100]):
        with pytest.raises(SandboxError, match="cannot be read"):
            unpack([data], target)


def test_memory_is_bounded_by_the_piece_not_the_file(tmp_path: Path) -> None:
    with open(tmp_path / "big", "wb") as file:
        file.truncate(300 * 2**20)
    largest, total = 0, 0
    for piece in pack(tmp_path):
        largest, total = max(largest, len(piece)), total + len(piece)
    assert largest <= 2**16
    assert 300 * 2**20 < total < 301 * 2**20


def test_a_file_that_shrinks_or_grows_meanwhile_does_not_break_the_archive(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    for name in ("a", "b"):
        (source / name).write_bytes(b"x" * 200_000)

    def changing() -> Iterator[bytes]:
        for number, piece in enumerate(pack(source)):
            if number == 2:  # in the middle of `a`
                os.truncate(source / "a", 1000)
            if number == 8:
                with open(source / "b", "ab") as file:
                    file.write(b"more" * 10_000)
            yield piece

    unpack(changing(), target)
    assert {path.name: path.stat().st_size for path in target.iterdir()} == {
        "a": 200_000,
        "b": 200_000,
    }


def test_folders_of_any_depth_are_packed_or_an_error(tmp_path: Path) -> None:
    here = os.getcwd()
    os.chdir(tmp_path)
    try:
        for _ in range(3000):
            os.mkdir("d")
            os.chdir("d")
        with pytest.raises(SandboxError, match="cannot be packed"):
            for _ in pack(tmp_path):
                pass
    finally:
        os.chdir(here)
        subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)


NAMES = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=20
).filter(lambda name: name not in (".", "..") and len(name.encode()) < 200)


@given(st.dictionaries(NAMES, st.binary(max_size=2000), max_size=5), st.integers(1, 3000))
@settings(max_examples=30, deadline=None)
def test_any_folder_comes_out_as_it_went_in(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], size: int
) -> None:
    folder = tmp_path_factory.mktemp("x")
    source, target = folder / "source", folder / "target"
    (source / "d" / ("n" * 120) / ("m" * 120)).mkdir(parents=True)
    for number, (name, content) in enumerate(files.items()):
        (source / ("d" if number % 2 else ".") / name).write_bytes(content)
    os.symlink("d", source / "link to d")
    whole = b"".join(pack(source))
    unpack((whole[at : at + size] for at in range(0, len(whole), size)), target)
    assert tree(target) == tree(source)
