"""The judge: a model that is asked about failure modes, and what it is believed.

`prompt` says what it is asked, `asking` asks it, `answers` reads what it answers, `judge` puts
the parts together.
"""

from rolecraft.failure_taxonomy.judging.asking import Asker, Conversation
from rolecraft.failure_taxonomy.judging.judge import Judge, Opinion

__all__ = ["Asker", "Conversation", "Judge", "Opinion"]
