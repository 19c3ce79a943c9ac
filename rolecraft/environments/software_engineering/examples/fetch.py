"""What the examples are made of, fetched once by pip and kept in a folder.

Names, versions and hashes are those of `packages.toml`. The folder then holds the source archives,
and a venv that has pytest and nothing else; both are only read from then on. Any number of
processes may fetch into one folder at once.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from rolecraft.environments.software_engineering.readable import make_readable
from rolecraft.errors import RolecraftError, UsageError

DATA = files("rolecraft.environments.software_engineering.examples")
UNREACHABLE = ("after connection broken by", "Max retries exceeded", "ConnectionError")
"""What pip says where it does not reach its package index."""


class PackagesUnavailable(RolecraftError):
    """The package index of pip cannot be reached, and the folder lacks `missing`."""

    def __init__(self, missing: Sequence[str], folder: Path, said: str) -> None:
        self.missing, self.folder = tuple(missing), folder
        super().__init__(
            f"The example set needs {', '.join(self.missing)}, and pip cannot reach its package "
            f"index ({said}). Fetch it once where there is a network, `python -m {__package__} "
            f"{folder}`: what lies in that folder is not asked for again."
        )


@dataclass(frozen=True, slots=True)
class Pin:
    """One package in one version, with the SHA-256 of its file."""

    name: str
    version: str
    sha256: str
    file: str = ""
    """The name of a source archive; empty for a wheel."""
    suite: tuple[str, ...] = ()
    """The tests of the package that are graded, by file or folder."""

    def __str__(self) -> str:
        return f"{self.name}=={self.version}"


@dataclass(frozen=True, slots=True)
class Fetched:
    """A folder that has everything."""

    folder: Path
    environment: Path
    """The venv with pytest."""

    def source(self, package: Pin) -> Path:
        """The source archive of a package."""
        return self.folder / package.file


@cache
def packages() -> dict[str, Pin]:
    """The packages with the planted bugs, by name."""
    return _pins("packages")


@cache
def tools() -> dict[str, Pin]:
    """What is installed to test them, by name."""
    return _pins("tools")


def default_folder() -> Path:
    """Where the examples are kept unless another folder is given: in the user's cache.

    Sandboxes that root makes are run by somebody else, who cannot look into root's home.
    """
    cache = Path("/var/cache") if os.geteuid() == 0 else Path.home() / ".cache"
    return cache / "rolecraft" / "software-engineering"


def fetch(folder: str | Path | None = None) -> Fetched:
    """Fetch what is missing in `folder`. This asks the network, and takes up to a minute.

    Raises `PackagesUnavailable` where the package index cannot be reached, `RolecraftError` if pip
    fails in another way, such as with a file whose hash is wrong.
    """
    place = Path(folder) if folder is not None else default_folder()
    place.mkdir(parents=True, exist_ok=True)
    place = place.resolve()
    fetch_archives(packages().values(), place)
    environment = place / f"venv-{sys.version_info[0]}.{sys.version_info[1]}-{_digest()}"
    if not environment.is_dir():
        _install(tools().values(), environment)
    return Fetched(place, environment)


def fetch_archives(pins: Iterable[Pin], folder: Path) -> None:
    """Fetch those of these source archives that `folder` lacks. Raises as `fetch` does."""
    missing = [pin for pin in pins if not _is_there(folder, pin)]
    if missing:
        _download(missing, folder)


def _is_there(folder: Path, pin: Pin) -> bool:
    """Whether the archive is there. Raises `UsageError` if it is another file."""
    path = folder / pin.file
    if not path.is_file():
        return False
    if hashlib.sha256(path.read_bytes()).hexdigest() != pin.sha256:
        raise UsageError(
            f"`{path}` is not the file that {pin} was published with: its hash is another. "
            f"Delete it, so that it is fetched again."
        )
    return True


def _download(pins: Sequence[Pin], folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as place:
        names = ",".join(pin.name for pin in pins)
        _pip(["download", "--no-deps", "--no-binary", names, "--dest", place], pins, folder)
        for pin in pins:
            os.replace(Path(place, pin.file), folder / pin.file)


def _install(pins: Iterable[Pin], environment: Path) -> None:
    """A venv with these wheels, made beside its place and moved there when it is whole."""
    with tempfile.TemporaryDirectory(dir=environment.parent) as place:
        made = Path(place, "venv")
        venv.create(made, symlinks=True)
        target = next(made.glob("lib/python3*/site-packages"))
        command = ["install", "--no-deps", "--only-binary", ":all:", "--target", str(target)]
        _pip(command, list(pins), environment.parent)
        make_readable(made)
        try:
            made.rename(environment)
        except OSError:
            if not environment.is_dir():  # else another process was faster
                raise


def _pip(command: Sequence[str], pins: Sequence[Pin], folder: Path) -> None:
    with tempfile.TemporaryDirectory() as place:
        wanted = Path(place, "wanted.txt")
        wanted.write_text("".join(f"{pin} --hash=sha256:{pin.sha256}\n" for pin in pins), "utf-8")
        options = ["--require-hashes", "--disable-pip-version-check", "--no-input", "--retries=2"]
        done = subprocess.run(
            [sys.executable, "-m", "pip", *command, *options, "--requirement", str(wanted)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode == 0:
        return
    said = done.stderr.strip()
    if "No module named pip" in said:
        raise UsageError(
            f"The example set is fetched by pip, which `{sys.executable}` does not have: run "
            f"`python -m ensurepip`, or put pip into your environment."
        )
    if any(sign in said for sign in UNREACHABLE):
        raise PackagesUnavailable([str(pin) for pin in pins], folder, said.splitlines()[-1])
    raise RolecraftError(f"pip could not fetch {', '.join(map(str, pins))}:\n{said[-2000:]}")


def _pins(table: str) -> dict[str, Pin]:
    rows = tomllib.loads((DATA / "packages.toml").read_text("utf-8"))[table]
    return {
        name: Pin(
            name, row["version"], row["sha256"], row.get("file", ""), tuple(row.get("suite", ()))
        )
        for name, row in rows.items()
    }


def _digest() -> str:
    """Of all wheels together: another version of one is another venv."""
    text = "\n".join(f"{pin} {pin.sha256}" for pin in tools().values())
    return hashlib.sha256(text.encode()).hexdigest()[:8]
