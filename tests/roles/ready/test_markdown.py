"""What a program must know of Markdown to put documents together and to measure them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft.roles.ready import markdown

PAGE = """\
before
# One
text
```python
# no heading
[no link](#nowhere)
```
## Two, three
[one](#one) and `[code](#nowhere)`
"""


def test_headings_in_code_are_no_headings() -> None:
    assert [(s.level, s.title) for s in markdown.sections(PAGE)] == [(1, "One"), (2, "Two, three")]
    assert markdown.sections(PAGE)[0].text.startswith("text\n```python")


def test_only_links_that_lead_to_no_heading_are_broken() -> None:
    assert markdown.broken_links(PAGE) == []
    assert markdown.broken_links("# One\n[a](#one) [b](#two) [c](other.md#two)") == ["two"]


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("1. Clouds & rain", "1-clouds--rain"),
        ("What's `new`?", "whats-new"),
        ("1. 云和雨：开始", "1-云和雨开始"),
        ("snake_case - dash", "snake_case---dash"),
    ],
)
def test_anchors_are_those_of_github(heading: str, anchor: str) -> None:
    assert markdown.anchor(heading) == anchor


def test_the_second_of_two_equal_headings_has_an_anchor_of_its_own() -> None:
    assert markdown.anchors("# A\n# A\n# A") == {"a", "a-1", "a-2"}


@pytest.mark.parametrize("own", ["# Rain", "## 2. Rain", "### Chapter 2: Rain", "#### 第2章 Rain"])
def test_a_part_loses_its_own_heading_and_its_sections_go_below(own: str) -> None:
    part = f"{own}\n\nIt rains.\n\n# Drops\n\n```sh\n# a comment\n```\n\n## Big"
    assert markdown.nested(part, below=2, title="Rain") == (
        "It rains.\n\n### Drops\n\n```sh\n# a comment\n```\n\n#### Big"
    )


def test_a_part_whose_headings_are_deep_already_is_raised() -> None:
    assert markdown.nested("#### Drops\n\n##### Big", below=2) == "### Drops\n\n#### Big"


def test_levels_end_at_six() -> None:
    assert markdown.nested("# A\n\n###### B", below=5) == "###### A\n\n###### B"


@pytest.mark.parametrize("fence", ["```", "~~~", "`````"])
def test_a_fence_that_is_left_open_is_closed(fence: str) -> None:
    part = markdown.nested(f"Look:\n{fence}python\nprint(1)", below=2)
    assert part == f"Look:\n{fence}python\nprint(1)\n{fence}"
    assert markdown.closed(part) == part


def test_a_longer_fence_is_not_closed_by_a_shorter_one() -> None:
    text = "````\n```\n# code\n```\n````\n# heading"
    assert [section.title for section in markdown.sections(text)] == ["heading"]


def test_prose_is_what_is_left_without_code_and_marks() -> None:
    assert markdown.prose("# A `b` c\n```\nx\n```\nd") == "A  c\nd"


TEXT = st.text(st.sampled_from("#`~ ab\n[]()-1."), max_size=60)


@given(TEXT)
def test_whatever_a_part_holds_what_follows_it_stays_a_heading(part: str) -> None:
    document = markdown.nested(part, below=2, title="a") + "\n\n## after"
    assert markdown.sections(document)[-1].title == "after"
    assert all(section.level > 2 for section in markdown.sections(document)[:-1])
