"""Lists of names: what is read is exactly what a reader of the list would say, and mistakes are pointed out."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable.core.names import doubt, listed_in, normalise
from erasable.errors import InputError
from erasable.service.requests import Identity
from erasable.tables.name_lists import characters_beyond_ascii, read_list, split_lines, text_of_csv, trim_lines


def plain(value, steps=()):
    """As ``ErasureService.identity`` does it."""
    if (what := doubt(value, steps)) is not None:
        raise InputError(what)
    return Identity("subject", "raw", value, steps)


def values(found):
    return [who.value for who in found.names]


LINES = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\ufffd\ufeff"), max_size=6), max_size=12)


@given(lines=LINES, crlf=st.booleans(), fold=st.booleans())
def test_each_usable_line_is_filed_once_and_no_other(lines, crlf, fold):
    steps = ("trim", "casefold") if fold else ()
    text = ("\r\n" if crlf else "\n").join(lines)
    kept = text.replace("\r\n", "\n").split("\n")
    usable = [line for line in kept if line and doubt(line, steps) is None]
    if not any(kept):
        with pytest.raises(InputError, match="empty"):
            read_list(text, lambda value: plain(value, steps))
        return
    found = read_list(text, lambda value: plain(value, steps))
    first = {}  # of lines that normalise to one name
    for line in usable:
        first.setdefault(normalise(line, steps), line)
    assert values(found) == list(first.values())
    assert found.lines == sum(map(bool, kept))
    assert found.lines == len(found.names) + found.repeats + len(found.unusable)
    for line in (*found.unusable, *found.separated, *found.odd):
        assert kept[line.number - 1] == line.text


def test_what_may_be_a_mistake_is_pointed_out_by_line():
    text = "customer_id\nc-1\nc-2\n\nc-1\nc-3 \nc-4, c-5\nann@ex.org\nc-\u0430\u0431\n" + "0" * 64 + "\n"
    found = read_list(text, plain)
    assert values(found) == ["customer_id", "c-1", "c-2", "c-4, c-5", "ann@ex.org", "c-\u0430\u0431", "0" * 64]
    assert (found.lines, found.repeats) == (9, 1)
    assert [(line.number, line.odd) for line in found.unusable] == [(6, "a space at one end")]
    assert [(line.number, line.odd) for line in found.separated] == [(7, "may be a list of 2")]
    told = {line.number: line.odd for line in found.odd}
    assert told[1] == "may be the heading of a column"
    assert told[5] == "repeats line 2: filed once"
    assert told[8] == "an e-mail address, unlike most of the list"
    assert told[9].startswith("U+0430 CYRILLIC SMALL LETTER A; U+0431")
    assert told[10] == "looks like a hash, and is taken as plain text"
    assert set(told) == {1, 5, 8, 9, 10}


@pytest.mark.parametrize("heading", ["id", "Email", "e-mail", "customer_id", "Customer ID", "customerid", "name"])
def test_the_heading_of_a_column_is_pointed_out(heading):
    for names in ("Ann\nBo\n", "c-1\nc-2\n", "a@ex.org\n"):
        (line,) = (line for line in read_list(f"{heading}\n{names}", plain).odd if line.number == 1)
        assert line.odd == "may be the heading of a column"
    assert read_list(heading, plain).odd == ()


def test_an_ordinary_list_has_nothing_odd():
    for text in (
        "c-1\nc-22\nd_3\n",
        "ann@ex.org\r\nbo.b@ex.org\r\n",
        "1\n22\n333",
        "M\u00fcller\nJos\u00e9\n",
    ):
        found = read_list(text, plain)
        assert (found.unusable, found.separated, found.odd, found.repeats) == ((), (), (), 0)


def test_lines_are_split_and_trimmed_on_request_alone():
    text = "Ann Lee; Bo Orr\nc-1 \n c-2,c-3\n"
    assert split_lines(text).split("\n") == ["Ann Lee", "Bo Orr", "c-1", "c-2", "c-3"]
    assert trim_lines(text) == "Ann Lee; Bo Orr\nc-1\nc-2,c-3\n"


@given(st.text(max_size=20))
def test_splitting_keeps_every_character_that_is_no_separator(text):
    parts = listed_in(text)
    assert all(part and part == part.strip() for part in parts)
    assert [c for part in parts for c in part if not c.isspace()] == [
        c for c in text if not c.isspace() and c not in ",;|\u3001\uff0c\uff1b"
    ]


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r\0"), min_size=1, max_size=8), max_size=9))
def test_a_csv_of_one_column_is_its_cells(cells):
    out = io.StringIO()
    csv.writer(out).writerows([cell] for cell in cells)
    assert text_of_csv(out.getvalue()) == "\n".join(cells)


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "a\n1,2\n", '"a\nb', '"a\nb"\n'])
def test_a_csv_that_is_no_list_is_refused(text):
    with pytest.raises(InputError):
        text_of_csv(text)


def test_text_that_is_no_utf8_is_refused():
    with pytest.raises(InputError, match="UTF-8"):
        read_list(b"caf\xe9".decode("utf-8", "replace"), plain)
    assert characters_beyond_ascii("".join(map(chr, range(0x430, 0x43C))))[-1] == "and 4 more"
