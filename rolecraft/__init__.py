"""Rolecraft: teams of language-model agents that learn from their own failures."""
