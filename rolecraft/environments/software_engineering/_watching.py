"""Run in the sandbox: a command under the library that tells how programs end.

Its argument is JSON: `token`, `library` (C) and `command`. What the command prints goes to stderr;
on stdout there is one line, the token and, as JSON, what was told, or null where nothing can be:
without a C compiler, or where what it makes cannot be loaded.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path


def _built(folder: str, source: str) -> str:
    """The library; empty if there is none that can be loaded."""
    path = str(Path(folder, "ends.so"))
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or ":" in path:
        return ""
    # `initfirst`: before the libraries of the tests, any of which may be code of a patch.
    options = ["-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", path, "-ldl", "-Wl,-z,initfirst"]
    made = subprocess.run(
        [compiler, *options], input=source, text=True, capture_output=True, check=False
    )
    if made.returncode:
        return ""
    loaded = subprocess.run(["env", f"LD_PRELOAD={path}", "true"], capture_output=True, check=False)
    return "" if loaded.returncode or loaded.stderr else path


def main() -> int:
    """The exit code of the command."""
    said = json.loads(sys.argv[1])
    token: str = said["token"]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        library = _built(folder, said["library"])
        told: list[bytes] = []
        reading, writing = os.pipe()
        variables = [
            f"LD_PRELOAD={library}",
            f"ROLECRAFT_PROGRAM_ENDS={token}:/proc/{os.getpid()}/fd/{writing}:{os.getcwd()}",
        ]
        command = [*(["env", *variables] if library else []), *said["command"]]

        def listen() -> None:
            with open(reading, "rb") as lines:
                told.extend(lines)

        listening = threading.Thread(target=listen, daemon=True)
        listening.start()
        try:
            done = subprocess.run(command, stdout=2, check=False).returncode
        except OSError as error:
            print(error, file=sys.stderr)
            done = 127
        os.close(writing)
        listening.join(10)  # a program that was left behind may still be about to write
        lines = [line.decode("utf-8", "replace") for line in [*told]]
        print(token, json.dumps(lines if library else None), flush=True)
    return done if done >= 0 else 128 - done


if __name__ == "__main__":
    sys.exit(main())
