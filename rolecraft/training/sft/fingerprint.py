"""What a tokenizer is, as a hash: the same for tokenizers that make the same tokens."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def tokenizer_digest(tokenizer: Any) -> str:
    """SHA-256 over the vocabulary, the rules, the special tokens and the chat template.

    How a tokenizer pads and truncates is no part of it.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:  # one that is written in Python
        rules = json.dumps(sorted(tokenizer.get_vocab().items()))
    else:
        rules = backend.to_str()
        if backend.truncation is not None or backend.padding is not None:
            parts = json.loads(rules)
            parts["truncation"] = parts["padding"] = None
            rules = json.dumps(parts, ensure_ascii=False)
    about = [
        type(tokenizer).__name__,
        hashlib.sha256(rules.encode("utf-8", "surrogatepass")).hexdigest(),
        tokenizer.special_tokens_map,
        getattr(tokenizer, "chat_template", None),
    ]
    text = json.dumps(about, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
