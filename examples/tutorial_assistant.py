"""A tutorial: first the directory, then one action for each of its chapters, then a review.

The action list is made while it runs: the directory becomes the list, and so do the reviewer's
comments. `--out FILE` writes the document; `--language Chinese` writes it in Chinese.
"""

import json
from functools import partial
from pathlib import Path

from rolecraft import FunctionModel, Model, Team
from rolecraft.models import ModelCall
from rolecraft.roles.ready.tutorial_assistant import Language
from rolecraft.scenarios.tutorial import tutorial_team

TASKS: dict[Language, str] = {
    "English": "A short tutorial on binary search, in two chapters.",
    "Chinese": "写一篇关于二分查找的短教程，共两章。",
}


def team(model: Model | None = None, *, language: Language = "English") -> Team:
    """An author and a reviewer."""
    return Team(tutorial_team(language), model=model or FunctionModel(script, name="script"))


def chinese() -> Team:
    """The same in Chinese, for `rolecraft run examples/tutorial_assistant.py:chinese`."""
    return team(language="Chinese")


CODE = """\
```python
def find(items, wanted):
    low, high = 0, len(items)
    while low < high:
        middle = (low + high) // 2
        if items[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low
```"""
DIRECTORIES = {
    "English": {"title": "Binary search", "chapters": ["The idea", "The program"]},
    "Chinese": {"title": "二分查找", "chapters": ["思路", "程序"]},
}
CHAPTERS = {
    "The idea": "To find a name in a sorted list, look in the middle. Half of the list is then "
    "ruled out, and the other half is a sorted list again.",
    "The program": f"This is all of it:\n\n{CODE}",
    "思路": "要在有序列表中找一个名字，先看正中间：其中一半立刻被排除，另一半仍然是有序列表。",
    "程序": f"完整的程序如下：\n\n{CODE}",
}
BETTER = {
    "The program": f"{CHAPTERS['The program']}\n\n`find([2, 3, 5], 4)` gives 2: where 4 would "
    f"have to stand. Whether it stands there is for the caller to see.",
    "程序": f"{CHAPTERS['程序']}\n\n`find([2, 3, 5], 4)` 的结果是 2，也就是 4 应该在的位置。",
}


def script(call: ModelCall) -> str:
    """What an author and a reviewer could say; the reviewer misses an example at first."""
    asked = call.messages[-1].content
    language = "Chinese" if "in Chinese" in asked else "English"
    if call.role == "Reviewer":
        review = {"checked": ["both chapters, and that the program works"], "accepted": True}
        if "version before" not in asked:
            about = DIRECTORIES["Chinese" if "思路" in asked else "English"]["chapters"][1]
            comment = {"about": about, "text": "show what it gives for a value that is missing"}
            review |= {"accepted": False, "comments": [comment]}
        return json.dumps(review)
    if "Plan a tutorial" in asked:
        plan = DIRECTORIES[language]
        return json.dumps(plan | {"chapters": [{"title": title} for title in plan["chapters"]]})
    title = next(title for title in CHAPTERS if f"{title!r}, in" in asked)
    return BETTER[title] if "<chapter>" in asked else CHAPTERS[title]


if __name__ == "__main__":
    from _options import parse, parser, run_team

    arguments = parser()
    arguments.add_argument("--task", metavar="TEXT", help="what to write, for a model")
    arguments.add_argument("--language", choices=TASKS, default="English")
    arguments.add_argument("--out", type=Path, metavar="FILE", help="write the document here")
    options = parse(arguments)
    task = options.task or TASKS[options.language]
    run = run_team(partial(team, language=options.language), task, options)
    if options.out is not None and run.message is not None:
        options.out.write_text(run.message.content, encoding="utf-8")
