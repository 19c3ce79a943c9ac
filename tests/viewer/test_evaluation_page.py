"""The page of an evaluation: a point has its interval, and what is not known is said to be so."""

from __future__ import annotations

import dataclasses
import re

from rolecraft.experiments.evaluation import Measured
from rolecraft.experiments.intervals import Mean, mean_of
from rolecraft.viewer.evaluation import evaluation_page, whiskers


def measured(name: str, success: Mean) -> Measured:
    values = {
        field.name: None for field in dataclasses.fields(Measured) if field.name != "form"
    } | {"name": name, "success": success, "form": "team"}
    return Measured(**values)  # type: ignore[arg-type]


def test_each_point_has_its_interval_and_its_number_of_tasks() -> None:
    drawn = whiskers([measured("<me>", mean_of([1.0] * 5 + [0.0] * 5))], binary=True)
    assert drawn.count("<circle") == drawn.count('class="line strong c0"') == 1
    assert "50.0%, n = 10" in drawn
    assert "&lt;me&gt;: 50.0%, 95 % from 23.7% to 76.3%; 10 tasks" in drawn


def test_what_has_no_interval_and_what_has_no_run_say_so() -> None:
    rows = [measured("few rewards", mean_of([2.0, 4.0])), measured("none", mean_of([]))]
    drawn = whiskers(rows, binary=False)
    assert "3, no interval, n = 2" in drawn
    assert "nothing known" in drawn
    assert drawn.count("<circle") == 1
    assert "no run came to its end" in whiskers(rows[1:], binary=True)


async def test_on_the_page_code_is_code_every_column_has_a_heading_and_what_broke_off_is_there(
    tmp_path, read_html
) -> None:
    """Two agents that succeed alike, and a third whose reward knows no signal of the name."""
    from rolecraft import FunctionModel, Task
    from rolecraft.experiments import Setting, evaluate
    from rolecraft.rewards import reward
    from rolecraft.sandboxes import Execution, FunctionSandbox
    from rolecraft.scenarios.maths_chat import chat

    class Sums:
        def sample(self, count, *, seed=0, split="train"):
            first = 0 if split == "test" else 50
            return [Task(f"{split}-{n}", f"{first + n}?", {"answer": "1"}) for n in range(count)]

    box = FunctionSandbox(lambda call: Execution(exit_code=0))
    scenario = dataclasses.replace(chat(sandbox=box), name="solo", tasks=Sums())
    models = {name: FunctionModel(lambda call: r"\boxed{1}", name=name) for name in "ab"}
    found = await evaluate(
        scenario, models=models, tasks=2, folder=tmp_path / "a", setting=Setting(attempts=3),
        ks=[1, 2, 3],
    )  # fmt: skip
    html = evaluation_page(found)
    document = read_html(html)
    assert "<code>test</code>" in html
    assert "`" not in document.text
    assert re.search(r"How runs ended.*<th>who</th><th[^>]*>(idle|finished)</th>", html)
    assert html.count("<polyline") == 2
    assert len(set(re.findall(r'<polyline[^>]*class="line (c\d)', html))) == 2

    @reward
    def missing(signals):
        return signals["no.such"]

    environment = scenario.environment

    def unmeasured(*args, **options):
        made = environment(*args, **options)
        del made.about["outcome"]
        return made

    broken = dataclasses.replace(scenario, reward=missing, environment=unmeasured)
    found = await evaluate(broken, models=models["a"], tasks=2, folder=tmp_path / "b")
    page = evaluation_page(found)
    assert "Runs that broke off" in page
    assert "2 runs broke off, such as <code>" in page
    assert re.search(r"test_evaluation_page\.py:\d+ in missing", page)
