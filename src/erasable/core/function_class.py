"""What a class of functions has to offer for rows to be selected by it and a predictor fitted from it.

The one quantity that selection looks at is how far two functions of the class F can disagree about a row x while they
agree about the rows Q that are kept already::

    D²(x; Q) = sup over f, g in F of (f(x) - g(x))² / (1 + sum over q in Q of (f(q) - g(q))²)

It only falls when rows join Q, whatever F is. Rows come in as the caller has them, become *encoded* rows once (what a
model stores), and every other method takes encoded rows: a decision is then a function of what is stored.

Protocols alone; ``classes`` has classes of functions, ``coresets`` the maps that ask them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from erasable.core.arrays import Array, Booleans, Float64s, Integers

Predictor = Callable[[Array], Float64s]


class Measure(Protocol):
    """``D²( . ; Q)`` for a set Q of encoded rows that grows.

    Laws: ``squared`` and ``exceeds`` change nothing, and give a row the same answer whatever the other rows are.
    After ``add`` no row's D² is larger than before. A measure may also have ``select(rows, tau)``, which returns what
    asking about one row after the other and adding it where it exceeds ``tau`` would return.
    """

    def squared(self, rows: Array) -> Float64s:
        """``D²(x; Q)`` of each row, as a rounded number to look at or to order by."""
        ...

    def exceeds(self, rows: Array, tau: float) -> Booleans:
        """Whether ``D²(x; Q) > tau``, for each row; decided exactly when the class is exact."""
        ...

    def add(self, rows: Array) -> None:
        """These rows, shape (k, columns), join Q."""
        ...


@runtime_checkable
class FunctionClass(Protocol):
    """A class F of functions with values in [0, 1], the probability that a row has the label +1.

    Attributes
    ----------
    exact : bool
        Whether ``exceeds`` is decided exactly, so that selection is a function of the rows and of nothing else.
    assumptions : tuple of str
        What has to be true for that; empty when nothing has to be assumed.
    """

    @property
    def exact(self) -> bool:
        """See above."""
        ...

    @property
    def assumptions(self) -> tuple[str, ...]:
        """See above."""
        ...

    def empty(self, n_features: int) -> Array:
        """Encoded rows, none of them; refuses a number of features that cannot work."""
        ...

    def encode(self, X: Array) -> Array:
        """Rows as a model stores them; row i depends on row i of ``X`` alone.

        Raises InputError or ConfigurationError when a row cannot be encoded.
        """
        ...

    def embed(self, X: Array) -> Array:
        """Rows to ask a predictor about; like ``encode``, but no finite row is refused for its size."""
        ...

    def holds(self, rows: Array) -> Booleans:
        """Whether each of these could be an encoded row: what a stored state is checked with."""
        ...

    def start(self, n_features: int) -> Measure:
        """The measure for an empty Q."""
        ...

    def fit(self, rows: Array, y01: Integers) -> Predictor:
        """The function of F that minimises the sum of ``(y - f(x))²``, for targets ``y = (1 + label) / 2`` in {0, 1}.

        It takes embedded rows, or encoded ones, and is a deterministic function of the rows and targets.
        """
        ...

    def widest(self, n_features: int) -> float:
        """A number that no row's ``D²`` exceeds: with a threshold at or above it nothing is ever selected."""
        ...

    def dimension(self, rows: Array) -> float:
        """An upper bound on the dimension D(F, S) of the class on these rows (section 5 of the paper)."""
        ...

    def rate(self, n_rows: int, delta: float, n_features: int) -> float | None:
        """R(T, delta) of Theorem 5.3, plus one; None where it is not known.

        With probability at least ``1 - delta / T``, the sum of ``(f*(x) - f(x))²`` over the rows of the best fit f is
        at most R(T, delta). One is added because the last step of Lemma F.1 needs that sum *plus one* to be at most
        R(T, delta).
        """
        ...

    def stability(self, n_rows: int) -> float | None:
        """beta(n) of Definition 5.4 under the squared loss; None where it is not known."""
        ...

    def describe(self) -> dict[str, Any]:
        """The configuration as plain JSON values, floats as hexadecimal text: it goes into the state's digest."""
        ...
