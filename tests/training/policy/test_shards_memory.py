"""What it takes to divide a model and the copy of it that a penalty keeps it near."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

# Arguments: rank, folder. Prints by how many times the weights the process has grown at most.
PROGRAM = """
import resource, sys
from pathlib import Path

import torch

from rolecraft.models.tiny import tiny_model
from rolecraft.training import Algorithm, Kl, Trainer

torch.set_num_threads(1)
rank, folder = int(sys.argv[1]), Path(sys.argv[2])
torch.distributed.init_process_group(
    "gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=2
)

def most():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

small = tiny_model("ab", hidden=16, heads=2).module
Trainer(small, Algorithm(kl=Kl(0.1)), shard=True)  # what is loaded on first use is no weights
module = tiny_model("ab", hidden=512, heads=8, layers=16).module
weights = sum(weight.nbytes for weight in module.parameters())
before = most()
Trainer(module, Algorithm(kl=Kl(0.1)), shard=True)
print((most() - before) / weights)
torch.distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_no_process_ever_has_a_reference_that_is_whole(tmp_path: Path, in_processes: Any) -> None:
    """Beside the weights there is half a copy, and a layer of sixteen on its way.

    Memory that is freed goes back at once (glibc's threshold): what it keeps is not counted.
    """
    given = [(rank, tmp_path) for rank in range(2)]
    for told in in_processes(PROGRAM, given, {"MALLOC_MMAP_THRESHOLD_": "65536"}):
        assert float(told) < 0.9, "times the weights"
