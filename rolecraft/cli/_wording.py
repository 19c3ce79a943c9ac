"""Errors of the library, in the words of a command.

The library names what a program would write (`Sampling(max_tokens=...)`); whoever types a command
needs the option. What this does not know, and what the command has no option for, stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Set

_IN_PYTHON = (
    (
        r"Give it `prices=\([^)]*\)`, or limit `tokens` or `calls` instead\.",
        "Limit it with `--tokens` or `--calls` instead.",
    ),
    (r"`Sampling\(max_tokens=\.\.\.\)` lowers", "`--max-tokens` lowers"),
    (r",? or allow more with `LiteLLMModel\(retries=\.\.\.\)`", ""),
    (r"Give `LiteLLMModel\(api_key=\.\.\.\)` or set", "Set"),
    (r"Check `api_key=` or the environment variable", "Check the environment variable"),
    (r" For a server that wants no key, give any: `api_key='none'`\.", ""),
    (r", or use another `api_key=`", ""),
    (r"`Retries\(longest_retry_after=([^)]*)\)`", r"the \1 s that this waits"),
    (r"Each attempt had `timeout=(\S+)` seconds", r"Each attempt had \1 seconds"),
    (r"smaller `window` \(`--window`\)", "smaller `--window`"),
    (
        r"once `load_modes` \(`--modes FILE`\) or `register_mode` was told",
        "once `--modes FILE` tells",
    ),
)
_WITH_OPTIONS = (
    (
        r"Give it `prices=\([^)]*\)`, or limit `tokens` or `calls` instead\.",
        "Say what it costs with `--price IN,OUT`.",
    ),
    (r"`LiteLLMModel\(retries=\.\.\.\)`", "`--retries`"),
    (r"Each attempt had `timeout=(\S+)` seconds", r"Each attempt had \1 seconds (`--timeout`)"),
    (r"Check `base_url=([^`]*)`", r"Check `--base-url \1`"),
)
"""For commands that are known to have these options, which judges are asked without."""


def in_words_of_commands(text: str, options: Set[str] | None = None) -> str:
    """`text` with options where it has ways that only a program has.

    `options` are those of the command; None: it asks a judge, and has all that are named here.
    """
    for pattern, words in (*(_WITH_OPTIONS if options is not None else ()), *_IN_PYTHON):
        if options is None or options >= {*re.findall(r"--[a-z-]+", words)}:
            text = re.sub(pattern, words, text)
    return text
