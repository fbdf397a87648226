"""Rows in tensors of PyTorch: the state is that of the same numbers in an array, and rows stay where they lie."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from erasable import ErasableClassifier, ErasableKernelClassifier, ErasableRegressor
from erasable.core import arrays
from erasable.core.arrays import DeviceRows, is_tensor, on_host
from erasable.engines import Local, Torch
from erasable.errors import InputError, InputTypeError
from erasable.features import FrozenMap
from tests.engines.cases import CLASSIFIER, D, N, X, Y, in_two_calls
from tests.strategies import assert_identical, problems

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")),
]
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
NUMBERS = np.random.default_rng(3).permutation(N)
OWNERS = np.arange(N) % 37


@pytest.fixture(autouse=True)
def _left_where_they_lie(monkeypatch):
    """Tensors of the processor too, which would else be arrays at once: so what a GPU does is done here."""
    monkeypatch.setattr(arrays, "_SHARED", ())


@pytest.fixture
def copied(monkeypatch):
    """How many rows were copied from where they lay."""
    counts, real = [], DeviceRows.on_host

    def counted(self):
        counts.append(len(self))
        return real(self)

    monkeypatch.setattr(DeviceRows, "on_host", counted)
    return counts


def small(engine, block_bytes=4000):
    engine.block_bytes, engine.helps_in_memory = block_bytes, True
    return engine


def as_array(tensor):
    return (tensor if tensor.dtype == torch.float64 else tensor.float()).cpu().numpy()


class OfTensors:
    """A classifier that is given tensors where it would be given arrays."""

    def __init__(self, clf):
        self.clf = clf

    def partial_fit(self, rows, labels, **names):
        self.clf.partial_fit(torch.tensor(rows), labels, **names)


# -- one digest ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"fit_intercept": False, "threshold": 0.25, "capacity": 0.25},
        {"scaling": 60.0, "threshold": 0.02},
        {"scaling": np.arange(1.0, 7.0)},
    ],
    ids=["row", "no intercept", "a number", "columns"],
)
def test_the_state_is_that_of_the_array(device, dtype, how):
    rows = torch.tensor(X).to(device, dtype)
    plain = clone(CLASSIFIER).set_params(**how)
    whole = in_two_calls(clone(plain), as_array(rows), Y, NUMBERS, OWNERS)
    for engine in (None, small(Local()), small(Local(threads=2)), small(Torch(device))):
        assert in_two_calls(clone(plain).set_params(engine=engine), rows, Y, NUMBERS, OWNERS) == whole
        fitted = clone(plain).set_params(engine=engine).fit(rows, Y, ids=NUMBERS, subjects=OWNERS)
        assert fitted.state_digest() == clone(plain).fit(as_array(rows), Y, NUMBERS, OWNERS).state_digest()


@settings(max_examples=25, deadline=None)
@given(problems(order_keys=[0, 1], weighted=True), st.sampled_from([100, 2**20]), st.data())
def test_rows_of_any_kind_are_the_oracle(problem, block_bytes, data):
    """Ties, near ties, duplicates and zeros."""
    setting, batch = problem
    clf, oracle = setting.classifier(), setting.oracle()
    clf.set_params(engine=small(Torch("cpu", threads=1), block_bytes))
    cut = data.draw(st.integers(0, len(batch) - 1))
    for part in (batch.part(slice(cut)), batch.part(slice(cut, None))):
        part.learnt_by(oracle)
        part.learnt_by(OfTensors(clf))
    assert_identical(clf, oracle)


@pytest.mark.parametrize("device", DEVICES)
def test_names_labels_and_weights_may_be_tensors_too(device):
    labels, weights = (X[:, 0] > 0).astype(np.int64), np.arange(N) % 17 / 8
    whole = clone(CLASSIFIER).fit(X, labels, ids=NUMBERS, subjects=OWNERS, sample_weight=weights)
    given = [torch.tensor(part, device=device) for part in (X, labels, NUMBERS, OWNERS)]
    for engine in (None, small(Torch(device))):
        clf = clone(CLASSIFIER).set_params(engine=engine)
        clf.fit(*given, sample_weight=torch.tensor(weights, device=device))
        assert clf.state_digest() == whole.state_digest()
        assert clf.classes_.dtype == np.int64
    clf.forget(ids=torch.tensor(whole.core_ids_[:5].copy(), device=device))
    whole.forget(ids=whole.core_ids_[:5])
    assert clf.state_digest() == whole.state_digest()


@pytest.mark.parametrize("device", DEVICES)
def test_predictions_are_those_for_the_array(device):
    clf = clone(CLASSIFIER).fit(X, Y)
    for dtype in DTYPES:
        rows = torch.tensor(X).to(device, dtype)
        assert np.array_equal(clf.decision_function(rows), clf.decision_function(as_array(rows)))
        assert np.array_equal(clf.predict(rows), clf.predict(as_array(rows)))


def test_regressions_and_kernels_take_tensors():
    rows, targets = torch.tensor(X), X[:, 1].astype(float)
    regressor = ErasableRegressor((-10, 10), threshold=0.05)
    plain = clone(regressor).fit(X, targets)
    learnt = clone(regressor).set_params(engine=small(Torch("cpu"))).fit(rows, torch.tensor(targets))
    assert learnt.state_digest() == plain.state_digest()
    assert np.array_equal(learnt.predict(rows), plain.predict(X))
    kernel = ErasableKernelClassifier(threshold=0.5)
    assert clone(kernel).fit(rows, Y).state_digest() == clone(kernel).fit(X, Y).state_digest()


def test_rows_that_are_sent_are_sent_as_arrays():
    sent = pickle.loads(pickle.dumps(DeviceRows(torch.tensor(X).bfloat16())))
    assert type(sent) is np.ndarray
    assert sent.dtype == np.float32
    with small(Local(processes=1)) as engine:
        clf = clone(CLASSIFIER).set_params(engine=engine).fit(torch.tensor(X), Y)
    assert clf.state_digest() == clone(CLASSIFIER).fit(X, Y).state_digest()


# -- where rows are ------------------------------------------------------------------------------------------------


def test_a_kernel_copies_a_block_at_a_time(copied, monkeypatch):
    from erasable.core import kernels

    monkeypatch.setattr(kernels, "_BLOCK", 100 * D)
    rows = torch.tensor(X)
    kernel = ErasableKernelClassifier(threshold=0.5)
    plain = clone(kernel).fit(X, Y)
    clf = clone(kernel).fit(rows, Y)
    assert clf.state_digest() == plain.state_digest()
    assert np.array_equal(clf.predict(rows), plain.predict(X))
    assert sum(copied) == 2 * len(X)
    assert max(copied) == 100
    clf = clone(kernel).set_params(engine=small(Local(threads=2))).fit(rows, Y)
    assert clf.state_digest() == plain.state_digest()


def test_only_rows_that_survive_are_copied(copied):
    rng = np.random.default_rng(0)
    many = torch.tensor(rng.standard_normal((20_000, D)), dtype=torch.float32)
    labels = many[:, 0] > 0
    clf = ErasableClassifier(threshold=0.05, engine=Torch("cpu"), feature_map=None).fit(many[:500], labels[:500])
    copied.clear()
    report = clf.learn(many[500:], labels[500:])
    assert sum(copied) == sum(one.survivors for one in report.rounds) < 2000
    assert report.rows == 19_500


def test_the_first_round_copies_few_and_the_others_look_at_sixteen_times_as_many_at_most(copied, monkeypatch):
    from erasable.models import row_source

    monkeypatch.setattr(row_source, "_FIRST_BYTES", 2**12)
    monkeypatch.setattr(row_source, "_FIRST_ROWS", 10)
    many = torch.tensor(np.random.default_rng(0).standard_normal((50_000, D)), dtype=torch.float32)
    labels = many[:, 0] > 0
    clf = ErasableClassifier(threshold=0.02, engine=small(Torch("cpu"), 2**16), feature_map=None)
    report = clf.learn(many, labels)
    assert len(report.rounds) >= 4
    assert sum(one.survivors for one in report.rounds) <= sum(copied) < 2000
    right = ErasableClassifier(threshold=0.02, feature_map=None).fit(many.numpy(), labels.numpy())
    assert clf.state_digest() == right.state_digest()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("one_at_a_time", [False, True])
def test_what_a_map_makes_on_a_device_stays_there(copied, device, one_at_a_time):
    weights = torch.tensor(np.random.default_rng(1).standard_normal((D, 4)), device=device)

    def embed(rows):
        return torch.tanh(torch.tensor(rows, device=device) @ weights).half()

    made = FrozenMap(embed, "four numbers", 4, one_at_a_time=one_at_a_time)
    assert type(made(X)) is np.ndarray
    assert np.array_equal(made(X[:50]), embed(X[:50].astype(float)).float().cpu().numpy()) or one_at_a_time
    whole = in_two_calls(ErasableClassifier(threshold=0.05, feature_map=made))
    plain = sum(copied)
    copied.clear()
    clf = ErasableClassifier(threshold=0.05, feature_map=made, engine=small(Torch(device)))
    assert in_two_calls(clf) == whole
    assert 0 < sum(copied) < plain


def test_a_map_that_makes_no_numbers_on_a_device_is_refused():
    made = FrozenMap(lambda rows: torch.full((len(rows), 2), torch.nan), "broken", 2)
    with pytest.raises(InputError, match=r"'broken' gave 10 entries that are NaN"):
        made(X[:5])


# -- what is refused -----------------------------------------------------------------------------------------------


def test_gradients_play_no_part():
    rows = torch.tensor(X, requires_grad=True)
    clf = clone(CLASSIFIER).set_params(engine=small(Torch("cpu"))).fit(rows, Y)
    assert clf.state_digest() == clone(CLASSIFIER).fit(X, Y).state_digest()
    assert np.array_equal(clf.predict(rows * 2), clf.predict(X * 2))


@pytest.mark.parametrize("engine", [None, "torch"])
def test_numbers_that_are_not_finite_are_refused_and_nothing_is_learnt(engine):
    clf = clone(CLASSIFIER).set_params(engine=engine).fit(torch.tensor(X[:100]), Y[:100])
    before = clf.state_digest()
    for value, message in ((np.nan, "contains NaN: .* fill"), (np.inf, "contains infinity")):
        rows = torch.tensor(X[100:])
        rows[7, 3] = value
        with pytest.raises(InputError, match=message):
            clf.partial_fit(rows, Y[100:])
        assert clf.state_digest() == before
        with pytest.raises(InputError, match=message):
            clf.predict(rows)
    large = torch.full((1000, D), 6e4, dtype=torch.float16)  # their sum is beyond their type, and they are not
    assert DeviceRows(large).unfit() == 0


def test_tensors_of_another_shape_or_kind_are_refused():
    clf = clone(CLASSIFIER).set_params(engine="torch").fit(torch.tensor(X), Y)
    with pytest.raises(InputError, match="5 features"):
        clf.partial_fit(torch.tensor(X[:, :5]), Y)
    with pytest.raises(InputError, match="inconsistent numbers of samples"):
        clf.partial_fit(torch.tensor(X), Y[:5])
    with pytest.raises(InputError, match="2D"):
        clf.predict(torch.tensor(X[0]))
    with pytest.raises(InputError, match="minimum of 1"):
        clf.predict(torch.tensor(X[:0]))
    with pytest.raises(InputTypeError, match="sparse tensors"):
        clf.predict(torch.tensor(X).to_sparse())
    with pytest.raises(InputError, match="norm above"):
        clone(CLASSIFIER).set_params(scaling=1.0, engine="torch").fit(torch.tensor(X), Y)
    whole = np.round(X).astype(np.int64)
    assert np.array_equal(clf.predict(torch.tensor(whole)), clf.predict(whole))


def test_what_is_a_tensor():
    assert is_tensor(torch.nn.Parameter(torch.ones(2)))
    assert not is_tensor(X)
    assert on_host(X) is X


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("options", [{}, {"missing": "indicator"}, {"selection": "independent"}])
def test_default_models_take_tensors_and_missing_cells_like_arrays(device, options):
    rows = np.where(np.arange(N)[:, None] % 5 == 0, np.nan, X) if "missing" in options else X
    right = ErasableClassifier(**options).fit(rows, Y)
    there = torch.tensor(rows).to(device)
    for engine in (None, small(Torch(device=device))):
        other = ErasableClassifier(engine=engine, **options).fit(there, Y)
        assert other.state_digest() == right.state_digest()
        assert other.predict(there).tolist() == right.predict(rows).tolist()
    for cell in (np.nan, np.inf):
        if not (np.isnan(cell) and options.get("missing")):
            there[1, 0] = cell
            with pytest.raises(InputError, match="NaN" if np.isnan(cell) else "infinity"):
                ErasableClassifier(**options).fit(there, Y)
