"""PyTorch: the digest is that of the processor, on ties and near ties too; products in short formats are refused."""

from __future__ import annotations

import pickle
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

from erasable import ErasableClassifier, ErasableKernelClassifier, ErasableRegressor
from erasable.core.selector import RawRows
from erasable.engines import Torch, device
from erasable.engines.device import DeviceScreen
from erasable.errors import ConfigurationError, EngineError
from erasable.features import RandomFourierFeatures
from tests.engines.cases import CLASSIFIER, FIRST, IDS, OWNERS, X, Y, in_two_calls
from tests.oracle import OracleModel
from tests.strategies import assert_identical, problems

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
gpu = pytest.param(
    "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU on this machine")
)
DEVICES = ["cpu", gpu]


def engine_on(name: str, block_bytes: int = 3000) -> Torch:
    engine = Torch(name)
    engine.block_bytes = block_bytes
    return engine


@contextmanager
def counting():
    """How many rows were screened on a device, call by call."""
    asked, real = [], device._Ready.survivors
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device._Ready, "survivors", lambda self, rows: asked.append(len(rows)) or real(self, rows))
        yield asked


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_digest_is_that_of_the_processor(name, dtype):
    with_engine = clone(CLASSIFIER).set_params(engine=engine_on(name))
    with counting() as screened:
        assert in_two_calls(with_engine, X.astype(dtype)) == in_two_calls(clone(CLASSIFIER))
    assert sum(screened) == len(X) - FIRST


@pytest.mark.parametrize("name", DEVICES)
@settings(max_examples=40, deadline=None)
@given(problem=problems(order_keys=[0], weighted=True), block_bytes=st.sampled_from([40, 300, 2**20]), data=st.data())
def test_ties_and_near_ties_are_those_of_the_oracle(name, problem, block_bytes, data):
    setting, batch = problem
    clf, oracle = setting.classifier().set_params(engine=engine_on(name, block_bytes)), setting.oracle()
    cut = data.draw(st.integers(0, len(batch) - 1))
    for part in (batch.part(slice(cut)), batch.part(slice(cut, None))):
        part.learnt_by(clf)
        part.learnt_by(oracle)
    assert_identical(clf, oracle)


@pytest.mark.parametrize("name", DEVICES)
def test_other_scalings_maps_targets_and_sparse_rows(name):
    targets = X[:, 0].astype(float)
    for model, rows, answers in (
        (ErasableClassifier(threshold=0.02, scaling=9.0), X, Y),
        (ErasableClassifier(threshold=0.05, scaling=np.arange(1.0, 7.0)), X, Y),
        (ErasableClassifier(threshold=0.05, fit_intercept=False), X, Y),
        (ErasableClassifier(threshold=0.05, feature_map=RandomFourierFeatures(10)), X, Y),
        (ErasableClassifier(threshold=0.05), sparse.csr_array(X), Y),
        (ErasableClassifier(threshold=np.inf, sample_rate=0.1), X, Y),
        (ErasableRegressor((-20, 20), threshold=0.05), X, targets),
    ):
        with_engine = clone(model).set_params(engine=engine_on(name))
        found = in_two_calls(with_engine, rows, answers, subjects=None)
        assert found == in_two_calls(clone(model), rows, answers, subjects=None)


def screen_of(n: int, tau: float, d: int = 6) -> tuple[DeviceScreen, OracleModel, np.ndarray]:
    rng = np.random.default_rng(n)
    rows = rng.standard_normal((400, d)).astype(np.float32)
    clf = ErasableClassifier(threshold=tau).fit(rows[:n], rng.integers(2, size=n))
    return DeviceScreen(clf.model_.screening(), "cpu"), clf.model_, rows


@pytest.mark.parametrize("tau", [0.01, 0.1, 1.0])
def test_no_row_above_the_threshold_is_discarded_and_most_others_are(tau):
    from fractions import Fraction

    from erasable.core.deciding import exceeds

    screen, model, rows = screen_of(60, tau)
    c = model.configuration
    raw = RawRows(rows, c.grid)
    left = screen(raw)
    G = raw.take(np.arange(len(rows)))
    above = np.array([exceeds(g, model.sums.H, c.units, Fraction(tau))[0] for g in G])
    assert (left >= above).all()
    assert left.sum() <= above.sum() + 0.05 * len(rows)
    assert np.array_equal(left, screen.ready().test(torch.from_numpy(rows)).numpy())  # rows that are there already


@pytest.mark.parametrize("entry", [1e-30, 1e25, 0.0])
def test_rows_that_float32_may_lose_are_not_discarded(entry):
    screen, model, rows = screen_of(60, 0.5)
    rows[7] = entry
    assert screen(RawRows(rows, model.configuration.grid))[7]


def test_a_screen_can_be_sent():
    screen, model, rows = screen_of(60, 0.1)
    raw = RawRows(rows, model.configuration.grid)
    assert np.array_equal(pickle.loads(pickle.dumps(screen))(raw), screen(raw))


def test_some_rows_are_screened_as_they_are_among_all():
    screen, model, rows = screen_of(60, 0.1)
    grid, some, before = model.configuration.grid, np.arange(0, 400, 3), rows.copy()
    for dtype in (np.float32, np.float64):
        X = rows.astype(dtype)
        assert np.array_equal(screen(RawRows(X, grid, some)), screen(RawRows(X, grid))[some])
    assert np.array_equal(rows, before)


def test_rows_are_copied_to_a_device_whose_memory_is_not_seen_from_here():
    """Neither the processor nor CUDA: a tensor there is no array."""

    class There(torch.Tensor):
        def numpy(self):
            raise TypeError("can't convert a tensor of another device to numpy.")

    screen, model, rows = screen_of(60, 0.1)
    X = RawRows(rows.astype(np.float32), model.configuration.grid)
    wanted, ready = screen(X), screen.ready()
    lane, alive = ready._lanes(len(X))[0], torch.empty(len(X), dtype=torch.bool)
    lane.rows, ready.device = lane.rows.as_subclass(There), SimpleNamespace(type="elsewhere")
    for index in (None, np.arange(len(X))):
        alive.copy_(torch.from_numpy(~wanted))
        ready._queue(lane, device._unchanged(X), index, None, alive, False)
        assert np.array_equal(alive.numpy(), wanted)


# -- short formats ------------------------------------------------------------------------------------------------


def rounded(bits):
    def to(A):
        mantissa, exponent = np.frexp(A.numpy())
        return torch.from_numpy(np.ldexp(np.rint(np.ldexp(mantissa, bits)), exponent - bits).astype(np.float32))

    return to


real_mm = torch.mm


def short(bits):
    return lambda A, B, out=None: real_mm(rounded(bits)(A), rounded(bits)(B), out=out)


def short_second(A, B, out=None):
    return real_mm(A, rounded(11)(B), out=out)


def three_parts(A, B, out=None):
    """Products of two pieces of 8 bits of each factor, but for the smallest."""
    high, low = rounded(8)(A), A - rounded(8)(A)
    other, rest = rounded(8)(B), B - rounded(8)(B)
    return real_mm(high, other) + real_mm(high, rest) + real_mm(low, other)


@pytest.mark.parametrize("d", [1, 6, 64, 1500])
@pytest.mark.parametrize("product", [short(11), short(8), short_second, three_parts])
def test_a_probe_tells_products_in_short_formats(monkeypatch, d, product):
    where = torch.device("cpu")
    device.probe(torch, where, 70, d)
    monkeypatch.setattr(torch, "mm", product)
    with pytest.raises(EngineError, match="not in full float32"):
        device.probe(torch, where, 70, d)


def test_a_fit_is_refused_where_the_probe_fails_and_settings_are_put_back(monkeypatch):
    torch.set_float32_matmul_precision("high")
    try:
        in_two_calls(clone(CLASSIFIER).set_params(engine=engine_on("cpu")))
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")
    monkeypatch.setattr(torch, "mm", short(11))
    clf = clone(CLASSIFIER).set_params(engine=engine_on("cpu"))
    with pytest.raises(EngineError, match="not in full float32"):
        in_two_calls(clf)
    assert clf.state_digest() == clone(CLASSIFIER).fit(X[:FIRST], Y[:FIRST], IDS[:FIRST], OWNERS[:FIRST]).state_digest()


# -- memory, and what is no device --------------------------------------------------------------------------------


def test_where_memory_is_short_chunks_are_halved_and_then_it_is_given_up(monkeypatch):
    screen, model, rows = screen_of(60, 0.1)
    raw = RawRows(np.tile(rows, (4, 1)), model.configuration.grid)
    expected, ready = screen(raw), screen.ready()
    ready.step, asked = 2048, []
    real = type(ready).test

    def scarce(self, X, *rest):
        asked.append(len(X))
        if len(X) > most:
            raise torch.OutOfMemoryError
        return real(self, X, *rest)

    monkeypatch.setattr(type(ready), "test", scarce)
    most = 600
    assert np.array_equal(screen(raw), expected)
    assert asked[:2] == [1600, 1024]
    assert set(asked[2:]) == {512, 64}
    most = 10
    with pytest.raises(EngineError, match="too little free memory to screen 256 rows of 6 columns"):
        screen(raw)


def test_where_memory_is_short_from_the_beginning_too(monkeypatch):
    screen, _, _ = screen_of(60, 0.1)
    real, asked = device.probe, []

    def scarce(made, where, n, d):
        asked.append(n)
        if n > 3000:
            raise torch.OutOfMemoryError
        return real(made, where, n, d)

    monkeypatch.setattr(device, "probe", scarce)
    ready = screen.ready()
    assert ready.step == asked[-1] == 2048
    assert asked[0] == 2**16


def test_kernels_and_unknown_devices_are_refused():
    with pytest.raises(ConfigurationError, match="linear models"):
        ErasableKernelClassifier(threshold=0.5, engine=Torch("cpu")).fit(X, Y)
    clf = ErasableClassifier(threshold=0.05, engine=Torch("no such")).fit(X[:5], Y[:5])
    with pytest.raises(EngineError, match="no device"):
        clf.partial_fit(X[5:], Y[5:])
