"""MetaGPT's import paths: replace `metagpt` by `rolecraft.metagpt` in an import line.

Re-exports only; what the names mean here is written in `docs/coming-from-metagpt.md`.
"""
