"""`web_research`: questions that take searching, reading and thinking; offline or on the web."""

from rolecraft.environments.web_research.another_model import JudgeIsPolicy
from rolecraft.environments.web_research.corpus import Corpus
from rolecraft.environments.web_research.documents import Document
from rolecraft.environments.web_research.environment import WebResearchEnvironment
from rolecraft.environments.web_research.fetching import PolitePages
from rolecraft.environments.web_research.frames import BadRow, FramesError, load_frames
from rolecraft.environments.web_research.grading import Check, ResearchGrader
from rolecraft.environments.web_research.judging import JudgeFailed, ResearchJudge
from rolecraft.environments.web_research.litellm_search import LiteLLMSearch
from rolecraft.environments.web_research.roles import Researcher
from rolecraft.environments.web_research.tasks import Question, ResearchTasks
from rolecraft.environments.web_research.tools import ReadPage, Search, Step, SubmitAnswer
from rolecraft.environments.web_research.web import Web, WebUnavailable

__all__ = [
    "BadRow",
    "Check",
    "Corpus",
    "Document",
    "FramesError",
    "JudgeFailed",
    "JudgeIsPolicy",
    "LiteLLMSearch",
    "PolitePages",
    "Question",
    "ReadPage",
    "ResearchGrader",
    "ResearchJudge",
    "ResearchTasks",
    "Researcher",
    "Search",
    "Step",
    "SubmitAnswer",
    "Web",
    "WebResearchEnvironment",
    "WebUnavailable",
    "load_frames",
]
