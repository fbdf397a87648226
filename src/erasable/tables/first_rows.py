"""What the first rows of a text table show: whether its first line holds names, and how its numbers are written.

A row that is taken for names would go into public schemas, and numbers with marks that nobody named would be taken for
texts. Both are refused, with what to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

#: Marks between thousands that can be named; a space stands for those of print, too.
THOUSANDS = {",": ",", ".": "[.]", "'": "['\u2019]", " ": "[ \u00a0\u202f]", "_": "_"}
_NUMBER = re.compile(r"\s*[+-]?[\d.]+([eE][+-]?\d+)?\s*")
_PLAIN = re.compile(r"0|[1-9][0-9]*")
_COUNTED, _YEARS = 3, range(1900, 2101)
_MISSING = {"", "#n/a", "<na>", "?", "n/a", "na", "nan", "nat", "none", "null"}


def is_number(name: str) -> bool:
    """Whether the name of a column is written like a number: a row may stand where names should."""
    return _NUMBER.fullmatch(name) is not None


def like_a_row(names: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """Why a first line looks like a row, given the cells of each column below it; empty where it looks like names.

    Numbers are names where they count the columns, or grow from column to column, as years do.
    """
    numbers = [name.strip() for name in names if is_number(name)]
    values = [int(n) for n in numbers if _PLAIN.fullmatch(n)]
    counting = values in ([*range(len(numbers))], [*range(1, len(numbers) + 1)])
    growing = len(values) == len(numbers) and all(a < b for a, b in pairwise(values))
    many = len(values) >= _COUNTED or all(value in _YEARS for value in values)
    if numbers and not counting and not (growing and many):
        return "some of its cells are numbers"
    if len(set(filled := [name for name in names if name])) < len(filled):
        return "some of its cells are the same"
    skipped = {*numbers} if counting and len(numbers) >= _COUNTED else set()
    if any(like_a_cell(n, c) for n, c in zip(names, cells, strict=True) if n and n.strip() not in skipped):
        return "some of its cells come again, or are written like those below"
    return ""


def like_a_cell(name: str, cells: Iterable[str]) -> bool:
    """Whether a name comes again in its column, or has digits and is built like the cells there, as ids are."""
    filled = [cell for cell in cells if cell]
    if name in filled:
        return True
    coded = re.search(r"\d", name) is not None and not is_number(name)
    return coded and bool(filled) and all(_shape(cell) == _shape(name) for cell in filled)


def _shape(text: str) -> str:
    return re.sub(r"[^\W\d_]+", "a", re.sub(r"\d+", "9", text))


def grouped(thousands: str, decimal: str) -> str:
    """A regular expression for numbers with marks between thousands, from the first to the last character."""
    mark, point = THOUSANDS[thousands], re.escape(decimal)
    return rf"^[ \t]*[+-]?[1-9][0-9]{{0,2}}({mark}[0-9]{{3}})+({point}[0-9]*)?[ \t]*$"


def odd_numbers(cells: Mapping[str, Sequence[str]], decimal: str) -> tuple[list[str], str]:
    """Columns of numbers, some of which have marks that are not read as such; and the arguments that name the marks."""
    found: dict[str, list[str]] = {}
    for name, column in cells.items():
        filled = [cell.strip() for cell in column if cell.strip().lower() not in _MISSING]
        if way := _way(filled, decimal):
            found.setdefault(way, []).append(name)
    way = max(found, key=lambda one: len(found[one]), default="")
    return found.get(way, []), way


def _way(filled: Sequence[str], decimal: str) -> str:
    """The arguments with which all of these would be numbers; empty where they are, or never would be."""
    other = "," if decimal == "." else "."
    odd = [cell for cell in filled if not _fits(cell, _plain(decimal))]
    if not odd:
        return ""
    commas = all(_fits(cell, _plain(other)) for cell in filled)
    for mark in THOUSANDS:
        if mark != decimal and all(_fits(cell, grouped(mark, decimal)) for cell in odd):
            return f"thousands= {mark!r}" + (f", or decimal= {other!r}" if commas else "")
    if commas:
        return f"decimal= {other!r}"
    for mark in THOUSANDS:
        if mark != other and all(_fits(cell, _plain(other), grouped(mark, other)) for cell in filled):
            return f"decimal= {other!r} and thousands= {mark!r}"
    return ""


def _plain(decimal: str) -> str:
    point = re.escape(decimal)
    return rf"^[+-]?([0-9]+{point}?[0-9]*|{point}[0-9]+)([eE][+-]?[0-9]+)?$"


def _fits(cell: str, *patterns: str) -> bool:
    return any(re.match(pattern, cell) for pattern in patterns)
