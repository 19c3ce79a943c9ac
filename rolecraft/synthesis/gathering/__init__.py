"""From valid candidates to tasks: rows, patches, a git history, a scenario."""
