"""How much memory a device has, has free, and what this process holds of it.

For processors the tightest of two answers counts: what the machine has available, and what the
control group of this process (a container, a service) may still take.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GIB = 1 << 30

_CGROUPS = Path("/sys/fs/cgroup")
_UNLIMITED = 1 << 60
"""Version 1 writes a limit near 2**63 where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMemory:
    """The memory of one device, in bytes."""

    device: str
    """As torch names it: "cpu", "cuda:0"."""
    name: str
    total: int
    free: int
    allocated: int
    """By tensors of this process; for a processor all that the process has in memory."""
    reserved: int
    """Held by this process's allocator, tensors included."""
    peak: int
    """The most that was allocated at a time so far."""

    def in_words(self) -> str:
        """One line for people, with what is counted: of a processor more than tensors."""
        if self.device == "cpu":
            held = f"{gib(self.allocated)}, program and libraries included"
        else:
            held = f"{gib(self.allocated)} in tensors, and has {gib(self.reserved)} reserved"
        return (
            f"on {self.device} ({self.name}) this process holds {held}; {gib(self.free)} of "
            f"{gib(self.total)} are free"
        )


def gib(size: float) -> str:
    """Bytes as GiB for people, or as MiB below a tenth of one: three significant digits."""
    if size < GIB / 10:
        return f"{size / (1 << 20):.3g} MiB"
    return f"{size / GIB:.3g} GiB" if size < 1000 * GIB else f"{size / GIB:.0f} GiB"


def free_memory(device: str = "cpu") -> int:
    """Bytes that a run on `device` ("cpu", "cuda", "cuda:1") can still take.

    A GPU: `torch.cuda.mem_get_info`, which other processes count in, and what the allocator of this
    process holds without using it. A processor: `MemAvailable` of `/proc/meminfo`, or less where
    the control group of the process (version 1 or 2) allows less.
    """
    kind, _, _ = device.partition(":")
    if kind == "cuda":
        from rolecraft.models.torch_extra import torch

        free, _ = torch.cuda.mem_get_info(device)
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(free + unused)
    return min([_meminfo("MemAvailable"), *_allowed_by_groups()])


def measure(devices: Any = None) -> list[DeviceMemory]:
    """The memory of each device now: all GPUs, or the processor where there is none.

    `devices` are torch's names instead. To be asked once a model is loaded, and again at the end.
    """
    from rolecraft.models.torch_extra import torch

    if devices is None:
        devices = [f"cuda:{number}" for number in range(torch.cuda.device_count())] or ["cpu"]
    return [_gpu(device) if device.startswith("cuda") else _processor() for device in devices]


def _gpu(device: str) -> DeviceMemory:
    from rolecraft.models.torch_extra import torch

    free, total = torch.cuda.mem_get_info(device)
    return DeviceMemory(
        device=device,
        name=torch.cuda.get_device_name(device),
        total=total,
        free=free,
        allocated=torch.cuda.memory_allocated(device),
        reserved=torch.cuda.memory_reserved(device),
        peak=torch.cuda.max_memory_allocated(device),
    )


def _processor() -> DeviceMemory:
    resident = process_memory("VmRSS")
    return DeviceMemory(
        device="cpu",
        name="processor",
        total=min([_meminfo("MemTotal"), *(limit for limit, _ in _groups())]),
        free=free_memory("cpu"),
        allocated=resident,
        reserved=resident,
        peak=process_memory("VmHWM"),
    )


def process_memory(field: str = "VmRSS") -> int:
    """A size out of `/proc/self/status` (proc(5)) in bytes: `VmRSS` now, `VmHWM` the peak."""
    return _kibibytes(Path("/proc/self/status"), field)


def _meminfo(field: str) -> int:
    return _kibibytes(Path("/proc/meminfo"), field)


def _kibibytes(path: Path, field: str) -> int:
    for line in path.read_text("utf-8").splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    raise OSError(f"`{path}` has no line {field!r}")


def _allowed_by_groups() -> list[int]:
    return [max(0, limit - used) for limit, used in _groups()]


def _groups(root: Path = _CGROUPS, own: Path = Path("/proc/self/cgroup")) -> list[tuple[int, int]]:
    """Limit and use, in bytes, of the groups around this process that limit memory.

    https://docs.kernel.org/admin-guide/cgroup-v2.html and cgroup-v1/memory.html. Cached pages of
    files that nobody has touched lately (`inactive_file`) are given back when memory is wanted, so
    they do not count as used.
    """
    found = []
    for folder, limit_file, use_file, total in _folders(root, own):
        try:
            limit = (folder / limit_file).read_text().strip()
            if limit == "max" or int(limit) >= _UNLIMITED:
                continue
            stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
            used = int((folder / use_file).read_text()) - int(stat.get(total, 0))
            found.append((int(limit), max(0, used)))
        except (OSError, ValueError):
            continue  # the group at the root has no such files
    return found


def _folders(root: Path, own: Path) -> Iterator[tuple[Path, str, str, str]]:
    """The group of this process and those above it, with what its version calls the files."""
    try:
        lines = own.read_text("utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            top, names = root, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            top = root / "memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        folder = top / path.lstrip("/")
        for each in (folder, *folder.parents):
            if each.is_relative_to(top):
                yield (each, *names)
