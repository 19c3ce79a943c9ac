"""MetaGPT's import paths: replace `metagpt` by `rolecraft.metagpt` in an import line.

Names only; what they mean here is written in `docs/coming-from-metagpt.md`.
"""
