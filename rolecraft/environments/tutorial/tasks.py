"""The tasks of `tutorial`: a subject, a language, and how much there must be.

Subjects are small skills that a model knows. A quarter of them is for `test` and never for
`train`.
"""

from __future__ import annotations

import random

from rolecraft.environments.task import Split, Task
from rolecraft.roles.ready.tutorial_assistant import Language

SUBJECTS: tuple[dict[Language, str], ...] = (
    {"English": "Git for one person", "Chinese": "一个人使用 Git"},
    {"English": "regular expressions", "Chinese": "正则表达式"},
    {"English": "reading a train timetable", "Chinese": "看懂列车时刻表"},
    {"English": "the Python dictionary", "Chinese": "Python 字典"},
    {"English": "baking bread at home", "Chinese": "在家烤面包"},
    {"English": "SQL joins", "Chinese": "SQL 连接查询"},
    {"English": "how to read a weather map", "Chinese": "怎样看天气图"},
    {"English": "the command line", "Chinese": "命令行入门"},
    {"English": "binary search", "Chinese": "二分查找"},
    {"English": "repairing a bicycle tyre", "Chinese": "修补自行车轮胎"},
    {"English": "writing unit tests", "Chinese": "编写单元测试"},
    {"English": "the rules of chess", "Chinese": "国际象棋规则"},
)
REQUESTS: dict[Language, str] = {
    "English": "A tutorial on {subject}: {chapters} chapters, each of at least {words} words.",
    "Chinese": "写一篇教程：{subject}。共 {chapters} 章，每章至少 {words} 字。",
}
CHAPTERS = range(2, 6)
WORDS = 50


class TutorialTasks:
    """Draws subjects and numbers of chapters, in one language."""

    def __init__(self, language: Language = "English") -> None:
        self.language: Language = language

    def sample(self, count: int, *, seed: int = 0, split: Split = "train") -> list[Task]:
        draw = random.Random(f"tutorial/{self.language}/{split}/{seed}")
        numbers = [n for n in range(len(SUBJECTS)) if (n % 4 == 3) is (split == "test")]
        return [self._task(draw.choice(numbers), draw.choice(CHAPTERS), at) for at in range(count)]

    def _task(self, number: int, chapters: int, seed: int) -> Task:
        data = {"language": self.language, "chapters": chapters, "words": WORDS}
        prompt = REQUESTS[self.language].format(subject=SUBJECTS[number][self.language], **data)
        return Task(f"tutorial-{self.language}-{number}-{chapters}", prompt, data, seed=seed)
