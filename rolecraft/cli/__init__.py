"""The `rolecraft` command."""
