"""A run's page shows its patch as a diff and the results of its tests as lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rolecraft.trajectories import Event, Trajectory
from rolecraft.trajectories.events import Artifact
from rolecraft.viewer.changes import changes, results
from rolecraft.viewer.markup import join
from rolecraft.viewer.page import page
from rolecraft.viewer.report import trajectory_page

DIFF = """\
--- a/sums/core.py
+++ b/sums/core.py
@@ -1,3 +1,3 @@
 def mean(numbers):
-    return total(numbers) / (len(numbers) + 1)
+    return total(numbers) / len(numbers)
--- /dev/null
+++ b/sums/<new>.py
@@ -0,0 +1 @@
+-- no header
"""
RESULTS = {
    "to mend": {"passed": ["t.py::a", "t.py::b"], "failed": ["t.py::<c>"]},
    "to keep": {"passed": 4000, "failed": []},
}


def run(*events: Event) -> Trajectory:
    for number, event in enumerate(events):
        event.seq = number
    return Trajectory("run", events=list(events))


def patch(content: str, name: str = "patch.diff") -> Event:
    return Event("artifact", content=content, artifact=Artifact(name, "0" * 64))


def verified(results: Any, *, passed: bool | None = False, content: str = "") -> Event:
    data = {"target": "patch.diff", "passed": passed, "tests": results}
    return Event("verify", content=content, data=data)


def read_page(read_html: Callable[[str], Any], trajectory: Trajectory) -> Any:
    return read_html(trajectory_page(trajectory))


def classes(document: Any, name: str) -> list[str]:
    return [value for tag, key, value in document.attributes if (tag, key) == (name, "class")]


def test_a_patch_is_shown_line_by_line_with_its_size(read_html) -> None:
    document = read_page(read_html, run(patch(DIFF)))
    assert "patch.diff: 2 files, 2 lines added, 1 removed" in document.text
    assert "+    return total(numbers) / len(numbers)\n" in document.texts
    spans = classes(document, "span")
    assert (spans.count("add"), spans.count("del"), spans.count("hunk")) == (2, 1, 2)
    assert "sums/<new>.py" in document.text


def test_of_a_patch_that_changes_the_last_version_is_shown(read_html) -> None:
    document = read_page(read_html, run(patch(DIFF.replace("mean", "first")), patch(DIFF)))
    assert "def mean(numbers)" in "".join(str(each) for each in changes(run(patch(DIFF))))
    assert classes(document, "pre") == ["diff"]


def test_an_artifact_that_is_no_diff_makes_no_section(read_html) -> None:
    document = read_page(read_html, run(patch("print('hello')\n", "main.py")))
    assert "What was changed" not in document.text


def test_a_long_patch_folds_away_and_a_very_long_one_says_what_is_left_out(read_html) -> None:
    document = read_page(read_html, run(patch(DIFF + "+line\n" * 6000)))
    assert classes(document, "span").count("add") < 5000
    assert "1,010 more lines." in document.text


def test_results_of_tests_are_lists_and_failures_come_first(read_html) -> None:
    document = read_page(read_html, run(verified(RESULTS, content="timeout: too slow\nto mend: 2")))
    text = document.text
    assert text.index("to mend: 1 test failed") < text.index("to mend: 2 tests passed")
    assert "t.py::<c>" in document.texts
    assert "to keep: 4,000 tests passed" in text
    assert "to keep: 0 tests failed" not in text
    assert "timeout: too slow" in document.texts, "why it failed is said without the lists again"


def test_checks_without_lists_make_no_section(read_html) -> None:
    trajectory = run(Event("verify", content="ok", data={"target": "a", "passed": True}))
    assert "What the tests say" not in read_page(read_html, trajectory).text


ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["passed", "failed", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(ANYTHING, st.text(max_size=40))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_a_trace_holds_the_sections_are_whole_html(read_html, found, content) -> None:
    trajectory = run(verified(found, content=content), patch(f"@@ -1 +1 @@\n{content}"))
    read_html(page("title", join([*changes(trajectory), *results(trajectory)])))
