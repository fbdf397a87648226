"""The Margin set of the paper: points of the unit sphere with a gap around a plane through its centre."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, betaincinv

from erasable.errors import ConfigurationError
from erasable.tables import Table
from erasable.validation import number_between, seed, whole_number

_BLOCK = 2**20  # numbers drawn together
_SLACK = 1e-13  # far more than the rounding error of u'x
_TAIL = 1e-3  # a part of the sphere smaller than this is sampled by rejection


def make_margin(
    n_samples: int = 200_000,
    n_features: int = 100,
    margin: float = 0.1,
    *,
    heights: str = "sphere",
    random_state: int = 0,
) -> Table:
    """Rows of norm 1 on the part of the unit sphere where ``|u'x| > margin``, labelled -1 or 1 by the sign of ``u'x``.

    The direction u is uniform on the sphere and depends on the seed and the number of features alone. The component
    along u is drawn from its distribution, so that no margin takes long, and the direction across u is uniform.

    Parameters
    ----------
    n_samples, n_features : int
    margin : float, default=0.1
        At least 0, at most ``1 - 1e-12``. Every row keeps it after rounding too.
    heights : "sphere" or "uniform", default="sphere"
        How ``|u'x|`` is distributed: as for rows uniform on that part of the sphere, nearly all close to the margin
        where there are many features; or uniformly between the margin and 1.
    random_state : int, default=0
        Decides everything.

    Examples
    --------
    >>> from erasable.research.sets import make_margin
    >>> make_margin(1000, 20, margin=0.2)
    <Table 'margin': 1000 rows × 20 features, dense float64>
    """
    n, d = whole_number(n_samples, "n_samples"), whole_number(n_features, "n_features")
    margin = number_between(margin, "margin", 0, 1, closed="low")
    if margin > 1 - 1e-12:
        raise ConfigurationError(f"margin must be at most 1 - 1e-12, to be kept after rounding; got {margin!r}.")
    if heights not in ("sphere", "uniform"):
        raise ConfigurationError(f"heights must be 'sphere' or 'uniform'; got {heights!r}.")
    rng = np.random.default_rng(seed(random_state))
    mirror = _mirror(d, rng)
    X, y = np.empty((n, d)), np.empty(n, np.int64)
    step = max(1, _BLOCK // d)
    for start in range(0, n, step):
        block = X[start : start + step]
        if heights == "uniform" and d > 1:
            t = np.clip(rng.uniform(margin, 1.0, len(block)), margin + _SLACK, 1)
        else:
            t = _heights(len(block), d, margin, rng)
        y[start : start + step] = np.where(rng.random(len(t)) < 0.5, -1, 1)
        block[:, 0] = t * y[start : start + step]
        if d > 1:
            rest = rng.standard_normal((len(t), d - 1))
            rest *= (np.sqrt((1 - t) * (1 + t)) / np.linalg.norm(rest, axis=1))[:, None]
            block[:, 1:] = rest
        block -= np.outer(2 * (block @ mirror), mirror)
    return Table(X, y, name="margin")


def _mirror(d: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Unit normal of a mirror that sends the first axis to a uniform direction u."""
    direction = rng.standard_normal(d)
    direction /= np.linalg.norm(direction)
    direction[0] += 1 if direction[0] >= 0 else -1
    return direction / np.linalg.norm(direction)


def _heights(n: int, d: int, margin: float, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Numbers distributed as ``|u'x|`` for x uniform on the sphere, given that it exceeds the margin.

    Its square is Beta(1/2, (d-1)/2), inverted on the part above the margin. Where that part is so small that the
    inverse loses digits, or is nothing in float64, ``1 - t**2`` is drawn from the nearly equal density of a power and
    accepted with probability ``margin / t``, which is close to 1 there.
    """
    if d == 1:
        return np.ones(n)
    half = (d - 1) / 2
    below = float(betainc(0.5, half, margin**2))
    if 1 - below > _TAIL:
        t = np.sqrt(betaincinv(0.5, half, below + (1 - below) * rng.random(n)))
    else:
        t = np.empty(0)
        widest = (1 - margin) * (1 + margin)
        while len(t) < n:
            drawn = np.sqrt(1 - widest * rng.random(n) ** (1 / half))
            t = np.append(t, drawn[rng.random(n) * drawn <= margin])
    kept: npt.NDArray[np.float64] = np.clip(t[:n], margin + _SLACK, 1)
    return kept
