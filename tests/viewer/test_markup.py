"""Text never becomes markup, and markup is always balanced."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rolecraft.viewer.markup import Markup, element, escape, join, table


@given(st.text(), st.text())
def test_any_text_comes_back_from_a_parser_as_it_was(read_html, inner, attribute):
    html = element("p", inner, title=attribute)
    document = read_html(html)
    assert document.tags == ["p"]
    shown, title = escape(inner), escape(attribute)
    assert document.text == _unescaped(shown)
    assert document.attributes == [("p", "title", _unescaped(title))]


def _unescaped(text: str) -> str:
    import html

    return html.unescape(text)


def test_characters_that_html_cannot_hold_are_replaced():
    assert escape("a\x00b\ud800c\x1bd\ne\tf") == "a\ufffdb\ufffdc\ufffdd\ne\tf"


def test_markup_is_put_in_as_it_is_and_text_is_escaped():
    assert element("p", element("b", "<x>"), "<y>") == "<p><b>&lt;x&gt;</b>&lt;y&gt;</p>"


def test_a_string_that_was_markup_and_was_changed_is_text_again():
    """Slicing or formatting a `Markup` gives a plain str, which is escaped like any other."""
    piece = Markup("<b>x</b>")[:3]
    assert element("p", piece) == "<p>&lt;b&gt;</p>"


def test_attributes_that_are_none_or_false_are_left_out():
    html = element("a", "x", href=None, hidden=False, open=True, class_="c", stroke_width=2)
    assert html == '<a open class="c" stroke-width="2">x</a>'


def test_none_is_no_child_and_numbers_are_text():
    assert join(["a", None, 0, 1.5]) == "a01.5"


def test_a_table_puts_figures_to_the_right():
    html = table(["name", "number"], [["<a>", 1]], numeric=1)
    assert '<td>&lt;a&gt;</td><td class="num">1</td>' in html
