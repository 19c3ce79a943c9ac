"""Supervised fine-tuning: from conversations to adapters and models."""
