"""Quotes of CSV text: what the watch refuses is what the rules refuse, however the text is cut."""

import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from erasable.errors import InputError
from erasable.tables import load_table, text
from erasable.tables.text import _QuoteTracker, whole_rows
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
    watch = _QuoteTracker(",", "t.csv")
    try:
        for low, high in zip([0, *cuts], [*cuts, len(text)], strict=True):
            watch.feed(text[low:high].encode())
        watch.feed(b"\n\n")
        watch.refuse_unclosed()
    except InputError:
        return True
    return False


@given(st.text('",\nax', max_size=14), st.data())
@example('a"",x', None)
@example('"a""x"', None)
@example('"""', None)
def test_the_watch_refuses_what_the_rules_refuse(text, data):
    places = range(len(text) + 1)
    cuts = sorted(data.draw(st.sets(st.sampled_from(places)))) if data else list(places)
    assert is_refused(text, cuts) == is_refused_by_the_rules(text)


def rows_by_the_rules(text):
    """Text cut after every line break that stands outside of quotes."""
    rows, row = [], ""
    for character in text:
        row += character
        if character == "\n" and row.count('"') % 2 == 0:
            rows.append(row)
            row = ""
    return [*rows, row] if row else rows


@given(st.lists(st.lists(st.text('",\nax', max_size=4), min_size=1, max_size=3), max_size=8), st.integers(1, 30))
def test_parts_are_whole_rows_and_make_up_the_text(cells, size):
    quoted = [",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in cells]
    text = "".join(line + "\n" for line in quoted)
    parts = [part.decode() for part in whole_rows(io.BytesIO(text.encode()), ",", "t.csv", size)]
    assert "".join(parts) == text
    assert [row for part in parts for row in rows_by_the_rules(part)] == rows_by_the_rules(text)
    longest = max(map(len, rows_by_the_rules(text)), default=0)
    assert all(len(part) <= 2 * size + longest + 2 for part in parts)


@pytest.mark.parametrize("text", ["", "a,b\n", '"a\nb",""""\r\n5" disk,x', '""', '"",""', "a\rb\rc"])
@pytest.mark.parametrize("size", [1, 3, 100])
def test_text_that_is_let_through_comes_out_as_it_was(text, size):
    assert b"".join(whole_rows(io.BytesIO(text.encode()), ",", "t.csv", size)) == text.encode()


def test_a_row_without_end_is_not_held(monkeypatch):
    monkeypatch.setattr(text, "LONGEST_ROW", 1000)
    with refused(InputError, "opens in line 2 is not closed"):
        list(whole_rows(io.BytesIO(b'a\n"x' + b"\ny" * 2000), ",", "t.csv", 100))
    with refused(InputError, "longer than 1,000 bytes"):
        list(whole_rows(io.BytesIO(b"x" * 2000), ",", "t.csv", 100))


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
