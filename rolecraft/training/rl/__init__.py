"""Reinforcement learning: the loop from episodes to better weights, and what it leaves."""
