"""At every moment, all that a model holds is a function of its state: rows, tables, their order, pickles.

The digest cannot see these: two models of equal digests may still tell, by the order of a table, what was forgotten.
"""

from __future__ import annotations

import math
import pickle
import sys
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier

from erasable import (
    ErasableClassifier,
    ErasableGeneralClassifier,
    ErasableKernelClassifier,
    ErasableRegressor,
    verify,
)
from erasable.classes import LinearBall
from erasable.coresets import LeverageThreshold, RandomSubsample
from erasable.estimators.core_set import CoreSetUnlearner
from erasable.features import RandomFourierFeatures
from erasable.models.core_rows import NameTable
from erasable.research.baselines import RetrainedRidge, SISAClassifier
from erasable.research.baselines.interpolated import InterpolatedClassifier
from tests.estimators.cases import make_classes, make_rows
from tests.research.baselines.cases import facts

N, D = 150, 4
X, _ = make_rows(N, D)
LABELS = np.array(["b", "a", "c"])[make_classes(3, N)]
TARGETS = np.clip(X[:, :2] * 2.0 + 0.25, -4.0, 4.0)
IDS = np.array([f"row {i}" for i in range(N)])
OWNERS = np.array([f"owner {i * i % 11}" for i in range(N)])
SHARED = np.empty(N, dtype=object)
SHARED[:] = [[f"owner {i * i % 11}", f"kin {i % 7}", f"kin {i % 5}"][: i % 4] for i in range(N)]
WEIGHTS = np.where(np.arange(N) < 110, 1.0, np.arange(N) % 5 / 2 + 0.5)
MOMENTS = [0.5, 0.25, 0.25, 0.125]

ERASABLE = {
    "linear": ErasableClassifier(threshold=0.01),
    "fixed classes": ErasableClassifier(threshold=0.01, classes=["a", "b", "c", "d"]),
    "shared rows": ErasableClassifier(threshold=0.01),
    "shared rows, kernel": ErasableKernelClassifier(threshold=0.01),
    "weighted rows": ErasableClassifier(threshold=0.01),
    "logistic": ErasableClassifier(threshold=0.01, loss="logistic", class_weight="balanced"),
    "weighted rows, logistic": ErasableClassifier(threshold=0.01, loss="logistic", alpha=0.1),
    "weighted rows, logistic by spread": ErasableClassifier(threshold=0.01, head_scaling="spread"),
    "a sample": ErasableClassifier(threshold=math.inf, sample_rate=0.8, class_weight={"a": 2.0}),
    "independent": ErasableClassifier(selection="independent", rate=0.6, moments=MOMENTS),
    "shared rows, independent": ErasableClassifier(selection="independent", rate=0.8, moments=np.diag(MOMENTS)),
    "weighted rows, independent": ErasableClassifier(
        selection="independent", rate=0.8, loss="logistic", balance=0.5, class_shares={"a": 0.5, "b": 0.25, "c": 0.25}
    ),
    "independent kernel": ErasableKernelClassifier(selection="independent", rate=0.6, moments=MOMENTS),
    "independent regression": ErasableRegressor((-5.0, 5.0), selection="independent", rate=0.7),
    "regression": ErasableRegressor((-5.0, 5.0), threshold=0.01),
    "weighted rows, regression": ErasableRegressor([(-5.0, 5.0), (-4.0, 9.0)], threshold=0.01),
    "mapped": ErasableClassifier(feature_map=RandomFourierFeatures(20), threshold=0.01),
    "kernel": ErasableKernelClassifier(threshold=0.01),
    "general": ErasableGeneralClassifier(LinearBall(), threshold=0.01),
    "retrained": RetrainedRidge(),
}
OTHERS = {
    "shared rows on a core set": CoreSetUnlearner(LeverageThreshold(0.01), RidgeClassifier()),
    "shared rows, sisa": SISAClassifier(n_shards=2, n_slices=2),
    "ridge on a core set": CoreSetUnlearner(LeverageThreshold(0.01), RidgeClassifier()),
    "logistic on a core set": CoreSetUnlearner(RandomSubsample(0.8), LogisticRegression(max_iter=500)),
    "forest on a core set": CoreSetUnlearner(RandomSubsample(0.8), RandomForestClassifier(3)),
    "neighbours on a core set": CoreSetUnlearner(RandomSubsample(0.8), KNeighborsClassifier(3, algorithm="brute")),
    "erasable on a core set": CoreSetUnlearner(RandomSubsample(0.8), ErasableClassifier(threshold=0.01)),
    "nested core sets": CoreSetUnlearner(
        RandomSubsample(0.8), CoreSetUnlearner(RandomSubsample(0.8, random_state=1), RidgeClassifier())
    ),
    "interpolated": InterpolatedClassifier(RandomSubsample(0.8), private_share=0.0, epsilon=1.0, alpha=0.01),
    "sisa": SISAClassifier(n_shards=2, n_slices=2),
}
ALL = [*ERASABLE, *OTHERS]
containers = pytest.mark.parametrize("container", [np.array, sp.csr_array, sp.csc_matrix])


def taken(name: str, at: Any, container: Any, model: Any = None, *, more: bool = False) -> Any:
    """A model of this name, new unless one is given, that learns the rows at these positions and nothing else.

    With ``more`` it keeps what it has learnt before.
    """
    model = clone((ERASABLE | OTHERS)[name]) if model is None else model
    weights = {"sample_weight": WEIGHTS[at]} if name.startswith("weighted") else {}
    y = TARGETS if name == "weighted rows, regression" else TARGETS[:, 0] if "regression" in name else LABELS
    owners = {"subjects": OWNERS[at]}
    if name.startswith("shared"):
        owners = {"subjects": SHARED[at], "allow_no_subject": True}
    learn = model.partial_fit if more else model.fit
    return learn(container(X[at]), y[at], ids=IDS[at], **owners, **weights)


def positions(model: Any) -> list[int]:
    """Where in ``X`` the rows that a model holds stand, in its own order."""
    keys = model.core_ids_.tolist() if hasattr(model, "core_ids_") else model._names.ids()
    return [int(key.split()[1]) for key in keys]


def plain(value: Any) -> Any:
    """Facts of a value; of tables all that can be seen of them, with their order and how much memory they take."""
    if isinstance(value, NameTable):
        parts = [(sys.getsizeof(part), [(k, getattr(v, "id", v)) for k, v in part.items()]) for part in value._parts]
        return len(value), sys.getsizeof(value._parts), parts
    if isinstance(value, dict):
        return sys.getsizeof(value), [(facts(k), plain(v)) for k, v in value.items()]
    return facts(value)


def held(model: Any) -> dict[str, Any]:
    """All attributes of a model but its token, in their order, and all that is in its rows."""
    core = model.core
    others = ("configuration", "version_token", "core")
    parts = {name: value for name, value in vars(model).items() if name not in others}
    parts |= {f"core.{name}": value for name, value in vars(core).items()}
    for name in ("_coefficients", "_predictors", "_fitted_to", "_shifts"):  # caches of what is derived
        parts.pop(name, None)
    parts["core.last"] = core.last and core.last.id
    parts["core._order"] = core._order and [row.id for row in core._order]
    parts["core.first"], row = [], core.first
    while row is not None:
        assert core.place[row.id] is row
        numbers = (bytes(row.numbers), sys.getsizeof(row.numbers))
        parts["core.first"].append((numbers, row.id, row.subject, row.label, row.weight, row.before))
        row = row.after
    return {name: plain(value) for name, value in parts.items()}


def leaving(share: str) -> list[list[int]]:
    """Requests: one row; some; most; a class; the first rows of each class, one by one."""
    return {
        "one": [[7]],
        "some": [[3, 50, 4, 149, 20]],
        "most": [list(range(0, N, 2)), list(range(1, 100, 2))],
        "most at once": [list(range(5, N - 3))],
        "first": [[i] for i in range(40)],
    }[share]


shares = pytest.mark.parametrize("share", ["one", "some", "most", "most at once", "first"])


@pytest.mark.parametrize("name", ERASABLE)
@containers
@shares
@pytest.mark.parametrize("looked", [False, True])
def test_rows_tables_and_pickles_are_those_of_a_refit(name, container, share, looked):
    """Right after the last request; before any of them the model may have been used, or not."""
    model = taken(name, np.arange(N), container)
    for request in leaving(share):
        if looked:
            model.state_digest()
        model.forget(ids=IDS[request])
    kept = model._model.cache.pop("matrix", None)  # of a kernel model: that of the rows left
    ahead = model._model.cache.pop("ahead", None)  # logistic weights of the rows left
    assert not model._model.cache
    if share in ("one", "some") and "logistic" in str(model._model.head.NAME):
        assert (ahead is not None) == looked
    model._model.cache = {}
    found = held(model._model)
    again = taken(name, positions(model), container)
    if ahead is not None:
        again._model.core.rows()  # in their order, which stays known until the next change
    assert found == held(again._model)
    if ahead is not None:
        np.testing.assert_array_equal(ahead.view(np.int32), again._model.weights().view(np.int32))
    if kept is not None:
        again.state_digest()
        np.testing.assert_array_equal(np.tril(kept), np.tril(again._model.cache["matrix"]))
    assert model.state_digest() == again.state_digest()
    assert held(model._model) == held(again._model)
    assert pickle.dumps(model) == pickle.dumps(again)


@pytest.mark.parametrize("name", [name for name in ERASABLE if "independent" in name])
@containers
@shares
@pytest.mark.parametrize("seed", range(2))
def test_batches_in_any_order_with_requests_between_leave_one_fit_of_all_survivors(name, container, share, seed):
    """Of all rows that nobody has asked to forget, also those that were never stored, in another order."""
    rng = np.random.default_rng(seed)
    requests = leaving(share)
    gone = np.unique(np.concatenate(requests))
    last = np.setdiff1d(np.arange(N), gone)[1::2]  # learnt after all requests
    first = rng.permutation(np.setdiff1d(np.arange(N), last))
    model = None
    for part in np.array_split(first, 4):
        model = taken(name, part, container, model, more=True)
        model.state_digest()
    for request in requests:
        model.forget(ids=IDS[request])
    for part in np.array_split(rng.permutation(last), 2):
        taken(name, part, container, model, more=True)
    again = taken(name, rng.permutation(np.setdiff1d(np.arange(N), gone)), container)
    assert model.state_digest() == again.state_digest()
    assert held(model._model) == held(again._model)
    assert pickle.dumps(model) == pickle.dumps(again)


@pytest.mark.parametrize("name", OTHERS)
@containers
@shares
def test_pickles_are_those_of_a_refit(name, container, share):
    model = taken(name, np.arange(N), container)
    for request in leaving(share):
        model.forget(ids=IDS[request])
    at = sorted(positions(model)) if name == "sisa" else positions(model)
    again = taken(name, at, container)
    assert pickle.dumps(model) == pickle.dumps(again)


@pytest.mark.parametrize("name", ALL)
@containers
def test_a_second_fit_leaves_what_a_first_one_leaves(name, container):
    model = taken(name, np.arange(N), container)
    taken(name, np.arange(20, 80), container, model)
    assert pickle.dumps(model) == pickle.dumps(taken(name, np.arange(20, 80), container))


WIDE = np.zeros((N, 40))
WIDE[np.arange(N)[:, None], (np.arange(N)[:, None] * 7 + np.arange(D) * 9) % 40] = X
WIDE[::29] = 1.0 + np.arange(40)


def wide(at: Any, container: Any) -> Any:
    """A model of these rows, most of which have few entries."""
    model = ErasableClassifier(threshold=0.001)
    return model.fit(container(WIDE[at]), LABELS[at], ids=IDS[at], subjects=OWNERS[at])


@containers
@shares
def test_sparse_rows_are_held_as_a_refit_holds_them(container, share):
    model = wide(np.arange(N), container)
    assert sp.issparse(model._model.core.rows())
    for request in leaving(share):
        model.forget(ids=IDS[request])
    found, digest = held(model._model), model.state_digest()
    assert found == held(wide(positions(model), container)._model)
    for again in (wide(positions(model), container), wide(positions(model), np.array)):
        assert again.state_digest() == digest
        assert held(model._model) == held(again._model)
        assert pickle.dumps(model) == pickle.dumps(again)


@containers
def test_forgetting_turns_the_layout_of_the_others_and_back(container):
    """Rows with many entries leave, and the rest is sparse; those with few leave, and the rest is dense."""
    full, few = np.arange(0, N, 29), np.setdiff1d(np.arange(N), np.arange(0, N, 29))[:12]
    start = np.concatenate([full, few])
    for leave, sparse in ((full[:5], True), (few[1:], False)):
        model = wide(start, container)
        before = model._model.snapshot()
        model.forget(ids=IDS[leave])
        after = model._model.snapshot()
        again = wide(positions(model), container)
        assert (sp.issparse(before.rows), sp.issparse(after.rows)) == (False, sparse)
        assert model.state_digest() == again.state_digest()
        assert held(model._model) == held(again._model)
    model.partial_fit(container(WIDE[few[1:]]), LABELS[few[1:]], ids=IDS[few[1:]], subjects=OWNERS[few[1:]])
    model.forget(ids=IDS[full])
    assert sp.issparse(model._model.snapshot().rows)
    assert model.state_digest() == verify(model).digest


def test_a_table_does_not_tell_in_which_order_classes_came():
    model = ErasableClassifier(threshold=0.01, order="given").fit(np.eye(5), list("bbbab"))
    model.forget(ids=[0, 1, 2])
    assert list(model._model.sums.by_label) == list(model._model.core.class_counts) == ["a", "b"]
    digest = model.state_digest()
    again = ErasableClassifier(threshold=0.01, order="given").fit(np.eye(5)[3:], list("ab"), ids=[3, 4])
    assert again.state_digest() == digest
    assert list(model._model.sums.by_label) == list(again._model.sums.by_label) == ["a", "b"]
    assert list(model._model.core.class_counts) == list(again._model.core.class_counts) == ["a", "b"]


def test_learning_and_forgetting_in_turns_leaves_what_one_fit_leaves():
    model = ErasableClassifier(threshold=0.01, order="given")
    for low in range(0, N, 30):
        part = slice(low, low + 30)
        model.partial_fit(X[part], LABELS[part], ids=IDS[part], subjects=OWNERS[part])
        model.forget(ids=IDS[low : low + 17])
    kept = [i for i in range(N) if i % 30 >= 17 and IDS[i] in set(model.core_ids_)]
    again = taken("linear", kept, np.array, clone(model))
    assert again.state_digest() == model.state_digest()
    assert held(again._model) == held(model._model)
    assert pickle.dumps(again) == pickle.dumps(model)


def test_the_last_row_of_a_subject_leaves_no_gap_among_the_others():
    """A dictionary would keep its slot, between those of the subjects that came before it and after it."""
    model = taken("linear", np.arange(N), np.array)
    for owner in ("owner 4", "owner 0"):
        model.forget(subjects=owner)
        found = held(model._model)
        assert found == held(taken("linear", positions(model), np.array)._model)
