"""The reasoning formats that are known, by name, and which model writes which.

One row a family, from the chat templates and the published answers of its models. A family that
writes what another one does has no row of its own: its models are in `MODELS`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rolecraft.errors import UnknownName
from rolecraft.models.reasoning.format import ReasoningFormat

_THINK = ReasoningFormat(name="think", opens=("<think>",), closes=("</think>",))
_JSON_CALL = ("<tool_call>",)
_BAR = "\uff5c"  # the wide bar of DeepSeek's and Step's markers


def _tag(name: str, tag: str, *ends_at: str) -> ReasoningFormat:
    """Reasoning between `<tag>` and `</tag>`."""
    return ReasoningFormat(name=name, opens=(f"<{tag}>",), closes=(f"</{tag}>",), ends_at=ends_at)


_ROWS = (
    # Plain tags. Whether the template opens the block is unknown without the model's name.
    _THINK,
    _tag("thinking", "thinking"),
    _tag("thought", "thought"),
    _tag("reasoning", "reasoning"),
    _tag("scratchpad", "REASONING_SCRATCHPAD"),
    # `<think>` of families, which differ in where an answer begins and in what ends a thought.
    replace(_THINK, name="qwen3", ends_at=_JSON_CALL),
    replace(_THINK, name="qwen3_thinking", ends_at=_JSON_CALL, starts_inside=True),
    replace(_THINK, name="glm45", ends_at=_JSON_CALL),
    replace(_THINK, name="glm47", ends_at=_JSON_CALL, starts_inside=True),
    replace(
        _THINK, name="deepseek_r1", ends_at=(f"<{_BAR}tool▁calls▁begin{_BAR}>",), starts_inside=True
    ),
    replace(
        _THINK,
        name="deepseek_v3",
        ends_at=(
            f"<{_BAR}tool▁calls▁begin{_BAR}>",
            f"<{_BAR}DSML{_BAR}function_calls>",
            f"<{_BAR}DSML{_BAR}tool_calls>",
        ),
    ),
    replace(
        _THINK,
        name="kimi_k2",
        ends_at=(
            "<|tool_calls_section_begin|>",
            "<|tool_call_section_begin|>",
            "<|tool_call_begin|>",
        ),
    ),
    replace(_THINK, name="minimax_m2", ends_at=("<minimax:tool_call>",), starts_inside=True),
    replace(_THINK, name="nemotron", ends_at=("<TOOLCALL>", "<tool_call>"), starts_inside=True),
    replace(_THINK, name="step3", ends_at=(f"<{_BAR}tool_calls_begin{_BAR}>",), starts_inside=True),
    replace(_THINK, name="step3p5", ends_at=_JSON_CALL, starts_inside=True),
    replace(_THINK, name="holo2", starts_inside=True),
    replace(_THINK, name="olmo3", ends_at=("<function_calls>",), starts_inside=True),
    replace(_THINK, name="hunyuan", ends_at=("<tool_calls>",)),
    # The answer has tags of its own.
    ReasoningFormat(
        name="hunyuan_a13b",
        opens=("<think>\n", "<think>"),
        closes=("\n</think>\n<answer>\n", "\n</think>", "</think>"),
        ends_at=("<tool_calls>",),
        drops=("\n<answer>\n", "<answer>\n", "<answer>", "\n</answer>", "</answer>"),
    ),
    ReasoningFormat(
        name="ernie45",
        opens=("<think>\n", "<think>"),
        closes=("\n</think>\n\n", "</think>"),
        ends_at=_JSON_CALL,
        drops=("<response>\n", "<response>", "\n</response>\n", "\n</response>", "</response>"),
        starts_inside=True,
    ),
    replace(
        _THINK,
        name="granite3_3",
        ends_at=("<|tool_call|>",),
        drops=("<response>", "</response>"),
    ),
    ReasoningFormat(
        name="cohere",
        opens=("<|START_THINKING|>",),
        closes=("<|END_THINKING|>",),
        ends_at=("<|START_ACTION|>",),
        drops=(
            "<|START_RESPONSE|>",
            "<|END_RESPONSE|>",
            "<|START_TEXT|>",
            "<|END_TEXT|>",
        ),
    ),
    # Markers of their own.
    _tag("seed_oss", "seed:think", "<seed:tool_call>"),
    ReasoningFormat(
        name="longcat",
        opens=("<longcat_think>", "<think>"),
        closes=("</longcat_think>", "</think>"),
        ends_at=("<longcat_tool_call>",),
    ),
    ReasoningFormat(name="kimi", opens=("◁think▷",), closes=("◁/think▷",)),
    ReasoningFormat(
        name="mistral",
        opens=("[THINK]", "<think>"),
        closes=("[/THINK]", "</think>"),
        ends_at=("[TOOL_CALLS]",),
        starts_inside=False,
        strays=True,
    ),
    ReasoningFormat(
        name="gemma4",
        opens=("<|channel>thought\n", "<|channel>thought"),
        closes=("<channel|>",),
        ends_at=("<|tool_call>",),
    ),
    ReasoningFormat(
        name="apertus",
        opens=("<|inner_prefix|>",),
        closes=("<|inner_suffix|>",),
        ends_at=("<|tools_prefix|>",),
    ),
    # Sentences. They count at the beginning of an answer only: further on they are prose.
    ReasoningFormat(
        name="granite",
        opens=("Here is my thought process:", "Here's my thought process:"),
        closes=("Here is my response:", "Here's my response:"),
        starts_inside=False,
        opens_again=False,
    ),
    # Harmony: the channel says what a message is. Calls of tools stay in the content as they are
    # written. `<|end|>` is no end of a `final` message: what ends that is `<|return|>`.
    ReasoningFormat(
        name="gpt_oss",
        opens=tuple(
            f"{start}<|channel|>analysis<|message|>"
            for start in ("", "<|start|>assistant", "<|start|>")
        ),
        closes=("<|end|>", "<|end|><|call|>"),
        ends_at=("<|start|>", "<|channel|>", "<|call|>", "<|return|>"),
        drops=(
            *(
                f"{start}<|channel|>{channel}<|message|>"
                for start in ("", "<|end|><|start|>assistant", "<|start|>assistant", "<|start|>")
                for channel in ("final", "final <|constrain|>json", "commentary")
            ),
            "<|return|>",
        ),
        starts_inside=False,
        repeats=False,
    ),
)

FORMATS: dict[str, ReasoningFormat] = {row.name: row for row in _ROWS}
"""Every format by its name."""

ALIASES = {
    **dict.fromkeys(
        ("deepseek_v31", "deepseek_v3_1", "deepseek_v32", "deepseek_v4"), "deepseek_v3"
    ),
    **dict.fromkeys(("nemotron_v3", "nemotron_3", "nano_v3"), "nemotron"),
    **dict.fromkeys(("minimax", "minimax_append_think"), "minimax_m2"),
    **dict.fromkeys(("hunyuan_v3", "hy_v3"), "hunyuan"),
    **dict.fromkeys(("cohere_command", "cohere_command3", "command_a"), "cohere"),
    **dict.fromkeys(("openai_gptoss", "harmony"), "gpt_oss"),
    **dict.fromkeys(("intern_s1", "interns1", "smollm3", "default"), "think"),
    **dict.fromkeys(("kimi_k25", "kimi_k2_5"), "kimi_k2"),
    "glm4_moe": "glm45",
    "qwen3_5": "qwen3_thinking",
    "kimi_vl": "kimi",
    "magistral": "mistral",
    "step3_5": "step3p5",
}
"""Names under which engines have the same formats."""

# What a model's name says, the first that fits: parts that all must be in it, in lower case with
# `-` for `_`, ` ` and `.`. Folders and organisations before it say nothing.
MODELS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("gpt_oss", ("gpt-oss",)),
    ("deepseek_r1", ("deepseek", "r1")),
    ("deepseek_r1", ("skywork", "or1")),
    ("deepseek_v3", ("deepseek",)),
    ("qwen3_thinking", ("qwen3", "thinking")),
    ("qwen3_thinking", ("qwq",)),
    ("qwen3_thinking", ("qwen3-5",)),
    ("qwen3", ("qwen3",)),
    ("glm45", ("glm-4-5",)),
    ("glm45", ("glm-4-6",)),
    ("glm47", ("glm-4-7",)),
    ("glm47", ("glm-5",)),
    ("glm45", ("glm-z1",)),
    ("kimi_k2", ("kimi-k2",)),
    ("kimi", ("kimi-vl",)),
    ("minimax_m2", ("minimax", "m2")),
    ("nemotron", ("nemotron-3",)),
    ("nemotron", ("nemotron-nano-9b-v2",)),
    ("nemotron", ("nemotron-nano-12b-v2",)),
    ("think", ("nemotron-super",)),
    ("think", ("nemotron-ultra",)),
    ("step3p5", ("step-3-5",)),
    ("step3p5", ("step3-5",)),
    ("step3", ("step3",)),
    ("step3", ("step-3",)),
    ("holo2", ("holo2",)),
    ("olmo3", ("olmo-3", "think")),
    ("hunyuan_a13b", ("hunyuan", "a13b")),
    ("hunyuan", ("hunyuan",)),
    ("ernie45", ("ernie", "thinking")),
    ("granite", ("granite-3-2",)),
    ("granite3_3", ("granite-3-3",)),
    ("cohere", ("command-a",)),
    ("seed_oss", ("seed-oss",)),
    ("longcat", ("longcat",)),
    ("mistral", ("magistral",)),
    ("mistral", ("mistral",)),
    ("mistral", ("ministral",)),
    ("gemma4", ("gemma-4",)),
    ("gemma4", ("gemma4",)),
    ("apertus", ("apertus",)),
    ("thought", ("exaone-deep",)),
    *(
        ("think", (family,))
        for family in (
            *("smollm3", "phi-4", "intern", "hermes-4", "mimo", "exaone", "ring-", "ling-"),
            *("lfm2", "falcon-h1r", "minicpm", "openthink", "k2-think", "granite-4"),
        )
    ),
)

_SEPARATORS = str.maketrans("_ .", "---")


def get_format(name: str) -> ReasoningFormat:
    """The format of that name, or of an engine's name for it: `deepseek-r1` is `deepseek_r1`.

    Raises `UnknownName`, which lists the known ones.
    """
    plain = name.lower().replace("-", "_")
    try:
        return FORMATS[ALIASES.get(plain, plain)]
    except KeyError:
        raise UnknownName("Reasoning format", name, FORMATS) from None


def format_of(model: str = "", template: str = "") -> ReasoningFormat | None:
    """The format of a model, by its name or its chat template; None where neither says.

    The name decides if it is known. A template that writes open markers of several formats has
    the one with the most of its markers in it.
    """
    name = model.replace("\\", "/").rstrip("/").rpartition("/")[2].lower().translate(_SEPARATORS)
    for known, parts in MODELS:
        if all(part in name for part in parts):
            return FORMATS[known]
    best = max(FORMATS.values(), key=lambda row: _marks(row, template))
    return best if _marks(best, template) > (0, 0) else None


def starts_in_reasoning(prompt: str, form: ReasoningFormat | str) -> bool:
    """Whether what a model writes after `prompt` begins in reasoning of a format, or of its name.

    That is what the rendered prompt says, whatever switched thinking on or off: it ends with an
    open marker, white space aside. Raises `UnknownName` for the name of no format.
    """
    form = get_format(form) if isinstance(form, str) else form
    end = prompt[-200:].rstrip()
    return end.endswith(tuple(marker.rstrip() for marker in form.opens))


def _marks(row: ReasoningFormat, template: str) -> tuple[int, int]:
    """How many of the row's markers stand in the template; none without an open one."""
    if not any(marker.strip() in template for marker in row.opens):
        return (0, 0)
    found: Iterable[str] = [
        marker
        for marker in (*row.opens, *row.closes, *row.ends_at, *row.drops)
        if marker.strip() in template
    ]
    missing = len({*row.ends_at, *row.drops} - set(found))
    return (len(set(found)), -missing)
