"""Credit: which role, turn and token gets how much of what an episode earned.

scored = assign(episodes, algorithm, credit=credit("at_grpo"))
"""

from rolecraft.training.credit.assignment import assign
from rolecraft.training.credit.blame import Blame
from rolecraft.training.credit.counterfactual import difference_rewards, play_without
from rolecraft.training.credit.critics import RoleCritic, TeamCritic, TeamTurn
from rolecraft.training.credit.ema import CreditState, Ema
from rolecraft.training.credit.groups import GROUPS, GroupKey, Unit
from rolecraft.training.credit.scored import Scored
from rolecraft.training.credit.settings import CREDITS, Credit, credit
from rolecraft.training.credit.waste import Communication, Wasted, wasted

__all__ = [
    "CREDITS",
    "GROUPS",
    "Blame",
    "Communication",
    "Credit",
    "CreditState",
    "Ema",
    "GroupKey",
    "RoleCritic",
    "Scored",
    "TeamCritic",
    "TeamTurn",
    "Unit",
    "Wasted",
    "assign",
    "credit",
    "difference_rewards",
    "play_without",
    "wasted",
]
