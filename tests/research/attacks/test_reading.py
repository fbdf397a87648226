"""What is found in an object, and what two readings differ in."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from erasable.research.attacks.reading import read

ROW = np.array([0.6, -0.48, 0.64])


@dataclass(slots=True)
class Slotted:
    thing: Any


class Holder:
    def __init__(self, thing):
        self.deep = {"cache": [(Slotted(thing),)]}


@pytest.mark.parametrize(
    "where",
    [
        ROW,
        ROW.astype(np.float32),
        np.round(ROW * 2**15).astype(np.int32),  # on a grid
        np.append(ROW, 1.0) / math.sqrt(2.0),  # with a constant
        np.column_stack([np.ones(3), -7.0 * ROW]),  # as a column, scaled
        b"some bytes before" + ROW.tobytes(),
        {"weights": [np.zeros(3), ROW]},
        sp.csr_array(np.vstack([np.eye(3), 5.0 * ROW])),
    ],
    ids=["float64", "float32", "grid", "constant", "column", "bytes", "list", "sparse"],
)
def test_a_row_is_found_in_any_form(where):
    assert read(Holder(where)).holds_row(ROW)
    assert not read(Holder(where)).holds_row(np.array([0.6, -0.48, -0.64]))


@pytest.mark.parametrize("name", ["customer-7", b"customer-7", 123_456_789])
def test_an_id_is_found_as_key_as_entry_and_within_bytes(name):
    for where in ({name: 1}, [name], {name}, deque([name]), np.array([name])):
        assert read(Holder(where)).holds_name(name)
    assert not read(Holder(["customer-8", 5])).holds_name(name)
    assert read(Holder(b"... customer-7 ...")).holds_name("customer-7")


def test_code_and_noise_are_not_read():
    seen = read(Holder([np.random.default_rng(0), len, Holder, math]))
    assert not seen.arrays
    assert not seen.numbers


def test_something_that_holds_itself_is_read_once():
    holder = Holder(ROW)
    holder.self = holder
    assert read(holder).holds_row(ROW)


def test_bits_are_compared_not_values():
    base = read(Holder([np.array([0.0, math.nan, 1.0, 2.0])]))
    assert base.share_that_differs(read(Holder([np.array([0.0, math.nan, 1.0, 2.0])]))) == 0.0
    assert base.share_that_differs(read(Holder([np.array([-0.0, math.nan, 1.0, 2.0])]))) == 0.25
    assert base.share_that_differs(read(Holder([np.array([0.0, math.nan, np.nextafter(1.0, 2.0), 3.0])]))) == 0.5
    assert base.share_that_differs(read(Holder([np.zeros(3)]))) == 1.0
    assert base.share_that_differs(read(Holder([]))) == 1.0
    assert read(Holder(1.0)).share_that_differs(read(Holder(2.0))) == 1.0
    assert read(Holder(b"ab")).share_that_differs(read(Holder(b"ac"))) == 0.5
    assert read(Holder({"gone": {"ann"}})).share_that_differs(read(Holder({"gone": set()}))) > 0.0


def test_sparse_matrices_are_read():
    one, other = (read(Holder(sp.csr_array(np.diag([1.0, 2.0, last])))) for last in (3.0, 4.0))
    assert 0.0 < one.share_that_differs(other) < 0.2
