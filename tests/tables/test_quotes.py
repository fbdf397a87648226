"""Quotes of CSV text: what the watch refuses is what the rules refuse, however the text is cut."""

import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from erasable.errors import InputError
from erasable.tables import load_table
from erasable.tables.quotes import _Watch, watched
from tests.tables.cases import SECRET_TEXT, refused


def is_refused_by_the_rules(text):
    """One character after the other."""
    inside, i, before = False, 0, "\n"
    while i < len(text):
        here, after = text[i], text[i + 1 : i + 2] or "\n"
        if here == '"' and not inside:
            inside = before in ",\n\r"
        elif here == '"' and after == '"':
            i, here = i + 1, "doubled"
        elif here == '"':
            inside = False
            if after not in ",\n\r":
                return True
        before, i = here, i + 1
    return inside


def is_refused(text, cuts):
    watch = _Watch(",", "t.csv")
    try:
        for low, high in zip([0, *cuts], [*cuts, len(text)], strict=True):
            watch.feed(text[low:high].encode())
        watch.end()
    except InputError:
        return True
    return False


@given(st.text('",\nax', max_size=14), st.data())
@example('a"",x', None)
@example('"a""x"', None)
def test_the_watch_refuses_what_the_rules_refuse(text, data):
    places = range(len(text) + 1)
    cuts = sorted(data.draw(st.sets(st.sampled_from(places)))) if data else list(places)
    assert is_refused(text, cuts) == is_refused_by_the_rules(text)


@pytest.mark.parametrize("text", ["", "a,b\n", '"a\nb",""""\r\n5" disk,x', '""', '"",""'])
def test_text_that_is_let_through_comes_out_as_it_was(text):
    assert b"".join(watched(io.BytesIO(text.encode()), ",", "t.csv")) == text.encode()


@pytest.mark.parametrize("before", [0, 10, 100_000])
def test_a_quote_that_is_missing_before_other_quoted_cells_is_noticed(tmp_path, before):
    """Reading on, a row would be lost, and quotes would seem closed at the end."""
    rows = [f'{i},0,"note {i}"' for i in range(before + 3)]
    rows[before] = f'{before},0,"{SECRET_TEXT}'
    (tmp_path / "t.csv").write_text("\n".join(["a,label,note", *rows, ""]))
    with refused(InputError, "t.csv", f"in line {before + 3:,} a quote is closed and its cell goes on"):
        load_table(tmp_path / "t.csv", ignore=["note"])


def test_quotes_within_cells_that_are_not_quoted_stand_for_themselves(tmp_path):
    (tmp_path / "t.csv").write_text('a,label,note\n1,0,5" disk\n2,1,say "hi"\n3,0,"two\nlines, ""x"""\n')
    assert load_table(tmp_path / "t.csv", ignore=["note"]).X.tolist() == [[1], [2], [3]]
