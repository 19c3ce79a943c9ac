"""Words about a bug's symptom that name nothing of its solution."""
