"""The quick confirmation that all rows are selected: it says yes only where the selector does."""

import numpy as np
import pytest

from erasable.core import confirming
from erasable.core.confirming import all_selected
from erasable.core.grid import Grid, to_grid
from erasable.core.selector import GridRows, select
from erasable.core.sums import add_rows, empty_gram, regulariser
from tests.waiting import until


def selected(n, d, tau, *, capacity=1.0, bits=15, seed=0, intercept=True, uneven=1.0):
    """Rows that are all selected when they are learnt in this order, and the parameters that selected them."""
    rng = np.random.default_rng(seed)
    grid = Grid(d, bits, intercept)
    X = rng.standard_normal((n, d)) * uneven ** -np.arange(d)
    G, units = to_grid(X, grid), regulariser(capacity, grid)
    parameters = {"grid": grid, "units": units, "tau": tau}
    kept = select(GridRows(G, grid), empty_gram(grid, units), 0, **parameters).index
    return G[kept], parameters


def sums_of(rows, grid, units, **_):
    H = empty_gram(grid, units)
    add_rows(H, rows, 1.0, grid)
    return H


def selects_all(rows, parameters, forced=None):
    """What the selector says, which decides every row."""
    H = empty_gram(parameters["grid"], parameters["units"])
    return len(select(GridRows(rows, parameters["grid"]), H, 0, **parameters, forced=forced).index) == len(rows)


CASES = [
    {"n": 3000, "d": 12, "tau": 0.02},
    {"n": 3000, "d": 12, "tau": 0.02, "capacity": 1e-4, "uneven": 2.0},
    {"n": 4000, "d": 40, "tau": 0.05, "bits": 8, "intercept": False},
    {"n": 5000, "d": 130, "tau": 0.04, "uneven": 1.02},
    {"n": 700, "d": 3, "tau": 0.3},
    {"n": 1, "d": 2, "tau": 0.5},
]


@pytest.mark.parametrize("case", CASES)
def test_rows_that_were_selected_are_confirmed(case):
    rows, parameters = selected(**case)
    calls = []
    assert all_selected(
        rows, sums_of(rows, **parameters), **parameters, progress=lambda done, n: calls.append((done, n))
    )
    assert calls[-1] == (len(rows), len(rows))


@pytest.mark.parametrize("case", CASES[:4])
@pytest.mark.parametrize("seed", range(4))
def test_after_rows_have_left_the_others_are_confirmed(case, seed):
    rows, parameters = selected(**case, seed=seed)
    left = rows[np.random.default_rng(seed).random(len(rows)) > 0.1]
    assert all_selected(left, sums_of(left, **parameters), **parameters)


@pytest.mark.parametrize("case", CASES[:5])
@pytest.mark.parametrize("where", [0.0, 0.3, 0.5, 0.99])
def test_a_row_that_is_not_selected_is_never_confirmed(case, where):
    """Rows in another order, or one of them twice, are not all selected, whatever the claim."""
    rows, parameters = selected(**case)
    at = int(where * len(rows))
    again = np.concatenate([rows, rows[[at]], rows[[at]], rows[[at]]])
    shuffled = np.random.default_rng(1).permutation(rows)
    higher = {**parameters, "tau": parameters["tau"] * 1.01}
    for some, given in ((again, parameters), (shuffled, parameters), (rows, higher)):
        found = all_selected(some, sums_of(some, **given), **given)
        assert not found or selects_all(some, given)
    assert not all_selected(rows, sums_of(rows, **higher), **{**parameters, "tau": parameters["tau"] * 1.5})


@pytest.mark.parametrize("case", CASES[:5])
@pytest.mark.parametrize("entry", [(0, 0), (2, 1), (-1, -1)])
@pytest.mark.parametrize("by", [1.0, -1.0, 2.0**40, 0.5, np.nan, np.inf, -(2.0**60)])
def test_a_wrong_claim_is_not_confirmed(case, entry, by):
    rows, parameters = selected(**case)
    H = sums_of(rows, **parameters)
    before = H.copy()
    H[entry] += by
    assert not all_selected(rows, H, **parameters)
    assert all_selected(rows, before, **parameters)


def test_the_claim_and_the_rows_are_not_changed():
    rows, parameters = selected(**CASES[0])
    H = sums_of(rows, **parameters)
    before = H.copy(), rows.copy()
    assert all_selected(rows, H, **parameters)
    np.testing.assert_array_equal(H, before[0])
    np.testing.assert_array_equal(rows, before[1])


def test_forced_rows_need_no_leverage():
    rows, parameters = selected(**CASES[0])
    repeated = np.concatenate([rows, rows[:50]])
    forced = np.arange(len(repeated)) >= len(rows)
    H = sums_of(repeated, **parameters)
    assert all_selected(repeated, H, **parameters, forced=forced)
    assert not all_selected(repeated, H, **parameters)


def at_the_threshold():
    """Rows on an axis: the third has a leverage of exactly one third, the last one of exactly one quarter."""
    grid = Grid(2, 8, False, None)
    rows = np.zeros((4, 2), dtype=grid.dtype)
    rows[:, 0] = 128
    return rows, {"grid": grid, "units": 128**2}


@pytest.mark.parametrize(
    ("tau", "expected"), [(0.25, False), (float(np.nextafter(0.25, 0)), True), (float(np.nextafter(0.25, 1)), False)]
)
def test_ties_are_decided_exactly(tau, expected):
    rows, parameters = at_the_threshold()
    parameters["tau"] = tau
    assert all_selected(rows, sums_of(rows, **parameters), **parameters) is expected
    assert selects_all(rows, parameters) is expected


@pytest.mark.parametrize("step", [0, 1, 3])
def test_fewer_steps_confirm_no_more(step, monkeypatch):
    """Whatever the quality of the bounds, what they confirm is selected."""
    monkeypatch.setattr(confirming, "_STEPS", step)
    for seed in range(6):
        rows, parameters = selected(**CASES[seed % 4], seed=seed)
        parameters["tau"] *= 1.0 + 0.002 * seed
        assert not all_selected(rows, sums_of(rows, **parameters), **parameters) or selects_all(rows, parameters)


def test_an_error_in_one_thread_stops_the_other():
    rows, parameters = selected(**CASES[0])

    def interrupted(done, n):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        all_selected(rows, sums_of(rows, **parameters), **parameters, progress=interrupted)


def test_an_error_going_backward_stops_the_way_forward(monkeypatch):
    rng, grid = np.random.default_rng(0), Grid(3, 8, False)
    rows, seen = to_grid(rng.standard_normal((4000, 3)), grid), []

    def fails(self, H):
        raise IndexError("on the way back")

    def watch(done, of):
        seen.append(done)
        until(lambda: walks[0].stopped)

    walks, made = [], confirming._Walk
    monkeypatch.setattr(confirming, "_Walk", lambda *of: walks.append(made(*of)) or walks[-1])

    monkeypatch.setattr(made, "backward", fails)
    monkeypatch.setattr(confirming, "_MOST", 128)
    H = empty_gram(grid, 10**6)
    add_rows(H, rows)
    with pytest.raises(IndexError, match="on the way back"):
        all_selected(rows, H, grid=grid, units=10**6, tau=1e-9, progress=watch)
    assert len(seen) == 1


def test_a_claim_that_leaves_a_singular_matrix_is_not_confirmed():
    """What is claimed, without the second row, has no inverse: there is no leverage to compare."""
    rows, claimed = np.array([[50, -50], [50, 50]], dtype=np.int16), np.array([[7500.0, 0.0], [-2500.0, 7500.0]])
    assert not all_selected(rows, claimed, grid=Grid(2, 8, False, None), units=100, tau=1.1)


def test_lower_bounds_hold_against_rational_leverages():
    """Of every row that the first product or a bound confirms, the exact leverage is above the threshold."""
    from erasable.core.deciding import exceeds

    rows, parameters = selected(400, 6, 0.03, capacity=0.01)
    grid, units, tau = parameters["grid"], parameters["units"], parameters["tau"]
    H, walk = (
        sums_of(rows, **parameters),
        confirming._Walk(rows, grid, units, tau * 1.1, np.zeros(400, dtype=bool), None),
    )
    low = len(rows) // 2
    sure, opened = walk._sure(rows[low:], np.asfortranarray(np.tril(H)), np.zeros(len(rows) - low, dtype=bool))
    assert opened
    assert sure.any()
    for i in np.flatnonzero(sure):
        before = sums_of(rows[: low + i], **parameters)
        assert exceeds(rows[low + i], before, units, tau * 1.1)[0]


@pytest.mark.parametrize("d", [1, 2, 40])
def test_the_bound_on_a_norm_is_above_it_and_close(d):
    rng = np.random.default_rng(d)
    for B in (rng.random((d, d)), np.tril(rng.random((d, d)) ** 9), np.diag(10.0 ** -np.arange(d)), np.eye(d)):
        true = np.linalg.norm(B, 2)
        assert true <= confirming._norm(B) <= 1.5 * true


@pytest.mark.parametrize("case", [*CASES[:4], {"n": 900, "d": 7, "tau": 0.02, "bits": 20, "uneven": 3.0}])
def test_float32_vectors_are_within_their_bounds(case):
    rows, parameters = selected(**case)
    grid, units = parameters["grid"], parameters["units"]
    H = sums_of(rows, **parameters)
    M = np.linalg.inv(np.linalg.cholesky(H))
    white = confirming._whitened(rows, np.tril(M), H, grid, units)
    exact = rows.astype(np.float64) @ np.tril(M).T
    assert (np.linalg.norm(white.Y - exact, axis=1) <= white.product).all()
    assert (white.lengths_at_least() ** 2 <= np.einsum("ij,ij->i", exact, exact)).all()


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("off", [0.0, 1e-4, 3e-3])
def test_rows_after_a_row_lower_its_leverage_by_no_less_than_is_said(seed, off):
    """However the vectors are off, by as much as they may be."""
    rng = np.random.default_rng(seed)
    m, d = 300, 20
    exact = np.linalg.qr(rng.standard_normal((m, d)))[0] * 0.9 * 1.2 ** -np.arange(d)
    errors = rng.standard_normal((m, d)) if seed % 2 else exact + 0.0  # at random, or all too long
    Y = (exact + off * errors / np.linalg.norm(errors, axis=1)[:, None]).astype(np.float32)
    length = np.linalg.norm(Y, axis=1).astype(np.float64)
    white = confirming._Whitened(Y, length, off, 0.0, 2.0 * (d + 8) * confirming.U32)
    true = np.empty(m)
    for i in range(m):
        A = np.eye(d) - exact[i + 1 :].T @ exact[i + 1 :]
        true[i] = exact[i] @ np.linalg.solve(A, exact[i]) - exact[i] @ exact[i]
    asked, settled = np.arange(0, m, 2), 0
    for share in (0.5, 0.9, 0.97, 1.0 + 1e-9):
        left, W = white.not_above(asked, true[asked] * share)
        certain = np.setdiff1d(asked, left)
        settled += len(certain)
        assert W.shape == (len(left), d)
        if share > 1.0:
            assert not (true[certain] > 1e-12).any()
    assert settled or off > 1e-3
