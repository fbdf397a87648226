"""Declared normalisation of names, names that are hardly ever meant, and shapes that name nobody."""

from __future__ import annotations

import unicodedata
from itertools import chain, combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable.core.names import FORMATS, STEPS, Shape, doubt, normalise, read_spelling, spelt
from erasable.errors import ConfigurationError, InputError

SETS = [*chain.from_iterable(combinations(STEPS, n) for n in range(4))]
# Letters whose folding or composition takes several steps, next to any others.
HARD = st.sampled_from(
    [*"aAéßﬁ \t\u0130\u0131\u1e9e\u0149\u01f0\u0390\u0345\u03c2\u1fb3\u1ffc\u212a\u212b\u2000\u0301\u0327\u1100\u1161"]
)
TEXTS = st.text(HARD | st.characters(exclude_categories=["Cs"]), max_size=8)


@pytest.mark.parametrize("steps", SETS, ids="+".join)
@given(text=TEXTS)
def test_normalising_again_changes_nothing(steps, text):
    once = normalise(text, steps)
    assert normalise(once, steps) == once
    if not steps:
        assert once == text


@given(text=TEXTS)
def test_each_step_makes_one_name_of_its_spellings(text):
    for form in ("NFC", "NFD"):
        assert normalise(unicodedata.normalize(form, text), ("nfc",)) == normalise(text, ("nfc",))
        for other in (text.casefold(), f"\n{text} "):
            assert normalise(unicodedata.normalize(form, other), STEPS) == normalise(other, STEPS)
    assert normalise(text.casefold(), ("casefold",)) == normalise(text, ("casefold",))
    assert normalise(f" {text}\t", ("trim",)) == normalise(text, ("trim",))


def test_characters_that_this_unicode_does_not_define_are_not_normalised():
    unknown = "a\U000e0fff"
    assert unicodedata.category(unknown[1]) == "Cn"
    assert spelt(unknown, ()) == spelt(unknown + " ", ("trim",)) == unknown
    for steps in (("nfc",), ("casefold",)):
        with pytest.raises(InputError, match="does not define") as caught:
            spelt(unknown, steps)
        assert unknown not in str(caught.value)


def test_steps_are_read_in_their_order_and_others_refused():
    assert read_spelling({"subject": ["casefold", "trim"], "id": []}, "x") == {"subject": ("trim", "casefold")}
    for wrong in ({"email": ["trim"]}, {"subject": "trim"}, {"subject": ["lower"]}, {"subject": 1}, ["trim"], None):
        with pytest.raises(ConfigurationError):
            read_spelling(wrong, "x")


@pytest.mark.parametrize("text", ["", " a", "a ", "a\u00a0", "a\nb", "a\tb", "a\0b", "a\x85b", " "])
def test_names_that_are_hardly_meant_are_doubted(text):
    assert doubt(text) is not None
    assert doubt(text.strip()) is None or "control" in doubt(text) or not text.strip()
    assert (doubt(text, ("trim",)) is None) == (doubt(text.strip()) is None)


def test_ordinary_names_are_not_doubted():
    assert all(doubt(name) is None for name in ("a", "Ann Lee", "a, b", "é\u200d", "\U000e0fff"))


@given(st.lists(st.tuples(st.sampled_from(FORMATS), st.text(min_size=1)), min_size=1, max_size=4))
def test_a_shape_is_read_again_and_holds_no_more_than_ranges_and_kinds(identities):
    shape = Shape.of(identities)
    assert Shape.read(shape.as_json()) == shape
    assert str(shape).isprintable()
    assert len(str(shape)) < 200


@given(st.text(min_size=2, max_size=2000), st.text(min_size=2, max_size=2000))
def test_a_list_of_two_never_has_the_length_of_both(one, other):
    both = Shape.of([("raw", f"{one},{other}")]).characters
    assert both != Shape.of([("raw", min(one, other, key=len))]).characters


def test_what_a_shape_says():
    assert str(Shape.of([("raw", "customer-060, customer-061")])) == (
        "1 identity (raw), 17 to 32 characters: small letters, digits, separators, other characters"
    )
    assert "9 to 16 characters: small letters, capitals, digits" in str(Shape.of([("raw", "Customer-008")]))
    assert str(Shape.of([("sha256", "0" * 64)] * 2)) == "2 identities (sha256)"
    assert Shape.of([("raw", "O\u2019Neill\u00e9")]) == Shape.of([("raw", "Q.aeill-")])  # no alphabet shows


@pytest.mark.parametrize(
    "change",
    [
        {"identities": 0},
        {"identities": True},
        {"identities": "ann"},
        {"formats": ["raw", "ann"]},
        {"formats": []},
        {"characters": [9, 17]},
        {"characters": [10, 16]},
        {"characters": "ann"},
        {"characters": None},
        {"kinds": ["digits", "capitals"]},
        {"kinds": ["ann"]},
        {"name": "ann"},
    ],
)
def test_nothing_else_passes_for_a_shape(change):
    with pytest.raises(ValueError, match="no shape"):
        Shape.read({**Shape.of([("raw", "CUSTOMER-008")]).as_json(), **change})
