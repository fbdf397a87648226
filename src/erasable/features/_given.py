"""Maps of texts, and of a function of the caller's own. No vocabulary is learnt, so none has to be forgotten."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from erasable.core.arrays import DeviceRows, on_host, summed
from erasable.core.names import is_unicode
from erasable.errors import ConfigurationError, InputError, InputTypeError
from erasable.features._base import MOST_FEATURES, NUMBERS, TEXTS, FeatureMap, Raw, as_numbers, set_field
from erasable.validation import choice, function, switch, whole_number

_ANALYZERS = ("word", "char", "char_wb")


@dataclass(frozen=True, eq=False)
class HashedText(FeatureMap):
    """A map of texts to counts of their words or characters, each hashed to a column; nothing is learnt.

    The hash is scikit-learn's ``HashingVectorizer`` (signed 32-bit MurmurHash3; half of the terms count as minus one,
    so that collisions cancel on average), without a norm: the classifier's ``scaling`` does that. A text without
    words becomes a row of zeros.

    Parameters
    ----------
    n_features_out : int, default=1024
        Columns. The model holds matrices of this size squared, so stay below some thousands.
    ngram_range : pair of int, default=(1, 1)
        Shortest and longest run of words (or characters) that counts as a term.
    analyzer : "word", "char" or "char_wb", default="word"
        Words of two or more letters or digits; characters; or characters within words.
    lowercase : bool, default=True

    Notes
    -----
    *Law*: bitwise. A mapped text depends on that text and the parameters alone. What a letter is, and its lower case,
    are those of Python's Unicode tables.

    Examples
    --------
    >>> from erasable.features import HashedText
    >>> HashedText(16)(["to be or not to be", ""]).toarray().sum(axis=1).shape
    (2,)
    """

    n_features_out: int = 2**10
    ngram_range: tuple[int, int] = (1, 1)
    analyzer: str = "word"
    lowercase: bool = True
    takes = TEXTS

    def __post_init__(self) -> None:
        set_field(self, "n_features_out", whole_number(self.n_features_out, "n_features_out", 1, MOST_FEATURES))
        pair: Any = self.ngram_range
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ConfigurationError(f"ngram_range must be a pair (shortest, longest); got {type(pair).__name__}.")
        low = whole_number(pair[0], "the shortest of ngram_range", 1, 100)
        set_field(self, "ngram_range", (low, whole_number(pair[1], "the longest of ngram_range", low, 100)))
        set_field(self, "analyzer", choice(self.analyzer, "analyzer", _ANALYZERS))
        set_field(self, "lowercase", switch(self.lowercase, "lowercase"))

    def __call__(self, X: Raw) -> Any:
        """Counts, a CSR matrix of shape (n, n_features_out)."""
        from sklearn.feature_extraction.text import HashingVectorizer  # only here: a second to load

        texts = as_texts(X)
        if not len(texts):
            return sp.csr_matrix((0, self.n_features_out))
        vectorizer = HashingVectorizer(
            n_features=self.n_features_out,
            ngram_range=self.ngram_range,
            analyzer=self.analyzer,
            lowercase=self.lowercase,
            alternate_sign=True,
            norm=None,
            dtype=np.float64,
        )
        return vectorizer.transform(texts.tolist())

    def describe(self) -> dict[str, Any]:
        """The parameters, ready for JSON."""
        return {
            "map": "hashed-text",
            "n_features_out": self.n_features_out,
            "ngram_range": list(self.ngram_range),
            "analyzer": self.analyzer,
            "lowercase": self.lowercase,
        }


def as_texts(X: Raw) -> npt.NDArray[np.object_]:
    """Texts as a one-dimensional array of plain strings.

    Raises InputError or InputTypeError for anything else; no text is quoted.
    """
    if isinstance(X, str | bytes):
        raise InputTypeError("a list of texts is required, one for each row; got a single one: put it into a list.")
    if len(getattr(X, "shape", (0,))) != 1:
        raise InputError(f"texts must be one-dimensional; got shape {tuple(X.shape)}: pass one column.")
    if isinstance(X, dict | set | frozenset) or not hasattr(X, "__iter__"):
        raise InputTypeError(f"texts must be a list or an array; got {type(X).__name__}.")
    values = X.to_pylist() if hasattr(X, "to_pylist") else list(X)
    kinds = {type(v).__name__ for v in values if not isinstance(v, str)}
    if kinds:
        count = sum(not isinstance(v, str) for v in values)
        raise InputTypeError(
            f"{count} of {len(values)} texts are no strings but {', '.join(sorted(kinds))}: this map takes texts. "
            "Decode bytes, fill in what is missing, and use another map for numbers."
        )
    broken = sum(not is_unicode(v) for v in values)
    if broken:
        raise InputError(f"{broken} of {len(values)} texts are not valid Unicode (lone surrogates): decode them anew.")
    texts = np.empty(len(values), dtype=object)
    texts[:] = [str(v) for v in values]
    return texts


@dataclass(frozen=True, eq=False)
class FrozenMap(FeatureMap):
    """A map that calls a function of yours and checks what comes back.

    Parameters
    ----------
    function : callable
        Gets raw rows (a float64 array or CSR matrix of rows, or a list of texts) and gives as many rows of
        ``n_features_out`` finite numbers: an array, a sparse matrix, a tensor of PyTorch, or what NumPy can make an
        array of. A tensor on a GPU stays there for ``engine="torch"`` to screen; rows that are kept are copied. A model
        is pickled with its map, so for that the function must be picklable: defined in a module, not a lambda.
    name : str
        Stands for the function in ``describe`` and in comparisons. Name the version too, and change it whenever the
        function changes: nothing else notices.
    n_features_out : int
    takes : "numbers" or "texts", default="numbers"
        What the function gets.
    one_at_a_time : bool, default=False
        Call the function with each row alone. Slower; for functions whose output for a row depends, if only in the
        last bit, on the other rows of a call, as that of most networks does.

    Notes
    -----
    *Assumptions*, which cannot be checked here: the function was not fitted on rows that may have to be forgotten,
    and it gives a row the same output every time, alone or in a batch. Without the second the stored state is
    still, bitwise, what learning its own mapped rows gives, and ``verify`` confirms it; but mapping the same raw rows
    again may give another state.

    Examples
    --------
    >>> import numpy as np
    >>> from erasable.features import FrozenMap
    >>> squares = FrozenMap(np.square, "squares", 2)
    >>> squares([[1.0, 2.0], [3.0, -4.0]]).tolist()
    [[1.0, 4.0], [9.0, 16.0]]
    """

    function: Callable[[Any], Any] = field(repr=False)
    name: str
    n_features_out: int
    _: KW_ONLY
    takes: str = NUMBERS
    one_at_a_time: bool = False
    assumptions: ClassVar[tuple[str, ...]] = (
        "the map was not fitted on rows that may have to be forgotten",
        "the map gives a row the same output every time, alone or in a batch",
    )

    def __post_init__(self) -> None:
        function(self.function, "function")
        name: Any = self.name
        if not isinstance(name, str) or not name.strip():
            raise ConfigurationError("name must be a text that tells this function from every other.")
        set_field(self, "n_features_out", whole_number(self.n_features_out, "n_features_out", 1, MOST_FEATURES))
        set_field(self, "takes", choice(self.takes, "takes", (NUMBERS, TEXTS)))
        set_field(self, "one_at_a_time", switch(self.one_at_a_time, "one_at_a_time"))

    def __call__(self, X: Raw) -> Any:
        """Mapped rows, shape (n, n_features_out): float32, float64 or CSR."""
        return on_host(self.mapped(X))

    def mapped(self, X: Raw) -> Any:
        """The same, where the function leaves them."""
        X = as_texts(X) if self.takes == TEXTS else as_numbers(X)
        n = X.shape[0]
        if not n:
            return np.empty((0, self.n_features_out))
        if not self.one_at_a_time:
            return self._checked(X)
        parts = [self._checked(X[i : i + 1]) for i in range(n)]
        if isinstance(parts[0], DeviceRows):
            return DeviceRows.joined(parts)
        return sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)

    def _checked(self, X: Raw) -> Any:
        """What the function makes of these rows, once it is found to be rows of finite numbers."""
        n, failure = X.shape[0], None
        given = X.tolist() if self.takes == TEXTS else X.copy()  # the function may write to what it gets
        try:
            Z = self.function(given)
            made = DeviceRows.of(Z)
            Z = Z.tocsr() if sp.issparse(Z) else np.asarray(on_host(Z)) if made is None else made
        except Exception as error:
            failure = type(error).__name__
        if failure is not None:  # raised here and not above, where it would carry the original, and with it rows, along
            raise InputError(
                f"the feature map {self.name!r} failed on a batch of {n} rows with {failure}. Its message may quote "
                "rows and is not repeated: call the function on the rows yourself to see it."
            )
        if Z.dtype.kind not in "fiub":
            raise ConfigurationError(
                f"the feature map {self.name!r} must give an array of real numbers; got dtype {Z.dtype}."
            )
        if Z.shape != (n, self.n_features_out):
            raise ConfigurationError(
                f"the feature map {self.name!r} must give an array of shape ({n}, {self.n_features_out}), one row for "
                f"each row it gets; got shape {tuple(Z.shape)}."
            )
        if Z.dtype not in (np.float32, np.float64):
            with np.errstate(over="ignore"):  # of a longer type; found below
                Z = Z.astype(np.float64)
        Z = summed(Z) if sp.issparse(Z) else Z
        if isinstance(Z, DeviceRows):
            unfit = Z.unfit()
        else:
            unfit = int(np.count_nonzero(~np.isfinite(Z.data if sp.issparse(Z) else Z)))
        if unfit:
            raise InputError(
                f"the feature map {self.name!r} gave {unfit} entries that are NaN or infinite for a batch of {n} rows: "
                "leave such rows out, or mend the function."
            )
        return Z

    def describe(self) -> dict[str, Any]:
        """The parameters, ready for JSON; the name stands for the function."""
        return {
            "map": "frozen",
            "name": self.name,
            "n_features_out": self.n_features_out,
            "takes": self.takes,
            "one_at_a_time": self.one_at_a_time,
        }
