"""docs/paper_map.md lists every numbered item and every example of the paper once, and every place it names exists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
STATUSES = {"implemented", "departed", "not used"}
LAST_LINE = {"Algorithm 1": 20, "Algorithm 2": 10, "Algorithm 3": 18}

# As printed: one counter per section for theorem-like items, lettered appendices, no numbered equations.
ITEMS = """
    Definition 2.1, Definition 2.2, Definition 2.3, Theorem 2.4, Definition 2.5,
    Theorem 3.1,
    Theorem 4.1, Theorem 4.2, Theorem 4.3, Theorem 4.4, Lemma 4.5, Theorem 4.6, Remark 4.7,
    Theorem 5.1, Theorem 5.2, Theorem 5.3, Definition 5.4, Theorem 5.5,
    Theorem D.1, Theorem D.2, Lemma D.3, Corollary D.4, Lemma D.5, Lemma D.6, Theorem D.7,
    Lemma F.1, Lemma F.2, Lemma F.3,
    Proposition G.1, Theorem G.2, Theorem G.3,
    Algorithm 1, Algorithm 2, Algorithm 3,
    Figure 1, Figure 2, Table 1, Table 2
"""
EXAMPLES = [
    "Section 2, motivating example",
    "Section 2.2, sample compression",
    "Section 2.2, hard margin SVM",
    "Section 2.2, approximate sample compression",
]
EXPECTED = sorted([item.strip() for item in ITEMS.split(",")] + EXAMPLES)


class Row(NamedTuple):
    item: str
    says: str
    status: str
    where: str


def table_rows(text: str) -> list[Row]:
    """Body rows of every table in the page."""
    lines = [line.strip() for line in text.splitlines() if line.lstrip().startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))] for line in lines]
    body = [c for c in cells if c[0] != "item" and not set("".join(c)) <= set("-: ")]
    odd = [c for c in body if len(c) != len(Row._fields)]
    assert not odd, f"rows without exactly four cells: {odd}"
    return [Row(*c) for c in body]


def places(row: Row) -> list[tuple[str, str | None]]:
    """Paths named in the last cell, each with the symbol in backticks right after it, if there is one."""
    found = re.findall(r"`([\w.-]+/[\w./-]*)`(?: `(\w+)`)?", row.where)
    return [(path, symbol or None) for path, symbol in found]


def is_line_item(item: str) -> bool:
    return ", line" in item


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return table_rows((ROOT / "docs" / "paper_map.md").read_text(encoding="utf-8"))


def test_every_numbered_item_and_every_example_appears_exactly_once(rows: list[Row]) -> None:
    assert sorted(row.item for row in rows if not is_line_item(row.item)) == EXPECTED


@pytest.mark.parametrize("algorithm", LAST_LINE)
def test_every_line_of_an_algorithm_appears_exactly_once(rows: list[Row], algorithm: str) -> None:
    pattern = re.compile(rf"{algorithm}, lines? (\d+)(?:–(\d+))?")
    matches = [pattern.fullmatch(row.item) for row in rows if row.item.startswith(f"{algorithm}, ")]
    assert all(matches), f"an item of {algorithm} is not 'line N' or 'lines N–M'"
    ranges = [(int(m[1]), int(m[2] or m[1])) for m in matches if m]
    covered = [line for first, last in ranges for line in range(first, last + 1)]
    assert covered == list(range(1, LAST_LINE[algorithm] + 1))


def test_every_row_says_something_and_has_one_of_the_three_statuses(rows: list[Row]) -> None:
    assert [row.item for row in rows if row.status not in STATUSES] == []
    assert [row.item for row in rows if not row.says or not row.where] == []


def test_every_used_item_names_a_file(rows: list[Row]) -> None:
    used = [row for row in rows if row.status != "not used"]
    assert used
    nowhere = [row.item for row in used if not any((ROOT / path).is_file() for path, _ in places(row))]
    assert nowhere == []


def test_every_place_named_exists(rows: list[Row]) -> None:
    missing = []
    for row in rows:
        for path, symbol in places(row):
            if not (ROOT / path).exists():
                missing.append(f"{row.item}: {path}")
            elif symbol is not None:
                source = (ROOT / path).read_text(encoding="utf-8")
                if not re.search(rf"^\s*(?:async )?(?:def|class) {symbol}\b", source, re.MULTILINE):
                    missing.append(f"{row.item}: {path} {symbol}")
    assert missing == []
