"""Each layout of training data is told by its keys, read by its own adapter, and refused by row."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecraft.errors import UsageError
from rolecraft.rollouts.batch import formats
from rolecraft.rollouts.batch.conversations import Conversation
from rolecraft.rollouts.batch.ledger import Entry
from rolecraft.rollouts.batch.samples import Sample as BatchSample
from rolecraft.training.sft.plan import BadData, check_data, layout_of
from rolecraft.training.sft.samples import BadRow, Sample, TextSample, Turn
from rolecraft.training.sft.selection import Selection


def written(path: Path, rows: list[Any]) -> Path:
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def read(row: dict[str, Any]) -> Sample:
    layout = layout_of(row)
    assert layout is not None
    sample = layout.read(row)
    return sample.as_conversation() if isinstance(sample, TextSample) else sample


def said(sample: Sample) -> list[tuple[str, str, bool]]:
    return [(turn.role, turn.content, turn.sampled) for turn in sample.turns]


ONE_TURN = [("user", "why?", False), ("assistant", "because", True)]


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("question-answer", {"data": ["问:why?", "答:because"]}),
        ("question-answer", {"data": ["问: why?", "答: because"]}),
        ("question-answer", {"data": ["Q: why?", "A: because"]}),
        ("question-answer", {"data": ["why?", "because"]}),
        ("question-answer", {"data": json.dumps(["问题:why?", "回答:because"])}),
        (
            "sharegpt",
            {
                "conversations": [
                    {"from": "human", "value": "why?"},
                    {"from": "gpt", "value": "because"},
                ]
            },
        ),
        (
            "sharegpt",
            {
                "conversation": [
                    {"role": "user", "content": "why?"},
                    {"role": "assistant", "content": "because"},
                ]
            },
        ),
        (
            "messages",
            {
                "messages": [
                    {"role": "user", "content": [{"type": "text", "text": "why?"}]},
                    {"role": "assistant", "content": "because"},
                ]
            },
        ),
        ("prompt-completion", {"prompt": "why?", "completion": "because"}),
        ("prompt-completion", {"instruction": "why?", "input": "", "output": "because"}),
        (
            "prompt-completion",
            {
                "prompt": [{"role": "user", "content": "why?"}],
                "completion": [{"role": "assistant", "content": "because"}],
            },
        ),
    ],
)
def test_one_conversation_in_every_layout(name: str, row: dict[str, Any]) -> None:
    layout = layout_of(row)
    assert layout is not None
    assert layout.name == name
    sample = read(row)
    assert said(sample) == ONE_TURN
    assert sample.key == read({"data": ["why?", "because"]}).key


def test_prefixes_of_several_turns_are_stripped_and_what_only_looks_like_one_stays() -> None:
    row = {"data": ["问:头痛怎么办?", "答:休息。注:答:不是前缀", "问:好", "答:不用谢"]}
    assert said(read(row)) == [
        ("user", "头痛怎么办?", False),
        ("assistant", "休息。注:答:不是前缀", True),
        ("user", "好", False),
        ("assistant", "不用谢", True),
    ]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"data": ["问:a", "问:b"]}, "two questions one after the other"),
        ({"data": ["答:a", "问:b"]}, "begins with an answer"),
        ({"data": ["a", 3]}, "no list of texts as `data`"),
        ({"conversations": [{"from": "dog", "value": "wow"}]}, "the speaker 'dog'"),
        ({"conversations": [{"from": "gpt"}]}, "no `value` in `conversations[0]`"),
        ({"conversations": "hello"}, "no JSON"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "'image_url'"),
        ({"messages": [{"role": "wizard", "content": ""}]}, "the role 'wizard'"),
        ({"messages": [{"role": "tool", "content": "4"}]}, "no call asked for"),
        ({"messages": ["hello"]}, "str as `messages[0]`"),
        ({"messages": [], "tools": "["}, "a text as `tools`, and that is no JSON"),
        ({"prompt": "a", "completion": 3}, "int as `completion`"),
    ],
)
def test_a_row_that_breaks_its_layout_says_where(row: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadRow) as error:
        read(row)
    assert problem in str(error.value)


def test_tools_calls_results_and_reasoning_of_messages() -> None:
    row = {
        "tools": json.dumps([{"type": "function", "function": {"name": "add", "parameters": {}}}]),
        "messages": [
            {"role": "developer", "content": "Count."},
            {"role": "user", "content": "2+2?"},
            {
                "role": "assistant",
                "content": None,
                "reasoning_content": "I add.",
                "tool_calls": [{"id": "", "function": {"name": "add", "arguments": '{"a": 2}'}}],
            },
            {"role": "tool", "content": "4", "tool_call_id": None},
            {"role": "assistant", "content": "4", "weight": 0},
        ],
    }
    sample = read(row)
    system, _, calls, result, last = sample.turns
    assert (system.role, calls.reasoning, calls.content) == ("system", "I add.", "")
    assert calls.tool_calls == [{"id": "call00000", "name": "add", "arguments": {"a": 2}}]
    assert (result.tool_call_id, result.name) == ("call00000", "add")
    assert (calls.sampled, last.sampled) == (True, False)
    assert [tool["name"] for tool in sample.tools] == ["add"]


def test_the_prompts_of_prompt_and_completion_messages_are_not_trained() -> None:
    row = {
        "prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
        "completion": [{"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}],
    }
    assert [turn.sampled for turn in read(row).turns] == [False, False, False, True]


def talk() -> Conversation:
    turns = [
        Turn("system", "You are R."),
        Turn("user", "where?"),
        Turn(
            "assistant",
            "I look.",
            reasoning="let me see",
            tool_calls=[{"id": "call_1", "name": "search", "arguments": {"q": "é </tool_call>"}}],
            sampled=True,
        ),
        Turn("tool", "there", tool_call_id="call_1", name="search"),
        Turn("assistant", "It is there.", sampled=True),
    ]
    tool = {"name": "search", "description": "Search.", "parameters": {"type": "object"}}
    return Conversation("R/1", "R", "m", turns=turns, tools=[tool])


@pytest.mark.parametrize("form", ["openai", "sharegpt"])
def test_what_a_batch_wrote_is_read_as_it_was(form: str) -> None:
    entry = Entry(row="ab" * 32, ended="finished", reward=0.5)
    whole = talk()
    (row,) = formats.rows(BatchSample(entry=entry, prompt="", conversations=[whole]), form)
    sample = read(json.loads(json.dumps(row)))
    assert list(sample.tools) == whole.tools
    for got, known in zip(sample.turns, whole.turns, strict=True):
        assert (got.role, got.content, got.reasoning) == (
            known.role,
            known.content,
            known.reasoning,
        )
        assert [(c["name"], c["arguments"]) for c in got.tool_calls] == [
            (c["name"], c["arguments"]) for c in known.tool_calls
        ]
        assert (got.tool_call_id == "") == (known.tool_call_id == "")
    assert (sample.facts.role, sample.facts.reward, sample.facts.stop) == ("R", 0.5, "finished")


def test_hermes_in_other_words_keeps_its_prompt_and_offers_tools_once() -> None:
    row = {
        "tools": json.dumps([{"name": "f"}]),
        "conversations": [
            {"from": "system", "value": "Call: <tools>[...]</tools>"},
            {"from": "human", "value": "go"},
            {"from": "gpt", "value": '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'},
            {"from": "tool", "value": "<tool_response>\n1\n</tool_response>"},
        ],
    }
    sample = read(row)
    assert sample.turns[0].content == "Call: <tools>[...]</tools>"
    assert list(sample.tools) == []
    assert [call["name"] for call in sample.turns[2].tool_calls] == ["f"]
    assert sample.turns[3].content == "1"


# --- files -------------------------------------------------------------------------------------


def test_one_file_may_mix_layouts_and_each_is_counted(tmp_path: Path) -> None:
    path = written(
        tmp_path / "mixed.jsonl",
        [{"data": ["a", "b"]}, {"prompt": "a", "completion": "b"}, {"data": ["c", "d"]}],
    )
    plan = check_data(path)
    assert plan.files[0].layouts == {"question-answer": 2, "prompt-completion": 1}
    assert (plan.samples, plan.files[0].rows, plan.needs_template) == (3, 3, True)


def test_an_unknown_layout_shows_the_columns_and_the_layouts_known(tmp_path: Path) -> None:
    path = written(tmp_path / "odd.jsonl", [{"data": ["a", "b"]}, {"chosen": "x", "rejected": "y"}])
    with pytest.raises(UsageError) as error:
        check_data(path)
    text = str(error.value)
    assert "line 2 is of no known layout: it has `chosen`, `rejected`" in text
    assert all(column in text for column in ("`conversations`", "`messages`", "`data`"))


def test_problems_are_listed_with_file_and_row_and_all_are_kept(tmp_path: Path) -> None:
    """As of the run that the command was made after: one bad row ended it hours later."""
    good = {"data": ["a", "b"]}
    one = written(tmp_path / "one.jsonl", [good, "no json", *[{"x": 1}] * 20])
    two = tmp_path / "two.json"
    two.write_text(json.dumps([good, {"messages": 3}]))
    with pytest.raises(BadData) as error:
        check_data([one, two])
    problems = error.value.problems
    assert (error.value.count, len(problems)) == (22, 22)
    assert (problems[0].place, problems[-1].place) == ("line 2", "row 2")
    assert problems[-1].file.endswith("two.json")
    assert "… and 12 more" in str(error.value)
    plan = check_data([one, two], skip_broken=True)
    assert [(file.samples, file.broken) for file in plan.files] == [(1, 21), (1, 1)]


def test_parquet_and_folders_that_datasets_saved(tmp_path: Path) -> None:
    import datasets

    rows = [{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}]
    saved = datasets.Dataset.from_list(rows)
    saved.to_parquet(str(tmp_path / "train.parquet"))
    saved.save_to_disk(str(tmp_path / "saved"))
    for path in (tmp_path / "train.parquet", tmp_path / "saved"):
        plan = check_data(path)
        (sample,) = plan.read(0)
        assert isinstance(sample, Sample)
        assert said(sample) == [("user", "a", False), ("assistant", "b", True)]


def test_a_name_on_the_hub_is_fetched_and_what_is_nothing_is_refused(tmp_path: Path) -> None:
    asked: list[str] = []
    path = written(tmp_path / "train.jsonl", [{"data": ["a", "b"]}])

    def fetch(name: str) -> Path:
        asked.append(name)
        return path.parent

    assert check_data("owner/dialogues", fetch=fetch).samples == 1
    assert asked == ["owner/dialogues"]
    for name in ("no/such/folder", "no/file.jsonl", "./folder"):
        with pytest.raises(UsageError, match=f"There is no data `{re.escape(name)}`"):
            check_data(name, fetch=fetch)


def test_a_file_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", [{"data": ["a", "b"]}])
    assert check_data([path, tmp_path, path]).samples == 1


def test_empty_samples_and_such_with_nothing_to_train_are_left_out_and_counted(
    tmp_path: Path,
) -> None:
    path = written(
        tmp_path / "a.jsonl",
        [
            {"data": ["a", "b"]},
            {"data": []},
            {"data": ["a", " "]},
            {"data": ["a"]},
            {"prompt": "a", "completion": " "},
        ],
    )
    plan = check_data(path)
    assert plan.samples == 1
    assert plan.files[0].left_out == {"empty": 2, "nothing to train": 2}


def test_a_file_without_any_sample_says_what_became_of_its_rows(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nothing to train on: there is no row in"):
        check_data(written(tmp_path / "none.jsonl", []))
    with pytest.raises(UsageError, match=r"every sample is left out: 2 \(nothing to train\)"):
        check_data(written(tmp_path / "asked.jsonl", [{"data": ["a"]}] * 2))


# --- whatever is in a row ------------------------------------------------------------------------

SCALARS = st.sampled_from(
    [
        *("user", "tool", "text", "", "问:a", "答:b", "[]", "{}", "<think>", '{"name": "f"}'),
        *("<tool_call>{}</tool_call>", "\ud83d", None, True, 0, 1.5),
    ]
)
KEYS = ["name", "arguments", "function", "id", "type", "text", "content", "thinking", "parameters"]
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
    max_leaves=8,
)
OPENAI_ROLES = st.sampled_from(["system", "user", "assistant", "assistant", "tool", "cat"])
MESSAGE = VALUES | st.fixed_dictionaries(
    {"role": OPENAI_ROLES | VALUES},
    optional=dict.fromkeys(
        ["content", "tool_calls", "function_call", "tool_call_id", "name", "reasoning_content"],
        VALUES,
    ),
)
SPEAKERS = st.sampled_from(["system", "human", "gpt", "function_call", "tool", "cat"])
SAYING = VALUES | st.fixed_dictionaries(
    {"from": SPEAKERS | VALUES, "value": VALUES}, optional={"weight": VALUES}
)
ABOUT = {"tools": VALUES, "system": VALUES, "reward": VALUES, "role": VALUES, "ended": VALUES}
ROWS = st.one_of(
    st.fixed_dictionaries({column: st.lists(each, max_size=4) | VALUES}, optional=ABOUT)
    for column, each in (("messages", MESSAGE), ("conversations", SAYING), ("data", VALUES))
) | st.fixed_dictionaries(
    {
        "prompt": VALUES | st.lists(MESSAGE, max_size=2),
        "completion": VALUES | st.lists(MESSAGE, max_size=2),
    },
    optional=ABOUT,
)


@settings(max_examples=500, deadline=None)
@given(ROWS)
def test_whatever_is_in_a_row_it_is_a_sample_or_a_problem(row: dict[str, Any]) -> None:
    layout = layout_of(row)
    if layout is None:
        return
    try:
        sample = layout.read(row)
    except BadRow:
        return
    whole = sample.as_conversation() if isinstance(sample, TextSample) else sample
    assert len(whole.key) == 64
    for turn in whole.turns:
        assert turn.role in ("system", "user", "assistant", "tool")
        texts = (turn.content, turn.reasoning, turn.tool_call_id, turn.name)
        assert all(isinstance(text, str) for text in texts)
        assert all(isinstance(call["arguments"], dict) for call in turn.tool_calls)
    Selection(role="x", min_reward=0.5).refusal(sample.facts)
