"""The page's own files: text is never taken for markup, and nothing comes from elsewhere."""

from __future__ import annotations

import re
from importlib import resources

import pytest

FILES = {
    file.name: file.read_text("utf-8")
    for file in resources.files("rolecraft.viewer.labelling").joinpath("static").iterdir()
}
SCRIPTS = {name: text for name, text in FILES.items() if name.endswith(".js")}

# Every way from a string to markup or to code that a browser knows.
SINKS = (
    r"innerHTML|outerHTML|insertAdjacentHTML|setHTMLUnsafe|parseHTMLUnsafe|DOMParser|srcdoc"
    r"|createContextualFragment|importScripts|document\.write|\beval\b|new Function|javascript:"
    r"|setTimeout\(\s*[\"'`]|setInterval\(\s*[\"'`]|\.setAttribute\(\s*[\"'`]on|createPolicy"
)


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_no_script_makes_markup_or_code_of_text(name: str) -> None:
    assert re.findall(SINKS, re.sub(r"//.*", "", SCRIPTS[name])) == []


@pytest.mark.parametrize(
    "code", ["a.innerHTML = x", "eval (x)", "setTimeout('x()')", "new DOMParser()", "a.srcdoc=b"]
)
def test_the_check_knows_what_it_looks_for(code: str) -> None:
    assert re.search(SINKS, code)


@pytest.mark.parametrize("name", sorted(FILES))
def test_nothing_is_loaded_from_elsewhere(name: str) -> None:
    text = FILES[name].replace("http://www.w3.org/2000/svg", "")
    assert re.findall(r"(?:https?:)?//[\w-]+\.\w+|@import|url\(", text) == []


def test_the_page_has_no_script_and_no_style_of_its_own() -> None:
    page = FILES["index.html"]
    assert re.findall(r"<script(?![^>]* src=)|<style|\son\w+=|\sstyle=", page) == []


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_scripts_stay_short(name: str) -> None:
    assert SCRIPTS[name].count("\n") < 400


def test_every_key_is_in_the_help_and_does_something() -> None:
    does = set(re.findall(r'does: "(\w+)"', SCRIPTS["keys.js"]))
    deeds = SCRIPTS["main.js"].partition("const deeds = {")[2].partition("\n};")[0]
    assert does == set(re.findall(r"^  (\w+):", deeds, re.M))
