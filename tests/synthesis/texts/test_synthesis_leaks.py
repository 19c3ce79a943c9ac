"""The leak check: planted leaks are found, and words that anybody may write are not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rolecraft.synthesis.texts.leak_check import distinctive, find_leaks
from rolecraft.synthesis.texts.solution import Changed, Solution

LEXER = Solution(
    changed=(Changed("src/tinysql/lexer.py", ("Lexer", "get_tokens")),),
    removed=(
        "        if consumed >= self.limit_chars:",
        '            raise ValueError("too long: " + text)',
        "        position = match.end() + 1",
    ),
    added=("        if consumed > self.limit_chars:", "        position = match.end()"),
    rare=frozenset({"limit_chars", "consumed"}),
    modifiers=("comparison-boundary",),
    tests=(
        "tests/test_scanning.py::TestScanner::test_long_input[a-1]",
        "tests/test_scanning.py::test_end",
    ),
    package="tinysql",
)
"""A method with a name that no prose has."""
WORDS = Solution(
    changed=(
        Changed("tinysql/statements.py", ("split",)),
        Changed("tinysql/statements.py", ("Token", "match")),
        Changed("tinysql/statements.py", ("Token", "__len__")),
    ),
    removed=("    return [part for part in found if part]",),
    added=("    return [part for part in found]",),
    rare=frozenset({"tmp", "leftovers"}),
    modifiers=("dropped-guard",),
    tests=("tests/test_statements.py::test_split",),
    package="tinysql",
)
"""Functions and a class that are named like words."""


def _changed(old: str, new: str, entity: str = "check") -> Solution:
    """One line of a function that is named like a word."""
    return Solution(
        changed=(Changed("pkg/names.py", (entity,)),),
        removed=(old,),
        added=(new,),
        rare=frozenset(),
        modifiers=("x",),
        tests=("tests/test_names.py::test_check", "area"),
        package="pkg",
    )


BOUNDARY = _changed("    if len(text) > most:", "    if len(text) >= most:")
LENGTH = _changed("    return text[:length]", "    return text[: length - 1]")
DIVISION = _changed("    half = size // parts", "    half = size / parts")
BOTH = _changed("    if found and wanted:", "    if found or wanted:")
NEGATED = _changed("    if not found:", "    if found:")
VARIABLE = _changed("    return text[start:]", "    return text[end:]")
CONSTANT = _changed("    sort(found, reverse=True)", "    sort(found, reverse=False)")
MAIN = _changed("    return 1", "    return 0", "main")

PLANTED = [
    (LEXER, "entity", "The method get_tokens drops the last word."),
    (LEXER, "entity", "Calling `get_tokens` drops the last word."),
    (LEXER, "entity", "It seems that the get tokens method drops the last word."),
    (LEXER, "entity", "It seems that getTokens drops the last word."),
    (LEXER, "entity", "```python\nfrom tinysql import x\nx.get_tokens('a')\n```"),
    (LEXER, "entity", "I think that _get_tokens_ is wrong."),
    (LEXER, "entity", "The Lexer class drops the last word."),
    (LEXER, "entity", "I made a Lexer and it drops the last word."),
    (LEXER, "entity", "With `Lexer` the last word is lost."),
    (LEXER, "entity", "```\nLexer().run('a b')\n```"),
    (LEXER, "entity", "AttributeError: 'A' object has no attribute '_Lexer__state'"),
    (LEXER, "file", "The fault is in lexer.py, I think."),
    (LEXER, "file", "The fault is in src/tinysql/lexer.py."),
    (LEXER, "file", "See `tinysql.lexer` for it."),
    (LEXER, "file", "```python\nfrom tinysql import sql, lexer\n```"),
    (LEXER, "file", "```python\nfrom tinysql.lexer import tokenize\n```"),
    (LEXER, "file", "```python\nlexer.tokenize('a')\n```"),
    (LEXER, "file", "Something in the lexer module is wrong."),
    (LEXER, "file", "Something in tinysql/lexer is wrong."),
    (LEXER, "name", "It has to do with limit_chars."),
    (LEXER, "name", "Setting `consumed` to 0 helps."),
    (LEXER, "patch", "It should say `if consumed >= self.limit_chars:` there."),
    (LEXER, "patch", "`position = match.end() + 1` would be right."),
    (LEXER, "patch", "```\nposition   =   match.end()\n```"),
    (LEXER, "bug-type", "This looks like an off-by-one."),
    (LEXER, "bug-type", "The comparison operator was swapped, I suppose."),
    (LEXER, "bug-type", "A comparison boundary is off."),
    (LEXER, "bug-type", "A bug was introduced in the last release."),
    (LEXER, "bug-type", "Somebody planted a bug."),
    (LEXER, "bug-type", "This mutation makes words disappear."),
    (LEXER, "bug-type", "The condition seems to be inverted."),
    (LEXER, "bug-type", "There is a missing await."),
    (LEXER, "bug-type", "Perhaps a mutable default."),
    (LEXER, "bug-type", "It is a problem of operator precedence."),
    (LEXER, "test", "test_long_input fails."),
    (LEXER, "test", "See tests/test_scanning.py for an example."),
    (LEXER, "test", "TestScanner fails."),
    (LEXER, "traceback", 'File "a/b.py", line 12, in run'),
    (LEXER, "traceback", "tinysql/engine.py:44: ValueError"),
    (WORDS, "entity", "split(sql) gives an empty statement."),
    (WORDS, "entity", "The split function gives an empty statement."),
    (WORDS, "entity", "tinysql.split gives an empty statement."),
    (WORDS, "entity", "`split` gives an empty statement."),
    (WORDS, "entity", "```python\nimport tinysql\ntinysql.split('a')\n```"),
    (WORDS, "entity", "Each Token is empty."),
    (WORDS, "entity", "The method match is wrong."),
    (WORDS, "entity", "It is `__len__` that fails."),
    (WORDS, "name", "`leftovers` is empty."),
    (WORDS, "bug-type", "It is a dropped guard."),
    (WORDS, "patch", "It should be `return [part for part in found if part]`."),
    # what was exchanged for what
    (BOUNDARY, "patch", "Fix: change `>=` to `>`."),
    (BOUNDARY, "patch", "Fix: change >= to >."),
    (BOUNDARY, "patch", "It should be `> most` and not `>= most`."),
    (BOUNDARY, "patch", "It should be > most."),
    (BOUNDARY, "patch", "Somebody wrote >= where > is right."),
    (BOUNDARY, "patch", "I suspect `>=`."),
    (BOUNDARY, "patch", 'I suspect ">=".'),
    (BOUNDARY, "patch", "The comparison `len(text) >= most` is wrong."),
    (BOUNDARY, "patch", "I think that it uses greater-or-equal."),
    (BOUNDARY, "patch", "```diff\n- > most\n```\nIt is `most > x`."),
    (LENGTH, "patch", "Perhaps it takes `length - 1`."),
    (LENGTH, "patch", "It should be length and not length - 1."),
    (LENGTH, "patch", "Somewhere there is a `- 1` too much."),
    (DIVISION, "patch", "It is `/` and not `//`, I guess."),
    (DIVISION, "patch", "`//` was there before."),
    (DIVISION, "patch", "It uses / instead of //."),
    (BOTH, "patch", "It should be `and`."),
    (BOTH, "patch", "Replace or with and."),
    (BOTH, "patch", "There is an or instead of an and."),
    (NEGATED, "patch", "A `not` is gone."),
    (NEGATED, "patch", "It was `not found` before."),
    (VARIABLE, "patch", "It takes `end` instead of `start`."),
    (VARIABLE, "patch", "The start should be the end."),
    (VARIABLE, "patch", "Change end to start."),
    (CONSTANT, "patch", "Changing False to True helps."),
    # a word that stands for the code
    (BOUNDARY, "entity", "Use `getattr(pkg, 'check')(b'x')`."),
    (BOUNDARY, "entity", "```python\ngetattr(pkg, 'check')(b'x')\n```"),
    (BOUNDARY, "entity", "```python\nmock.patch('pkg.check')\n```"),
    (BOUNDARY, "entity", "```\nAttributeError: 'check' object has no attribute 'x'\n```"),
    (BOUNDARY, "entity", "Look at **check**."),
    (BOUNDARY, "entity", "Look at *check* in *names*."),
    (BOUNDARY, "entity", "Look at _check_."),
    (BOUNDARY, "entity", "Look at <code>check</code>."),
    (BOUNDARY, "entity", 'Look at "check".'),
    (BOUNDARY, "entity", "Look at “check”."),
    (BOUNDARY, "entity", "Look at 'check'."),
    (BOUNDARY, "entity", "The bug is in the function that looks at names: check."),
    (MAIN, "entity", "The function main returns 0."),
    (MAIN, "entity", "`main()` returns 0."),
    (MAIN, "entity", "```python\nmain([])\n```"),
    (BOUNDARY, "test", "tests.test_names fails."),
    (BOUNDARY, "test", "test_names fails."),
    (BOUNDARY, "test", "```\nfrom tests.test_names import x\n```"),
]


@pytest.mark.parametrize(("solution", "kind", "text"), PLANTED)
def test_a_planted_leak_is_found(solution, kind, text):
    assert kind in {leak.kind for leak in find_leaks(text, solution)}


CLEAN = [
    (LEXER, "The last word of a long text is lost. I expect two words and get one."),
    (LEXER, "A text at the limit is refused with `ValueError: too long: abc`."),
    (LEXER, "```python\nimport tinysql\ntinysql.parse('select 1')[0].tokens\n```"),
    (LEXER, "It raises a ValueError. The limit should be included."),
    (LEXER, "I get tokens that are too short, and consumed a lot of memory."),
    (LEXER, "```python\nposition = 3\ntext[position:]\n```"),
    (WORDS, "Splitting a script gives an empty statement: I want to split it in two."),
    (WORDS, "A match of both sides is expected, whatever the token is."),
    (WORDS, "```python\ntinysql.parse('split match token')\n```"),
    (WORDS, "Statements are lost. The script has two statements."),
    (WORDS, "```python\nsql = 'select 1'\nsql.upper()\n```"),
    (WORDS, "Token by token this goes wrong."),
    (WORDS, "The wrong result comes back, and an argument is missing in the message."),
    (WORDS, "`tmp` is what I called it."),
    (WORDS, "The query's operators are kept, and it isn't what it's said to be."),
    (WORDS, "```python\ntinysql.parse('a', kind='splitting')\n```"),
    (BOUNDARY, "The check of a name fails, and each check should be quick."),
    (BOUNDARY, "The result should be 3, since 3 > 2."),
    (BOUNDARY, "```python\nfunc('abc')\nassert length >= 3 and length > 2\n```"),
    (BOUNDARY, "With the values put in, it reads `4 >= 5`."),
    (BOUNDARY, "> most people say so\n\nIt should be longer. -> This is what I get."),
    (BOUNDARY, "The result should be greater than or equal to 3."),
    (LENGTH, "I get `-1`, and it should be 1 - a value that is not negative."),
    (LENGTH, "- 1 comes first\n- the length should be 3"),
    (DIVISION, "See https://example.org//x, and/or use 3 / 4 instead."),
    (BOTH, "This and that should be found, or one of them."),
    (BOTH, "This is not found, and it should be found or wanted."),
    (NEGATED, "It is not found, and should be."),
    (NEGATED, 'The message should be "not found".'),
    (VARIABLE, "From the start to the end of the text it should be the same."),
    (VARIABLE, "The end is missing instead."),
    (CONSTANT, "I get `False` instead of `True`."),
    (CONSTANT, "The result is False where it should be True."),
    (MAIN, "The main problem: in main I get 0 instead of 1. Mainly that."),
    (MAIN, "In my tests the area is wrong."),
]


@pytest.mark.parametrize(("solution", "text"), CLEAN)
def test_what_anybody_may_write_is_no_leak(solution, text):
    assert find_leaks(text, solution) == ()


def test_the_name_of_the_whole_package_is_no_leak_of_a_file_in_it():
    inside = Solution(
        changed=(Changed("tinysql/__init__.py", ("render",)),),
        removed=(),
        added=(),
        rare=frozenset(),
        modifiers=("x",),
        tests=(),
        package="tinysql",
    )
    assert find_leaks("```python\nimport tinysql\ntinysql.parse('a')\n```", inside) == ()
    assert [leak.kind for leak in find_leaks("See `__init__.py`.", inside)] == ["file"]


def test_a_leak_says_the_words_of_the_text():
    (leak,) = find_leaks("The get_tokens of old.", LEXER)
    assert str(leak) == "entity: 'get_tokens'"


def test_a_name_is_distinctive_if_no_prose_has_it():
    assert all(map(distinctive, ("get_tokens", "TokenList", "utf8", "__len__", "_a_b")))
    assert not any(map(distinctive, ("split", "Token", "_groups", "is")))


def test_attributes_of_a_variable_that_is_named_like_the_module_are_no_leak():
    in_version = Solution(
        changed=(Changed("semver/version.py", ("Version", "bump")),),
        removed=(),
        added=(),
        rare=frozenset(),
        modifiers=("x",),
        tests=(),
        package="semver",
        defined={"semver/version.py": frozenset({"Version", "BASE"})},
    )
    assert find_leaks("```python\nversion.major\nversion.attribute\n```", in_version) == ()
    for text in ("version.BASE", "from semver import version", "semver.version.x"):
        assert [each.kind for each in find_leaks(f"```\n{text}\n```", in_version)] == ["file"]


def test_a_builtin_exception_that_only_the_bug_raises_may_be_said(phrases):
    from rolecraft.synthesis.candidates import Candidate, Edit
    from rolecraft.synthesis.texts.solution import Sources

    path, old = "phrases/words.py", "raise ValueError("
    start = phrases.read(path).index(old)
    edits = (Edit(path, start, start + len(old), "raise KeyError("),)
    bug = Candidate(id="a", modifier="x", entity=f"{path}::shorten", edits=edits, key="a")
    rare = Sources(phrases.plan.project, phrases.read).solution(bug, ()).rare
    assert "KeyError" not in rare


def test_the_kinds_of_bugs_that_were_combined_are_leaks(phrases):
    from rolecraft.synthesis.texts.solution import Sources

    bug, _ = phrases.plant("inner value")
    parents = {"modifiers": ["wrong-key", "break-chains"]}
    both = replace(bug, modifier="combine", about=parents)
    sources = Sources(phrases.plan.project, phrases.read)
    text = "One seems to break chains, so they combine badly."
    (leak,) = find_leaks(text, sources.solution(both, ()))
    assert str(leak) == "bug-type: 'break chains'"
    assert find_leaks(text, sources.solution(bug, ())) == ()


def test_a_form_feed_ends_no_line_of_a_solution(phrases):
    """Lines after one were off by one, so a docstring was taken for code and code for it."""
    from rolecraft.synthesis.candidates import Candidate, Edit
    from rolecraft.synthesis.texts.solution import Sources

    clean = "mark = 'a\x0cb\u2028c'\n" + 'def f():\n    """Says what it does."""\n    return 1\n'
    texts = {"phrases/words.py": clean}
    bugged = clean.replace('    """Says what it does."""\n', "").replace("1", "2")
    edits = (Edit("phrases/words.py", 0, len(clean), bugged),)
    bug = Candidate(id="a", modifier="x", entity="phrases/words.py::f", edits=edits, key="a")
    found = Sources(phrases.plan.project, lambda path: texts.get(path, "")).solution(bug, ())
    assert (found.removed, found.added) == (("    return 1",), ("    return 2",))
