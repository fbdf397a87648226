"""Definitions as checks: what is exact passes, a store that forgets badly is caught by the name of what it kept."""

from __future__ import annotations

import copy
import math
import re
from typing import Any, Self

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as hs
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import RidgeClassifier

from erasable import (
    CoreSetUnlearner,
    ErasableClassifier,
    ErasableGeneralClassifier,
    ErasableKernelClassifier,
    ErasableRegressor,
)
from erasable.audit.definitions import (
    Rows,
    check_exact,
    check_stable,
    check_traditional,
    checks_of,
    fresh,
    parametrize_with_checks,
    stored_components,
)
from erasable.classes import LinearBall
from erasable.core.fingerprint import fingerprint
from erasable.coresets import RandomSubsample
from erasable.errors import InputError, InputTypeError, VerificationError
from erasable.research.baselines import CertifiedRemovalClassifier, NewtonUnlearner, RetrainedRidge, SISAClassifier
from erasable.research.controls import (
    ForgetsLate,
    ForgetsNothing,
    KeepsLog,
    LeavesTombstone,
    PlainAlgorithm1,
    RidgeStore,
    SoftDeletes,
)

RNG = np.random.default_rng(0)
X = RNG.standard_normal((120, 3))
y = np.where(X @ RNG.standard_normal(3) > 0, 1, -1)

EXACT = [
    ErasableClassifier(threshold=0.1, feature_map=None),
    ErasableClassifier(threshold=0.1, loss="logistic", feature_map=None),
    ErasableClassifier(threshold=math.inf, sample_rate=0.3, feature_map=None),
    ErasableClassifier(selection="independent", rate=0.5, feature_map=None),
    ErasableKernelClassifier("rbf", gamma=2.0),
    ErasableGeneralClassifier(LinearBall()),
    ErasableRegressor(target_range=(-1, 1), threshold=0.1, feature_map=None),
    CoreSetUnlearner(RandomSubsample(0.4), RandomForestClassifier(3)),
    RetrainedRidge(),
    SISAClassifier(n_shards=3),
]
SHARES = {-1: 0.25, 1: 0.75}
INDEPENDENT = {
    "uniform": ErasableClassifier(selection="independent", rate=0.4, feature_map=None),
    "columns": ErasableClassifier(
        selection="independent", rate=0.4, moments=[0.5, 0.25, 0.25], loss="logistic", feature_map=None
    ),
    "matrix": ErasableClassifier(selection="independent", rate=0.4, moments=np.eye(3) / 4, feature_map=None),
    "balance": ErasableClassifier(
        selection="independent", rate=0.4, balance=1.0, class_shares=SHARES, feature_map=None
    ),
    "every row": ErasableClassifier(selection="independent", rate=1.0, feature_map=None),
    "regression": ErasableRegressor((-2, 2), selection="independent", rate=0.4, moments=[0.25] * 3, feature_map=None),
}
BAD = {
    ForgetsNothing: {"rows", "labels", "ids", "weights"},
    ForgetsLate: {"queue", "rows", "labels", "ids", "weights"},
    KeepsLog: {"log"},
    LeavesTombstone: {"tombstones"},
    SoftDeletes: {"deleted", "rows", "labels", "ids"},
    PlainAlgorithm1: {"sums", "inverse", "moments", "weights"},
}


@pytest.mark.parametrize("estimator", [*EXACT, RidgeStore()], ids=lambda e: type(e).__name__)
def test_what_is_exact_passes(estimator: Any) -> None:
    before = copy.deepcopy(vars(estimator))
    verdict = check_exact(estimator, (X, y), [0, 1, 2, 50, 51]).require()
    assert (verdict.rows, verdict.gone) == (120, 5)
    assert verdict.stored - 5 <= verdict.left <= verdict.stored <= 120
    assert vars(estimator).keys() == before.keys()


@pytest.mark.parametrize("kind", BAD, ids=lambda k: k.__name__)
def test_a_store_that_forgets_badly_is_caught_by_what_it_kept(kind: Any) -> None:
    core = getattr(kind().fit(X, y), "core_ids_", range(120))
    verdict = check_exact(kind(), (X, y), [int(core[4])])
    assert set(verdict.differing) == BAD[kind]
    with pytest.raises(VerificationError, match=re.escape(verdict.differing[0])):
        verdict.require()


@pytest.mark.parametrize("kind", BAD, ids=lambda k: k.__name__)
def test_a_store_that_has_nothing_to_forget_is_not_blamed(kind: Any) -> None:
    check_exact(kind(), (X, y), []).require()


class Diligent(ErasableClassifier):
    """Forgets to the bit and counts how often."""

    def forget(self, *, ids: Any = None, subjects: Any = None) -> Any:
        self.requests_ = getattr(self, "requests_", 0) + 1
        return super().forget(ids=ids, subjects=subjects)


def test_a_counter_beside_an_exact_state_is_found() -> None:
    assert check_exact(Diligent(), (X, y), [0]).differing == ("requests_",)


def _remembered(rows: Any) -> Any:
    return lambda: rows


def _by_default(rows: Any) -> Any:
    def ask(rows: Any = rows) -> Any:
        return rows

    return ask


def _by_name(rows: Any) -> Any:
    def ask(*, rows: Any = rows) -> Any:
        return rows

    return ask


def _in_code(rows: Any) -> Any:
    return eval(f"lambda: {rows.tolist()!r}")


WAYS = {"closure": _remembered, "default": _by_default, "named default": _by_name, "code": _in_code}


class Hides(RidgeStore):
    """Forgets to the bit, and keeps the rows that it learnt where one may not look."""

    def __init__(self, way: str = "closure") -> None:
        super().__init__()
        self.way = way

    def _begin(self) -> None:
        self.ask = WAYS[self.way](self.rows)

    def _solve(self) -> None:
        super()._solve()
        self.total = self.rows.sum(axis=0)


class Slices(RidgeStore):
    """Takes its first rows out by a slice, behind which they stay in memory."""

    def forget(self, *, ids: Any) -> None:
        n = len(ids)
        assert list(ids) == self.ids[:n]
        self.rows, self.labels, self.ids = self.rows[n:], self.labels[n:].copy(), self.ids[n:]
        self._solve()


class Names(RidgeStore):
    """Has its ids in a set as well, whose order tells what was in it before."""

    def _begin(self) -> None:
        self.names = set(self.ids)

    def forget(self, *, ids: Any) -> None:
        super().forget(ids=ids)
        self.names.difference_update(ids)


@pytest.mark.parametrize("way", WAYS)
def test_rows_that_hide_in_a_function_are_found(way: str) -> None:
    assert check_exact(Hides(way), (X, y), [3]).differing == ("ask",)
    assert check_exact(Hides(way), (X, y), []).holds


def test_rows_that_stay_in_memory_behind_a_view_are_found() -> None:
    assert check_exact(Slices(), (X, y), [0, 1]).differing == ("rows",)
    wide = np.column_stack([X, y])  # rows that the caller gives as a view are no fault of the estimator
    assert check_exact(Slices(), (wide[:, :3], wide[:, 3]), []).holds


def test_the_order_of_a_set_is_compared() -> None:
    ids = [16, 1, 8]  # while 16 has the first place of the table, 8 comes after 1, and without it before
    assert check_exact(Names(), (X[:3], [1, -1, 1], ids), [16]).differing == ("names",)
    assert check_exact(Names(), (X[:3], [1, -1, 1], [1, 2, 3]), [1]).holds


def test_noise_is_told_by_name_and_no_value_is() -> None:
    gone = [7, 11]
    for estimator in (NewtonUnlearner(random_state=0, max_deletions=3), CertifiedRemovalClassifier(random_state=0)):
        said = str(check_exact(estimator, (X, y, [f"person-{i}" for i in range(120)]), [f"person-{i}" for i in gone]))
        assert "_weights" in said
        assert "person" not in said


def test_the_traditional_definition_is_met_by_those_who_keep_all_rows() -> None:
    for estimator in (RetrainedRidge(), SISAClassifier(n_shards=3), RidgeStore()):
        check_traditional(estimator, (X, y), [3, 4, 5]).require()


def test_it_is_not_met_by_a_core_set_and_that_is_no_fault() -> None:
    estimator = ErasableClassifier(threshold=0.1, capacity=0.1, feature_map=None)
    core = estimator.fit(X, y).core_ids_.tolist()
    assert len(core) < 60
    verdict = check_traditional(estimator, (X, y), core[:10])
    assert not verdict.holds
    assert "ids" in verdict.differing
    assert "no fault" in verdict.note
    assert check_exact(estimator, (X, y), core[:10]).holds


def test_a_fault_is_not_excused() -> None:
    core = PlainAlgorithm1().fit(X, y).core_ids_.tolist()
    assert len(core) < 120
    verdict = check_traditional(PlainAlgorithm1(), (X, y), core[:10])
    assert not verdict.holds
    assert not verdict.note


def test_of_a_sample_that_ignores_other_rows_both_definitions_hold() -> None:
    estimator = ErasableClassifier(threshold=math.inf, sample_rate=0.3, feature_map=None)
    assert check_exact(estimator, (X, y), range(40)).holds
    assert check_traditional(estimator, (X, y), range(40)).holds


@pytest.mark.parametrize("kind", INDEPENDENT)
def test_of_independent_selection_both_definitions_hold(kind: str) -> None:
    """Against full refits: on what is left of the stored rows, and on all rows that are left."""
    estimator = INDEPENDENT[kind]
    core = fresh(estimator).fit(X, y).core_ids_.tolist()
    others = [i for i in range(120) if i not in core]
    for gone in (core[:10], core[:-2], core[::2] + others[::3], core[:1]):
        assert check_exact(estimator, (X, y), gone).require().stored == len(core)
        verdict = check_traditional(estimator, (X, y), gone).require()
        assert verdict.left == 120 - len(gone)
        assert not verdict.note  # something stored was forgotten


@settings(max_examples=25, deadline=None)
@given(hs.integers(0, 10**6), hs.sets(hs.integers(0, 39), max_size=35), hs.sampled_from(["hashed", "given"]))
def test_exact_for_any_rows_and_any_request(seed: int, gone: set[int], order: str) -> None:
    rng = np.random.default_rng(seed)
    rows = Rows(rng.integers(-2, 3, (40, 3)).astype(float), rng.integers(0, 2, 40))
    estimator = ErasableClassifier(threshold=0.2, capacity=0.1, order=order, feature_map=None)
    kept = set(estimator.fit(rows.X, rows.y).core_ids_.tolist())
    if kept - gone:
        check_exact(estimator, rows, gone).require()


def test_a_parameter_from_the_number_of_rows_is_named() -> None:
    found = check_exact(ErasableClassifier(kappa=0.4, feature_map=None), (X, y), [0, 1, 2])
    assert found.differing[0] == "header threshold"
    assert check_exact(ErasableClassifier(kappa=0.4, horizon=120, feature_map=None), (X, y), [0, 1, 2]).holds


def test_rows_may_be_sparse_and_have_names() -> None:
    ids = [f"r{i}".encode() + b"\0" for i in range(120)]
    verdict = check_exact(ErasableClassifier(feature_map=None), Rows(sp.csr_array(X), y, ids), ids[:3])
    assert verdict.holds
    assert verdict.gone == 3


def test_a_request_for_rows_that_are_not_stored_says_that_there_was_nothing_to_do() -> None:
    stored = ErasableClassifier(feature_map=None).fit(X, y).core_ids_
    others = np.setdiff1d(np.arange(120), stored)[:2].tolist()
    assert "nothing to do" in check_exact(ErasableClassifier(feature_map=None), (X, y), others).note
    assert not check_exact(ErasableClassifier(feature_map=None), (X, y), [*others, stored[0]]).note


def test_what_cannot_be_compared_is_refused_without_names() -> None:
    with pytest.raises(InputError, match="leaves none") as error:
        check_exact(ErasableClassifier(feature_map=None), (X, y), range(120))
    assert "119" not in str(error.value)
    with pytest.raises(InputError, match="1 of 2 ids to forget are not among the 120 rows"):
        check_exact(ErasableClassifier(feature_map=None), (X, y), [3, 4711])
    with pytest.raises(InputError, match="1 of 1 ids"):
        check_exact(Averages(), (X, y > 0), [4711])  # which its own forget would not survive
    with pytest.raises(InputTypeError, match="no forget"):
        check_exact(RidgeClassifier(), (X, y), [0])
    with pytest.raises(InputTypeError, match="tuple"):
        check_exact(ErasableClassifier(feature_map=None), X, [0])
    with pytest.raises(InputTypeError, match="no core-set map"):
        check_stable(ErasableClassifier(feature_map=None), (X, y))
    with pytest.raises(InputError, match="nothing that this estimator stores"):
        check_exact(Hidden(), (X, y), [0])
    with pytest.raises(InputError, match="an id of its own"):
        check_exact(ErasableClassifier(feature_map=None), (X, y, [0] * 120), [0])


# -- for estimators of others --------------------------------------------------------------------------------------


class Averages:
    """Somebody's own estimator: exact sums of integers by class, with no scikit-learn in it."""

    def fit(self, X: Any, y: Any, ids: Any) -> Self:
        self.sums = [0, 0]
        self.rows = {}
        for key, row, label in zip(ids, X, y, strict=True):
            self.rows[key] = int(label), int(np.rint(1000 * row[0]))
            self.sums[self.rows[key][0]] += self.rows[key][1]
        return self

    def forget(self, *, ids: Any) -> None:
        for key in ids:
            label, value = self.rows.pop(key)
            self.sums[label] -= value


class Hidden:
    """One whose state cannot be read, as of a class written in C."""

    __slots__ = ()

    def fit(self, X: Any, y: Any, ids: Any) -> Self:
        return self

    def forget(self, *, ids: Any) -> None: ...


@parametrize_with_checks([*EXACT, Averages(), RidgeStore()])
def test_all_checks_of_exact_estimators(check: Any) -> None:
    assert check().require().holds


@pytest.mark.parametrize("kind", BAD, ids=lambda k: k.__name__)
def test_every_bad_store_fails_most_checks(kind: Any) -> None:
    found = {name: check().holds for name, check in checks_of(kind()).items()}
    assert len(found) == 12
    assert sum(found.values()) <= 3


# -- what an estimator stores ---------------------------------------------------------------------------------------


def test_components_of_a_model_are_its_tensors_and_what_hangs_on_it() -> None:
    X = np.random.default_rng(0).standard_normal((50, 3))
    model = ErasableClassifier(feature_map=None).fit(X, X[:, 0] > 0)
    found = stored_components(model)
    assert {
        "header threshold",
        "gram",
        "class_sums",
        "weights",
        "rows",
        "labels",
        "ids",
        "n_features_in_",
    } <= found.keys()
    model.extra = "left behind"
    assert {name for name, mark in stored_components(model).items() if found.get(name) != mark} == {"extra"}


def test_an_estimator_may_say_itself_what_it_stores() -> None:
    class Spoken:
        cache = 3

        def audit_state(self) -> dict[str, Any]:
            return {"weights": np.ones(2)}

    assert stored_components(Spoken()) == {"weights": fingerprint(np.ones(2))}
