"""A list of names as people paste or upload it: the names in it, and which lines look like mistakes."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from erasable.core.names import doubt, listed_in
from erasable.errors import InputError

_HASH = re.compile(r"[0-9a-fA-F]{32}|[0-9a-fA-F]{40}|[0-9a-fA-F]{64}")
_HEADING = re.compile(
    r"([^\W_]+[ _-]+)*(ids?|identity|identities|e?-?mails?|(e-?mail )?address|names?|customers?|subjects?|users?|"
    r"persons?|accounts?|numbers?|keys?)(_?id)?",
    re.IGNORECASE,
)
_MARK = "\N{BYTE ORDER MARK}"
_MOST_NAMED = 8  # characters beyond ASCII that are named for each line


class Name(Protocol):
    """A name that is compared in one spelling; plain text has the format ``raw``."""

    @property
    def format(self) -> str: ...  # noqa: D102
    @property
    def value(self) -> str: ...  # noqa: D102
    @property
    def spelt(self) -> str: ...  # noqa: D102


N = TypeVar("N", bound=Name)


@dataclass(frozen=True)
class ListedLine:
    """One line of a list, and what is odd about it."""

    number: int
    text: str
    odd: str


@dataclass(frozen=True)
class NameList(Generic[N]):
    """The names of a list, and its lines that look like mistakes."""

    names: tuple[N, ...]  # each once, in the given order
    lines: int  # that are not empty
    unusable: tuple[ListedLine, ...]  # that hold no name
    separated: tuple[ListedLine, ...]  # with separators: each may be several names
    odd: tuple[ListedLine, ...]  # repeats, lines of another form than most, or with characters beyond ASCII
    repeats: int


def read_list(text: str, read: Callable[[str], N]) -> NameList[N]:
    """Return what ``read`` makes of each line that is not empty; it raises ``InputError`` for a line without a name.

    Raises ``InputError`` if there is no line, or the text was no UTF-8.
    """
    if "\N{REPLACEMENT CHARACTER}" in text:
        raise InputError("the list has characters that are no UTF-8: save it as text in UTF-8 and send it again.")
    lines = [(i, line) for i, line in enumerate(_lines(text), 1) if line]
    if not lines:
        raise InputError("the list is empty: type one identity on each line, or choose a file.")
    found: dict[tuple[str, str], tuple[int, N]] = {}
    unusable, separated, odd, repeats = [], [], [], 0
    for number, line in lines:
        try:
            who = read(line)
        except InputError as error:
            unusable.append(ListedLine(number, line, doubt(line) or str(error)))
            continue
        first, _ = found.setdefault((who.format, who.spelt), (number, who))
        if first != number:
            odd.append(ListedLine(number, line, f"repeats line {first}: filed once"))
            repeats += 1
        elif who.format == "raw" and (parts := len(listed_in(line))) > 1:
            separated.append(ListedLine(number, line, f"may be a list of {parts}"))
    raw = {number: who.value for number, who in found.values() if who.format == "raw"}
    hashes = {n: "looks like a hash, and is taken as plain text" for n, value in raw.items() if _HASH.fullmatch(value)}
    first, _ = lines[0]
    headings = (
        {first: "may be the heading of a column"} if len(lines) > 1 and _HEADING.fullmatch(raw.get(first, "")) else {}
    )
    notes = _unlike_most(raw) | _beyond_ascii(raw) | hashes | headings
    odd += [ListedLine(n, raw[n], what) for n, what in notes.items()]
    odd.sort(key=lambda line: line.number)
    names = tuple(who for _, who in found.values())
    return NameList(names, len(lines), tuple(unusable), tuple(separated), tuple(odd), repeats)


def split_lines(text: str) -> str:
    """The list with one line for each name of a line that may be a list."""
    return "\n".join(part for line in _lines(text) for part in listed_in(line))


def trim_lines(text: str) -> str:
    """The list without spaces at the ends of lines."""
    return "\n".join(line.strip() for line in _lines(text))


def text_of_csv(text: str) -> str:
    """The only column of a CSV, one cell on each line; ``InputError`` if it has several."""
    try:
        rows = [row for row in csv.reader(io.StringIO(text.removeprefix(_MARK), newline=""), strict=True) if row]
    except csv.Error:
        rows = [["\n"]]
    if any("\n" in cell for row in rows for cell in row):
        raise InputError("the CSV has a quote that is not closed, or a cell of several lines: correct the file.")
    if (columns := max((len(row) for row in rows), default=1)) > 1:
        raise InputError(f"the CSV has {columns} columns: leave only the one with the names.")
    return "\n".join(row[0] for row in rows)


def characters_beyond_ascii(text: str) -> list[str]:
    """The code points and names of the characters of a text beyond ASCII: some look like others."""
    odd = [*dict.fromkeys(c for c in text if not c.isascii())]
    named = [f"U+{ord(c):04X} {unicodedata.name(c, 'without a name')}" for c in odd[:_MOST_NAMED]]
    return named + ([f"and {len(odd) - _MOST_NAMED} more"] if len(odd) > _MOST_NAMED else [])


def _lines(text: str) -> list[str]:
    return text.removeprefix(_MARK).replace("\r\n", "\n").split("\n")


def _form(value: str) -> str:
    if "@" in value:
        return "an e-mail address"
    if value.isdecimal():
        return "a number"
    return "a code with digits" if any(map(str.isdecimal, value)) else "a name without digits"


def _unlike_most(values: dict[int, str]) -> dict[int, str]:
    """What is odd about each line whose form is not that of most lines."""
    forms = {number: _form(value) for number, value in values.items()}
    if len(counted := Counter(forms.values()).most_common()) < 2:
        return {}
    return {number: f"{form}, unlike most of the list" for number, form in forms.items() if form != counted[0][0]}


def _beyond_ascii(values: dict[int, str]) -> dict[int, str]:
    """The characters of each line beyond ASCII, where less than half of several lines have any."""
    named = {
        number: "; ".join(characters_beyond_ascii(value)) for number, value in values.items() if not value.isascii()
    }
    return named if 2 * len(named) < len(values) else {}
