"""After a snapshot, all that a model holds is a function of its state: tables, their order, pages, pickles.

The digest cannot see these: two models of equal digests may still tell, by the order of a table, what was forgotten.
"""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier

from erasable import ErasableClassifier, ErasableGeneralClassifier, ErasableKernelClassifier, verify
from erasable.classes import LinearBall
from erasable.coresets import LeverageThreshold, RandomSubsample
from erasable.estimators.core_set import CoreSetUnlearner
from erasable.features import RandomFourierFeatures
from erasable.models import rows as rows_module
from erasable.models.sparse_rows import SparseRows
from erasable.research.baselines import RetrainedRidge, SISAClassifier
from erasable.research.baselines.interpolated import InterpolatedClassifier
from tests.estimators.cases import make_classes, make_rows
from tests.research.baselines.cases import facts

N, D = 150, 4
X, _ = make_rows(N, D)
LABELS = np.array(["b", "a", "c"])[make_classes(3, N)]
IDS = np.array([f"row {i}" for i in range(N)])
OWNERS = np.array([f"owner {i * i % 11}" for i in range(N)])
SHARED = np.empty(N, dtype=object)
SHARED[:] = [[f"owner {i * i % 11}", f"kin {i % 7}", f"kin {i % 5}"][: i % 4] for i in range(N)]
WEIGHTS = np.where(np.arange(N) < 110, 1.0, np.arange(N) % 5 / 2 + 0.5)

ERASABLE = {
    "linear": ErasableClassifier(threshold=0.01),
    "fixed classes": ErasableClassifier(threshold=0.01, classes=["a", "b", "c", "d"]),
    "shared rows": ErasableClassifier(threshold=0.01),
    "shared rows, kernel": ErasableKernelClassifier(threshold=0.01),
    "weighted rows": ErasableClassifier(threshold=0.01),
    "logistic": ErasableClassifier(threshold=0.01, loss="logistic", class_weight="balanced"),
    "weighted rows, logistic": ErasableClassifier(threshold=0.01, loss="logistic", alpha=0.1),
    "a sample": ErasableClassifier(threshold=math.inf, sample_rate=0.8, class_weight={"a": 2.0}),
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


def taken(name: str, at: Any, container: Any, model: Any = None) -> Any:
    """A model of this name, new unless one is given, that learns the rows at these positions and nothing else."""
    model = clone((ERASABLE | OTHERS)[name]) if model is None else model
    weights = {"sample_weight": WEIGHTS[at]} if name.startswith("weighted") else {}
    owners = {"subjects": OWNERS[at]}
    if name.startswith("shared"):
        owners = {"subjects": SHARED[at], "allow_no_subject": True}
    return model.fit(container(X[at]), LABELS[at], ids=IDS[at], **owners, **weights)


def positions(model: Any) -> list[int]:
    """Where in ``X`` the rows that a model holds stand, in its own order."""
    keys = model.core_ids_.tolist() if hasattr(model, "core_ids_") else model._names.ids()
    return [int(key.split()[1]) for key in keys]


def held(model: Any) -> dict[str, Any]:
    """All attributes of a model but its token, in their order; dictionaries are lists of their entries."""
    core = model.core
    number = {id(page): k for k, page in enumerate(core.pages)}
    parts = {name: value for name, value in vars(model).items() if name not in ("configuration", "moment", "core")}
    parts |= {f"core.{name}": value for name, value in vars(core).items()}
    parts["core.pages"] = [vars(page) for page in core.pages]
    parts["core.place"] = {key: (number[id(page)], i) for key, (page, i) in core.place.items()}
    return {
        name: facts(value) for name, value in parts.items() if name not in ("_coefficients", "_predictors", "_shifts")
    }


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
@pytest.mark.parametrize("page", [7, 512])
def test_tables_pages_and_pickles_are_those_of_a_refit(monkeypatch, name, container, share, page):
    monkeypatch.setattr(rows_module, "_PAGE", page)
    model = taken(name, np.arange(N), container)
    for request in leaving(share):
        model.forget(ids=IDS[request])
    digest = model.state_digest()
    again = taken(name, positions(model), container)
    assert again.state_digest() == digest
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
@pytest.mark.parametrize("page", [7, 512])
def test_sparse_rows_are_held_as_a_refit_holds_them(monkeypatch, container, share, page):
    monkeypatch.setattr(rows_module, "_PAGE", page)
    model = wide(np.arange(N), container)
    model.state_digest()
    assert all(isinstance(page.rows, SparseRows) for page in model._model.core.pages)
    for request in leaving(share):
        model.forget(ids=IDS[request])
    digest = model.state_digest()
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
    """Three of five rows leave, so that the only page is closed up before the snapshot."""
    model = ErasableClassifier(threshold=0.01, order="given").fit(np.eye(5), list("bbbab"))
    model.forget(ids=[0, 1, 2])
    digest = model.state_digest()
    again = ErasableClassifier(threshold=0.01, order="given").fit(np.eye(5)[3:], list("ab"), ids=[3, 4])
    assert again.state_digest() == digest
    assert list(model._model.class_sums) == list(again._model.class_sums) == ["a", "b"]
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


def test_a_page_is_full_but_for_the_last(monkeypatch):
    monkeypatch.setattr(rows_module, "_PAGE", 7)
    model = taken("linear", np.arange(N), np.array)
    old = model._model.core.pages
    model.forget(ids=IDS[:20])
    model.state_digest()
    lengths = [len(page.ids) for page in model._model.core.pages]
    assert set(lengths[:-1]) == {7}
    assert 0 < lengths[-1] <= 7
    current = {id(page.rows) for page in model._model.core.pages}
    assert not any(page.rows.any() for page in old if id(page.rows) not in current)  # moved, and overwritten
