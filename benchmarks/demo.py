"""What `make demo` takes to train its team from chance to nine in ten.

    python benchmarks/demo.py             # limits to stderr, JSON to stdout
    python benchmarks/demo.py --gate      # exit status 1 if a limit is crossed

The real command, once a seed, in a folder of its own. Seconds are of the processor, in training
alone; how fast the processor is, `machine` says.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from typing import Any

from gate import Gate
from machine import machine

MOST_CPU_SECONDS = 90
LEAST_SUCCESS = 0.9


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--gate", action="store_true", help="fail if a limit is crossed")
    parser.add_argument("--seeds", type=int, default=2, help="how many, from 0 (default: 2)")
    options = parser.parse_args()
    results = [demo(seed) for seed in range(options.seeds)]
    gates = [
        gate
        for result in results
        for gate in (
            Gate(
                f"seed {result['seed']}: processor seconds of training",
                result["train_cpu_seconds"],
                MOST_CPU_SECONDS,
            ),
            Gate(
                f"seed {result['seed']}: share failed after it",
                1 - result["success_after"],
                1 - LEAST_SUCCESS,
            ),
        )
    ]
    print(*gates, sep="\n", file=sys.stderr)
    gated = [gate._asdict() for gate in gates]
    print(json.dumps({"machine": machine(), "results": results, "gates": gated}))
    return 1 if options.gate and not all(gate.ok for gate in gates) else 0


def demo(seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "rolecraft.cli", "demo", "--json", "--seed", str(seed)]
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    last: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {"seed": seed, **last}


if __name__ == "__main__":
    sys.exit(main())
