"""Independent selection: forgetting equals learning all surviving rows, in any batches and any order, byte for byte.

For rows on a grid with every head, and for points with a kernel.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from erasable import ErasableClassifier
from erasable.core.grid import Grid
from erasable.core.independent import Rarity, public_mean
from erasable.core.kernels import Kernel, Points
from erasable.errors import ConfigurationError, EmptiedClassWarning, InputError, VerificationError
from erasable.models.configuration import Configuration
from erasable.models.heads import KernelRidge, Logistic, Regression, SpreadLogistic, Squared
from erasable.models.model import Model
from erasable.models.selections import Independent, IndependentPoints
from erasable.models.state import State

D, N = 3, 24
GRID = Grid(D, 12, True, "row")
RNG = np.random.default_rng(7)
X = np.round(RNG.normal(size=(N, D)), 1) * (RNG.random((N, D)) < 0.7)
X[X.any(axis=1) == 0] = 1.0
CLASSES = ("no", "yes")
Y = np.array(["yes" if x[0] > 0.3 else "no" for x in X])
TARGETS = X[:, 0] * 2
IDS = [f"row {i}" for i in range(N)]
SUBJECTS = [f"person {i % 7}" for i in range(N)]

HEADS = {
    "squared": Squared(),
    "logistic": Logistic(2**20),
    "logistic-spread": SpreadLogistic(2**20),
    "regression": Regression(((-20.0, 20.0),)),
    "kernel": KernelRidge(),
}
POINTS = Points(D, 12), Kernel("rbf", 0.5)
MATRIX = (np.array([[2, 1, 0], [1, 3, -1], [0, -1, 4]], dtype=np.float32) / 8).tobytes()
RARITIES = {"uniform": Rarity(), "columns": Rarity((-2, -3, -1)), "matrix": Rarity(matrix=MATRIX)}


def configuration(head, rarity, *, balance=0.0, rate=0.4, key=3):
    shares = tuple(zip(CLASSES, (0.75, 0.25), strict=True)) if balance else None
    length = 1.0 if head == "kernel" else GRID.stretch**2
    mean = public_mean(RARITIES[rarity], D, length)
    rule = rate, key, RARITIES[rarity], mean, balance, shares
    selection = IndependentPoints(*POINTS, 2**27, *rule) if head == "kernel" else Independent(GRID, 2**20, *rule)
    return Configuration(selection, HEADS[head], CLASSES if balance else None, order_key=key)


CONFIGURATIONS = [
    configuration(head, rarity, balance=balance, rate=rate)
    for head in HEADS
    for rarity in RARITIES
    for balance in (0.0, 0.5, 1.0)
    for rate in (0.4, 1.0)
    if not (balance and (head == "regression" or rate == 1.0)) and (head, rarity) != ("kernel", "matrix")
]
configurations = st.sampled_from(CONFIGURATIONS)
subsets = st.sets(st.integers(0, N - 1), min_size=1)


def learn(model, rows, *, sparse=False):
    rows = list(rows)
    if rows:
        y = Y if model.classifies else TARGETS
        part = sp.csr_array(X[rows]) if sparse else X[rows]
        model.learn(part, y[rows], [IDS[i] for i in rows], [SUBJECTS[i] for i in rows])
    return model


def learnt(c, rows, **options):
    return learn(Model(c), rows, **options)


def data(model):
    return model.snapshot().to_bytes()


@given(configurations, subsets, st.data())
def test_forgetting_is_learning_all_the_survivors(c, S, draw):
    U = draw.draw(st.sets(st.sampled_from(sorted(S))))
    model = learnt(c, S)
    model.forget(ids=[IDS[i] for i in U])
    assert data(model) == data(learnt(c, sorted(S - U)))
    assert model.verify().core_rows == len(model.core)


@given(configurations, st.permutations(range(N)), st.lists(st.integers(0, N), max_size=4), st.booleans())
def test_any_batches_in_any_order_give_one_state(c, order, cuts, sparse):
    model, bounds = Model(c), [0, *sorted(cuts), N]
    for low, high in pairwise(bounds):
        learn(model, order[low:high], sparse=sparse)
    assert data(model) == data(learnt(c, range(N)))
    assert model.verify().core_rows == len(model.core)


@given(configurations, subsets, st.integers(0, N - 1), subsets)
def test_a_row_that_came_and_left_leaves_the_bytes_from_before(c, S, one, others):
    model = learnt(c, sorted(S - {one}))
    learn(model, [one])
    learn(model, sorted(others - S - {one}))
    model.forget(ids=[IDS[one]])
    assert data(model) == data(learnt(c, sorted((S | others) - {one})))


@given(configurations, subsets, subsets)
def test_other_rows_never_change_whether_a_row_is_kept(c, S, T):
    kept = [set(learnt(c, sorted(rows)).core.ids()) for rows in (S, T)]
    both = {IDS[i] for i in S & T}
    assert kept[0] & both == kept[1] & both


@given(st.sampled_from([0.0, 1.0]), st.sampled_from(sorted(RARITIES)), subsets, subsets, st.integers(0, 9))
def test_correcting_rows_is_learning_the_new_ones_in_place_of_the_old(balance, rarity, S, T, seed):
    """Through the estimator; also rows that were never stored, or never learnt, are corrected."""
    moments = {"uniform": None, "columns": np.array([0.25, 0.125, 0.5]), "matrix": np.eye(D) / 4}[rarity]
    shares = {"no": 0.75, "yes": 0.25} if balance else None
    options = {"rate": 0.4, "moments": moments, "balance": balance, "class_shares": shares, "random_state": seed}
    model = ErasableClassifier(selection="independent", **options)
    X2, Y2, names = X[::-1].copy(), Y[::-1].copy(), np.array(IDS)
    old, new, kept = sorted(S), sorted(T), sorted(S - T)
    fresh = clone(model).partial_fit(
        np.concatenate([X[kept], X2[new]]), np.concatenate([Y[kept], Y2[new]]), ids=names[[*kept, *new]]
    )
    model.partial_fit(X[old], Y[old], ids=names[old])
    stored = len(set(model.core_ids_) & set(names[new]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmptiedClassWarning)
        report = model.learn(X2[new], Y2[new], ids=names[new], streaming=True, replace=True)
    assert model.state_digest() == fresh.state_digest()
    assert report.rows_replaced == stored


@given(configurations, st.sets(st.integers(0, 6)))
def test_forgetting_people_is_learning_everyone_else(c, people):
    model = learnt(c, range(N))
    model.forget(subjects=[f"person {p}" for p in people])
    assert data(model) == data(learnt(c, [i for i in range(N) if i % 7 not in people]))


@pytest.mark.parametrize("c", CONFIGURATIONS, ids=lambda c: f"{c.head.NAME}-{c.selection.rate}-{c.selection.balance}")
def test_a_file_keeps_the_state_and_a_stray_row_is_found(c):
    state = learnt(c, range(N)).snapshot()
    again = State.from_bytes(state.to_bytes())
    assert again.configuration == c
    assert again.verify().digest == state.digest
    if c.selection.rate == 1.0:
        assert len(state.ids) == N
        return
    everything = learnt(configuration(c.head.NAME, "uniform", rate=1.0), range(N)).snapshot()
    stray = replace(everything, configuration=c)
    with pytest.raises(VerificationError, match="is not selected again"):
        State.from_bytes(stray.to_bytes()).verify()


def test_rows_out_of_their_order_are_found():
    c = configuration("squared", "uniform")
    state = learnt(c, range(N)).snapshot()
    swapped = state.part(list(range(len(state.ids)))[::-1])
    with pytest.raises(VerificationError, match="order of the hashes"):
        swapped.verify()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 0.0}, "rate must be above 0"),
        ({"rate": 1.5}, "rate must be above 0"),
        ({"balance": 0.3, "class_shares": (("a", 0.5), ("b", 0.5))}, "balance must be"),
        ({"balance": 0.5}, "needs class_shares"),
        ({"rate": 1.0, "balance": 1.0, "class_shares": (("a", 0.5), ("b", 0.5))}, "nothing to balance"),
        ({"rarity": Rarity((0, 0))}, "2 numbers for 3 columns"),
        ({"mean_rarity": 0.0}, "mean rarity must be"),
        ({"mean_rarity": 5e-324}, "mean rarity must be"),
        ({"class_shares": (("a", 5e-324), ("b", 0.5))}, "every share in class_shares"),
    ],
)
def test_what_cannot_be_is_refused(options, message):
    with pytest.raises(ConfigurationError, match=message):
        Independent(**{"grid": GRID, "units": 2**20, "rate": 0.1, "key": 3, **options})
    with pytest.raises(ConfigurationError, match=message):
        IndependentPoints(*POINTS, 2**27, **{"rate": 0.1, "key": 3, **options})


def test_kernels_refuse_a_matrix_of_moments():
    with pytest.raises(ConfigurationError, match="no matrix"):
        configuration("kernel", "matrix")


def test_points_that_make_the_kernel_matrix_unfit_refuse_the_whole_call():
    few = replace(configuration("kernel", "uniform", rate=1.0).selection, units=N - 2)
    model = learnt(Configuration(few, KernelRidge(), order_key=3), range(N - 2))
    before = data(model)
    with pytest.raises(ConfigurationError, match="too many for this capacity"):
        learn(model, [N - 2, N - 1])
    assert data(model) == before
    many = learnt(configuration("kernel", "uniform", rate=1.0), range(N)).snapshot()
    with pytest.raises(VerificationError, match="too many for this capacity"):
        replace(many, configuration=model.configuration).verify()
    odd = replace(few, units=2**27, kernel=Kernel("custom", function=lambda A, B: -(A @ B.T)))
    model = Model(Configuration(odd, KernelRidge(), order_key=3))
    with pytest.raises(InputError, match="not positive definite"):
        learn(model, range(N))
    assert len(model.core) == 0
    with pytest.raises(VerificationError, match="not positive definite"):
        replace(many, configuration=model.configuration).verify()
    alone = replace(odd, kernel=Kernel("custom", function=lambda A, B: 2.0 - (A[:, None] == B).all(axis=2)))
    model = learnt(Configuration(alone, KernelRidge(), order_key=3), [0])
    with pytest.raises(InputError, match="not positive definite"):  # only together with the stored row
        learn(model, [1])
    assert len(model.core) == 1
