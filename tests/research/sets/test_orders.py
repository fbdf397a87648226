"""Made-up orders: the same cells everywhere, of every kind, with a label that can be predicted in part."""

from __future__ import annotations

import csv
import hashlib
import json
from collections import Counter

import numpy as np
import pytest

from erasable.errors import ConfigurationError
from erasable.research.sets import make_orders, orders, write_orders
from erasable.schemas import Category, Date, Number, Role, Text, YesNo, draft_schema

N = 4000
TABLE = make_orders(N)


def digest(table):
    return hashlib.sha256(json.dumps(table).encode()).hexdigest()


def test_every_machine_makes_the_same_table():
    assert digest(TABLE) == "d44ba0116948149a8da34fb62c7fca43061e44a91bc36f86db5384f90468b9a2"
    assert (
        digest(make_orders(300, random_state=2**63 + 5))
        == "b6c77eb3d66c289fbe32292d4b3df09b421dfdf86ff3fdaee72ebe74aa90b7e7"
    )


def mixed(z):
    """SplitMix64's mixer in whole numbers of any size."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


@pytest.mark.parametrize("state", [0, 7, 2**64 - 1])
def test_numbers_are_drawn_as_in_whole_numbers_of_any_size(state):
    drawn = orders._DrawnNumbers(np.arange(50), state).below(1000, "size", 2)
    for k, found in enumerate(drawn.tolist()):
        share = 2**16
        for turn in range(2):
            salt = mixed((mixed(state) + int.from_bytes(f"size{turn}".encode())) % 2**64)
            share = share * (mixed((k * 0x9E3779B97F4A7C15 + salt) % 2**64) >> 48) >> 16
        assert found == share * 1000 >> 16


def test_rows_do_not_depend_on_blocks(monkeypatch):
    monkeypatch.setattr(orders, "_BLOCK", 77)
    assert make_orders(N) == TABLE


def test_another_seed_is_another_table():
    assert make_orders(50, random_state=1) != make_orders(50)
    with pytest.raises(ConfigurationError):
        make_orders(0)


def test_the_file_is_the_table(tmp_path):
    write_orders(tmp_path / "orders.csv", N)
    with open(tmp_path / "orders.csv", encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    assert head == list(TABLE)
    assert rows == [["" if cell is None else str(cell) for cell in row] for row in zip(*TABLE.values(), strict=True)]


def test_it_looks_like_a_real_table():
    missing = {name: cells.count(None) / N for name, cells in TABLE.items()}
    assert {name for name, share in missing.items() if share} == {
        "age",
        "member_since",
        "size",
        "payment",
        "days",
        "note",
    }
    assert 0.5 < missing["note"] < 0.7
    each = Counter(TABLE["customer"])
    assert 3 < np.mean(list(each.values())) < 6
    assert max(each.values()) > 9
    towns = {town: set() for town in TABLE["town"]}
    for town, who in zip(TABLE["town"], TABLE["customer"], strict=True):
        towns[town].add(who)
    assert all(len({towns_of for towns_of, people in towns.items() if who in people}) == 1 for who in list(each)[:50])
    assert sum(len(people) < 20 for people in towns.values()) > 20  # rare
    assert len(set(TABLE["order"])) == N
    assert 0.4 < TABLE["returned"].count("yes") / N < 0.6


def test_a_draft_finds_every_kind():
    schema = draft_schema(TABLE, label="returned", id="order", subject="customer").schema
    kinds = {column.name: type(column) for column in schema.columns}
    assert [name for name in kinds if kinds[name] is Role] == ["order", "customer", "returned"]
    assert {kinds[name] for name in ("placed", "member_since")} == {Date}
    assert {kinds[name] for name in ("age", "price", "pieces", "discount", "days")} == {Number}
    assert {kinds[name] for name in ("town", "channel", "goods", "brand", "size", "payment")} == {Category}
    assert (kinds["gift"], kinds["note"]) == (YesNo, Text)
