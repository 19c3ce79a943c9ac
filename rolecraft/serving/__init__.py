"""Models behind an address: an OpenAI-compatible server of a model and its role adapters."""
