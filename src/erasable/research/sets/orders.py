"""Orders of a made-up shop: a raw table with text, dates, rare towns, missing cells and customers who come again."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.validation import seed, whole_number

_BLOCK = 50_000  # rows that are drawn together
_EACH = 4  # orders of a customer, on average
_U64 = npt.NDArray[np.uint64]
_Ints = npt.NDArray[np.int64]

_FIRST = [
    *("Ada", "Ben", "Cleo", "Dan", "Edda", "Finn", "Gwen", "Hugo"),
    *("Ines", "Jon", "Kaya", "Liam", "Mira", "Noah", "Olga", "Paul"),
]
_LAST = [
    *("Ames", "Brook", "Cole", "Dunn", "Ekman", "Frost", "Gray", "Holt"),
    *("Irving", "Jansen", "Kerr", "Lund", "Moss", "Nash", "Orr", "Price"),
]
_TOWNS = [
    a + b for b in ["ford", "ham", "ton", "ley", "wick", "by", "mouth", "stead", "dale", "pool"] for a in _LAST[:12]
]
_CHANNELS = ["web", "app", "phone", "shop"]
_GOODS = ["shoes", "dresses", "shirts", "books", "lamps", "toys", "tea", "tools", "phones"]
_BRANDS = [f"{a} & {b}" for a in _LAST[4:] for b in ("Sons", "Daughters", "Co")]
_SIZES = ["S", "M", "L", "XL"]
_DISCOUNTS = [0, 0, 0, 5, 10, 20, 30]
_PAYMENTS = ["card", "invoice", "transfer", "wallet"]
_NOTES = [
    "please leave it at the door",
    "ring twice, the bell is weak",
    "birthday present, no invoice in the box please",
    "thank you, always a pleasure",
    "unsure about the size, may send it back",
    "ordered two to compare",
    "is the colour really that dark?",
    "the last one broke after a week",
]
_MORE = [
    "{name}, door {door}",
    "at home after {hour}:{minute}",
    "call {name} before, extension {door}{minute}",
    "not before the {day}th, {hour}:{minute} at the earliest",
    "or next door, number {door}",
]

# What each thing adds to the inclination to send an order back.
_OF_GOODS = np.array([9, 13, 5, -12, -3, -5, -15, -6, 0])
_OF_CHANNEL = np.array([0, 4, -2, -9])
_OF_SIZE = np.array([3, 0, 2, 6])
_OF_PAYMENT = np.array([0, 7, -4, 2])
_OF_NOTE = np.array([0, 0, -6, -5, 13, 11, 6, 4])
_PRICES = np.array([70, 60, 30, 12, 45, 20, 8, 35, 300])


def make_orders(n_samples: int = 4_000, *, random_state: int = 0) -> dict[str, list[Any]]:
    """Orders of a made-up shop, and whether the goods were sent back: 15 columns of every kind, and three with a role.

    ================ ===================================================================================================
    ``order``        the id of a row
    ``customer``     whose row it is, as a name; a customer has four orders on average, some have one and some a dozen
    ``placed``       date and time
    ``town``         one of 120, of which most have very few customers
    ``age``          a number; missing for one customer in eight
    ``member_since`` a date; missing for four customers in ten
    ``channel``      web, app, phone or shop
    ``goods``        one of nine sorts
    ``brand``        one of 36, most of them rare
    ``size``         S to XL; missing for what has no size
    ``price``        a number with two decimals, from 2 to some 1,500
    ``pieces``       a number, 1 to 8
    ``discount``     a number of per cent
    ``gift``         yes or no
    ``payment``      card, invoice, transfer or wallet; missing now and then
    ``days``         how long delivery took; missing where it is not known yet
    ``note``         free text, sometimes with a name and a door; missing in three of five rows
    ``returned``     the label, yes or no
    ================ ===================================================================================================

    Most columns say something of the label, some only together, and none says much: with how a customer is inclined,
    which no column shows, and with chance on top, nobody could predict it well.

    Parameters
    ----------
    n_samples : int, default=4_000
        How many orders. Rows of tables of different length differ, because the customers do.
    random_state : int, default=0
        Decides everything.

    Returns
    -------
    dict of lists
        Texts, whole numbers, floats, and None where a cell is missing. Dates are texts.

    Notes
    -----
    *Any machine*: rows follow from their number and the seed by 64-bit integers alone (the mixer of SplitMix64), so the
    table is the same everywhere, whatever the releases of libraries. People, towns and brands are made up.

    Examples
    --------
    >>> from erasable.research.sets import make_orders
    >>> orders = make_orders(4000)
    >>> [orders[name][1] for name in ("order", "customer", "placed", "town", "price", "returned")]
    ['N0000001', 'Ines Cole 40', '2024-12-03 02:39', 'Amesham', 633.0, 'no']
    """
    n = whole_number(n_samples, "n_samples")
    blocks = list(_blocks(n, seed(random_state)))
    return {name: [cell for block in blocks for cell in block[name]] for name in blocks[0]}


def write_orders(path: str | os.PathLike[str], n_samples: int = 4_000, *, random_state: int = 0) -> None:
    """The table of :func:`make_orders` as a CSV file, written in blocks: of any length, in little memory."""
    n = whole_number(n_samples, "n_samples")
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        for number, block in enumerate(_blocks(n, seed(random_state))):
            if not number:
                writer.writerow(block)
            writer.writerows(zip(*block.values(), strict=True))


def _blocks(n: int, random_state: int) -> Iterator[dict[str, list[Any]]]:
    customers = max(1, n // _EACH)
    for start in range(0, n, _BLOCK):
        yield _orders(np.arange(start, min(n, start + _BLOCK), dtype=np.uint64), customers, random_state)


class _DrawnNumbers:
    """Whole numbers, drawn for things by their number: for one thing and one name always the same."""

    def __init__(self, numbers: Any, random_state: int) -> None:
        self.numbers = np.asarray(numbers, dtype=np.uint64)
        self.key = _mixed(np.array([random_state % 2**64], dtype=np.uint64))

    def below(self, n: int, name: str, skew: int = 1) -> _Ints:
        """From 0 to n - 1; as the product of ``skew`` uniform numbers, so small ones are the commoner."""
        share = np.full(len(self.numbers), 2**16, dtype=np.uint64)
        for turn in range(skew):
            salt = _mixed(self.key + np.uint64(int.from_bytes(f"{name}{turn}".encode()[-8:])))
            share = (share * (_mixed(self.numbers * _ODD + salt) >> np.uint64(48))) >> np.uint64(16)
        return ((share * np.uint64(n)) >> np.uint64(16)).astype(np.int64)

    def chance(self, percent: int, name: str) -> npt.NDArray[np.bool_]:
        """True for so many in a hundred."""
        return self.below(100, name) < percent


_ODD = np.uint64(0x9E3779B97F4A7C15)


def _mixed(z: _U64) -> _U64:
    """The last steps of SplitMix64."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _orders(rows: _U64, customers: int, random_state: int) -> dict[str, list[Any]]:
    row = _DrawnNumbers(rows, random_state)
    order = rows.astype(np.int64)
    # The smaller of two places among all customers: some come often.
    places = [(row.below(2**16, f"who{k}") << 16) + row.below(2**16, f"low{k}") for k in range(2)]
    who = (np.minimum(*places) * customers) >> 32
    person = _DrawnNumbers(who, random_state)
    town = person.below(len(_TOWNS), "town", 3)
    age = 18 + person.below(65, "age", 1) - person.below(10, "age2")
    goods, channel, size = row.below(9, "goods"), row.below(4, "channel", 2), row.below(4, "size")
    sized = goods < 3
    pieces, discount = 1 + row.below(8, "pieces", 3), np.array(_DISCOUNTS)[row.below(7, "discount")]
    cents = _PRICES[goods] * (20 + row.below(400, "price", 2))
    payment, gift = row.below(4, "payment"), row.chance(12, "gift")
    days, minutes = 1 + row.below(14, "days", 2), row.below(731, "day") * 1440 + row.below(1440, "minute")
    note, noted = row.below(8, "note"), row.chance(40, "noted")
    hour = minutes // 60 % 24

    score = _OF_GOODS[goods] + _OF_CHANNEL[channel] + _OF_PAYMENT[payment] - 5 * gift - 4
    score += sized * (_OF_SIZE[size] + 4 * (age < 30)) + noted * _OF_NOTE[note]
    score += 6 * (days > 6) + 5 * (cents > 8_000) + 4 * (cents > 25_000) - 4 * (discount >= 20) + 3 * (hour >= 21)
    score += 4 * (pieces > 2) - 5 * (age > 60) + town % 7 - 3 + person.below(9, "habit") - 4
    likely = 2**15 + (score << 15) // (np.abs(score) + 9)
    back = row.below(2**16, "back") < likely

    named = [f"{_FIRST[w % 16]} {_LAST[w // 16 % 16]} {w}" for w in who.tolist()]
    return {
        "order": [f"N{k:07d}" for k in order.tolist()],
        "customer": named,
        "placed": _moments(minutes),
        "town": _taken(_TOWNS, town),
        "age": _where(~person.chance(12, "no age"), age.tolist()),
        "member_since": _where(person.chance(60, "member"), _days(person.below(3_000, "since"))),
        "channel": _taken(_CHANNELS, channel),
        "goods": _taken(_GOODS, goods),
        "brand": _taken(_BRANDS, row.below(36, "brand", 3)),
        "size": _where(sized, _taken(_SIZES, size)),
        "price": (cents / 100).tolist(),
        "pieces": pieces.tolist(),
        "discount": discount.tolist(),
        "gift": _taken(["no", "yes"], gift.astype(np.int64)),
        "payment": _where(~row.chance(3, "unpaid"), _taken(_PAYMENTS, payment)),
        "days": _where(~row.chance(6, "under way"), days.tolist()),
        "note": _where(noted, _notes(note, row.below(5, "more"), named, row.below(400, "door"))),
        "returned": _taken(["no", "yes"], back.astype(np.int64)),
    }


def _taken(values: list[str], index: _Ints) -> list[str]:
    return [values[i] for i in index.tolist()]


def _where(there: npt.NDArray[np.bool_], cells: list[Any]) -> list[Any]:
    return [cell if is_there else None for cell, is_there in zip(cells, there.tolist(), strict=True)]


def _moments(minutes: _Ints) -> list[str]:
    whole = np.datetime64("2023-01-01T00:00", "m") + minutes.astype("timedelta64[m]")
    return [text.replace("T", " ") for text in np.datetime_as_string(whole).tolist()]


def _days(days: _Ints) -> list[str]:
    found: list[str] = np.datetime_as_string(np.datetime64("2015-01-01", "D") + days.astype("timedelta64[D]")).tolist()
    return found


def _notes(note: _Ints, more: _Ints, named: list[str], number: _Ints) -> list[str]:
    """One of the texts, and something that hardly anybody else writes."""
    return [
        f"{_NOTES[k]}; "
        + _MORE[m].format(name=name.split(" ")[1], door=d, hour=12 + d % 9, minute=10 + d % 50, day=4 + d % 17)
        for k, m, name, d in zip(note.tolist(), more.tolist(), named, number.tolist(), strict=True)
    ]
