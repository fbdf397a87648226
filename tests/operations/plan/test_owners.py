"""Rows that belong to several people: they go when any of them asks, and nobody is on both sides of a division."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable import ErasableClassifier, plan
from erasable.errors import InputError
from erasable.operations.plan.deletions import subject_requests
from erasable.operations.plan.rows import check_sample, divide_by_owner, owners_of

shared = st.lists(st.sets(st.integers(0, 25), max_size=3), min_size=30, max_size=60).filter(
    lambda rows: len(set().union(*rows)) >= 10
)


def table(n=1000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    return X, X[:, 0] + 0.3 * rng.standard_normal(n) > 0


@given(shared, st.integers(0, 5))
def test_requests_take_what_a_plain_loop_takes(rows, seed):
    owners = owners_of([sorted(row) for row in rows], len(rows))
    order, ends = subject_requests(owners, np.random.default_rng(seed))
    gone, people = set(), set()
    for low, high in zip([0, *ends], ends, strict=False):
        batch = set(order[low:high].tolist())
        if batch:
            # Somebody who has not asked yet has every row of the batch, and no row that is left.
            asking = set.intersection(*(rows[i] for i in batch)) - people
            assert any(batch == {i for i, row in enumerate(rows) if who in row and i not in gone} for who in asking)
        gone |= batch
    assert gone == {i for i, row in enumerate(rows) if row}
    assert len(ends) == len(set().union(*rows))


@given(shared, st.integers(0, 5), st.integers(1, 20))
def test_nobody_has_rows_on_both_sides(rows, seed, wanted):
    scored, learnt = divide_by_owner(
        owners_of([sorted(row) for row in rows], len(rows)), wanted, np.random.default_rng(seed)
    )
    people = [set().union(*(rows[i] for i in side)) for side in (scored, learnt)]
    assert not people[0] & people[1]
    assert not set(scored.tolist()) & set(learnt.tolist())
    assert len(learnt)


def test_where_rows_have_one_owner_none_is_left_out_and_couples_stay_together():
    alone = owners_of(np.arange(200) // 4, 200)
    couples = owners_of([(f"a{i // 5}", f"b{i // 5}") for i in range(200)], 200)
    for owners in (alone, couples):
        scored, learnt = divide_by_owner(owners, 20, np.random.default_rng(0))
        assert sorted([*scored, *learnt]) == list(range(200))
        assert len(scored) == 20
    nobodys = owners_of([None if i % 2 else i % 40 for i in range(200)], 200)
    scored, learnt = divide_by_owner(nobodys, 50, np.random.default_rng(0))
    assert sorted([*scored, *learnt]) == list(range(200))


def test_a_plan_of_rows_that_two_people_share():
    X, y = table()
    pairs = np.stack([np.arange(1000) % 97, 100 + np.arange(1000) % 89], axis=1)
    found = plan(X, y, subjects=pairs, effort="quick", max_loss=0.05)
    assert found.targets.distribution == "subject"
    assert found.survival.unit == "subjects"
    assert found.survival.limit == 97 + 89
    clf = eval(found.line, {"ErasableClassifier": ErasableClassifier}).fit(X, y, subjects=pairs)
    assert clf.n_core_ == found.recommended.stored_rows
    once = plan(X, y, subjects=[(i, i) for i in range(1000)], effort="quick", max_loss=0.05)
    assert once == plan(X, y, subjects=np.arange(1000), effort="quick", max_loss=0.05)


def test_what_cannot_be_divided_is_refused():
    X, y = table()
    with pytest.raises(InputError, match="9 subjects: at least 10"):
        plan(X, y, subjects=[(i % 9, (i + 1) % 9) for i in range(1000)])
    with pytest.raises(InputError, match=r"cannot be divided so that rows of two classes .* or they share too many"):
        plan(X, y, subjects=[tuple(range(12))] * 1000, effort="quick")
    with pytest.raises(InputError, match="2 entries for 1000 rows"):
        check_sample(X, y, subjects=[(1, 2), 3], model=ErasableClassifier(feature_map=None))
