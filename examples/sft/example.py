"""Fine-tune a model, kill it, go on, learn more, merge, serve and ask: with the commands you'd use.

    python examples/sft/example.py

The data are invented dialogues about a small town's library, in the two layouts that data sets
mostly have. The base model is made on the spot: 100,000 parameters, which know nothing. In two
minutes on a CPU it has the dialogues by heart; a larger model is trained by the same commands.

`--out DIR` is where all goes (`sft-example`), each command's output among it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

HERE = Path(__file__).resolve().parent
LIBRARY, QUESTIONS, SUMMER = (HERE / f"{name}.jsonl" for name in ("library", "questions", "summer"))
MADE = ("base", "tuned", "unharmed", "summer", "merged")
"""Folders in `--out`; those of an earlier run are replaced."""
# Few samples, many passes and a high rate: to learn by heart. Real data wants the defaults.
BY_HEART = shlex.split(
    "--rate 3e-3 --dropout 0 --batch 13 --accumulate 1 --eval-share 0 --save-steps 30 "
    "--no-gradient-checkpointing --threads 1"
)
KILLED_AT = 50
"""Step: 20 after the last checkpoint."""
PATIENCE = 600
"""Seconds to wait for something that takes a few."""
ASKED = [
    ("How many books may I borrow?", "Twelve at a time."),
    ("地图在哪里?", "在二楼,楼梯旁边。"),
    ("Is the library open in August?", "Only in the mornings, from nine to twelve."),
    ("八月开门吗?", "只在上午,九点到十二点。"),
]
"""Of each data file that was trained on, and what it says there."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("sft-example"), metavar="DIR")
    out = parser.parse_args().out
    for name in MADE:
        shutil.rmtree(out / name, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)

    say("1. A base model: a small transformer with random weights, and a tokenizer for any text.")
    make_base(out / "base")

    say(
        f"2. It learns {LIBRARY.name}, which is in ShareGPT's layout, and {QUESTIONS.name}, which "
        f"is lists of questions and answers. Two runs do the same; one is killed with -9."
    )
    learn = ["sft", "--model", out / "base", "--data", LIBRARY, "--data", QUESTIONS]
    learn += ["--epochs", 60, *BY_HEART]
    with started(out / "unharmed.log", *learn, "--out", out / "unharmed") as unharmed:
        with started(out / "killed.log", *learn, "--out", out / "tuned") as victim:
            wait_for_step(out / "tuned", KILLED_AT, victim, out / "killed.log")
            victim.kill()
            victim.wait()
        say(f"   Killed after step {len(curve(out / 'tuned'))}. It goes on from its checkpoint:")
        run(out / "resumed.log", "sft", "--out", out / "tuned", "--resume")
        finish(unharmed, out / "unharmed.log")

    losses, others = curve(out / "tuned"), curve(out / "unharmed")
    check(losses == others, "The loss curves of the two runs differ.")
    adapters = [out / name / "adapter_model.safetensors" for name in ("tuned", "unharmed")]
    check(adapters[0].read_bytes() == adapters[1].read_bytes(), "The two adapters differ.")
    say(
        f"   The loss fell from {losses[0]['loss']:.2f} to {losses[-1]['loss']:.3f} in "
        f"{len(losses)} steps. The run that was killed has the same loss, gradient norm and rate "
        f"at every step as the one that was not, and the same adapter, byte for byte."
    )

    say(
        f"3. The adapter learns more: {SUMMER.name}, where both layouts are in one file, and the "
        f"old data again, so that nothing is forgotten."
    )
    more = [part for file in (SUMMER, LIBRARY, QUESTIONS) for part in ("--data", file)]
    go_on = ["--model", out / "base", "--adapter", out / "tuned", *more, "--out", out / "summer"]
    run(out / "summer.log", "sft", *go_on, "--epochs", 40, *BY_HEART)

    say("4. Adapter and base become one model.")
    run(out / "merge.log", "merge", out / "summer", "--out", out / "merged")

    say("5. It is served, and asked with OpenAI's client.")
    for (question, expected), answer in zip(ASKED, ask(out), strict=True):
        say(f"   {question}  {answer}")
        check(answer == expected, f"That was to be: {expected}")
    say(f"\nAll is in `{out}`: {out / 'summer' / 'curve.png'} is the learning curve.")


def make_base(folder: Path) -> None:
    """A model in Llama's architecture that says anything. Yours comes from a hub."""
    from rolecraft.models.tiny_chat import tiny_chat_model
    from rolecraft.models.torch_extra import no_progress_bars

    with no_progress_bars():
        tiny_chat_model(context=512, for_adapters=True).save(folder)


def curve(folder: Path) -> list[dict[str, float]]:
    """What was measured at each step of a run, but for what the clock said."""
    from rolecraft.training.sft.log import TIMES, read_log

    lines = [line.record() for line in read_log(folder)]
    return [{name: line[name] for name in line if name not in TIMES} for line in lines]


def wait_for_step(folder: Path, step: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Until a run has logged `step`."""
    until = time.monotonic() + PATIENCE
    while not (folder / "log.jsonl").exists() or len(curve(folder)) < step:
        if process.poll() is not None or time.monotonic() > until:
            fail(f"It did not get as far as step {step}", log)
        time.sleep(0.02)


def ask(out: Path) -> list[str]:
    """The answers of the merged model, through a server that wants a key."""
    from openai import OpenAI

    key = secrets.token_urlsafe()
    (out / "key").write_text(key, "utf-8")
    (out / "key").chmod(0o600)
    serve = ["serve", out / "merged", "--engine", "transformers", "--port", 0]
    log = out / "serve.log"
    with started(log, *serve, "--api-key-file", out / "key") as server:
        url = None
        until = time.monotonic() + PATIENCE
        while url is None:
            if server.poll() is not None or time.monotonic() > until:
                fail("The server did not start", log)
            time.sleep(0.05)
            url = re.search(r"^Serving .*(http://\S+)\n", log.read_text("utf-8"), re.MULTILINE)
        with OpenAI(base_url=url[1], api_key=key) as client:
            answers = [
                client.chat.completions.create(
                    model="merged",
                    messages=[{"role": "user", "content": question}],
                    temperature=0,
                    max_tokens=100,
                )
                for question, _ in ASKED
            ]
        server.terminate()
        finish(server, log)
    return [answer.choices[0].message.content or "" for answer in answers]


# --- commands as a user would type them -----------------------------------------------------------


@contextlib.contextmanager
def started(log: Path, *words: object) -> Iterator[subprocess.Popen[bytes]]:
    """`rolecraft WORDS`, its output in `log`; it has ended when the block has."""
    shown = shlex.join(["rolecraft", *(_short(word) for word in words)])
    say(f"   $ {shown}")
    command: Sequence[str] = [sys.executable, "-m", "rolecraft.cli", *map(str, words)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def run(log: Path, *words: object) -> None:
    with started(log, *words) as process:
        finish(process, log)


def finish(process: subprocess.Popen[bytes], log: Path) -> None:
    if process.wait(PATIENCE):
        fail(f"It ended with status {process.returncode}", log)


def _short(word: object) -> str:
    """As one would type it here."""
    inside = isinstance(word, Path) and word.is_absolute() and word.is_relative_to(Path.cwd())
    return os.path.relpath(str(word)) if inside else str(word)


def check(right: bool, otherwise: str) -> None:
    if not right:
        sys.exit(f"error: {otherwise}")


def fail(what: str, log: Path) -> NoReturn:
    sys.exit(f"error: {what}. `{log}` ends:\n{log.read_text('utf-8', 'replace')[-2000:]}")


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
