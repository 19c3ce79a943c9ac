"""Layouts of training data: one small adapter each."""

from rolecraft.training.sft.layouts.layout import Layout
from rolecraft.training.sft.layouts.messages import MESSAGES
from rolecraft.training.sft.layouts.prompt_completion import PROMPT_COMPLETION
from rolecraft.training.sft.layouts.question_answer import QUESTION_ANSWER
from rolecraft.training.sft.layouts.sharegpt import SHAREGPT

LAYOUTS: tuple[Layout, ...] = (MESSAGES, SHAREGPT, QUESTION_ANSWER, PROMPT_COMPLETION)
"""Those of rows, in the order in which a row is tried; see `trajectories` for that of journals."""

__all__ = ["LAYOUTS", "Layout"]
