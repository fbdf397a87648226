"""Texts as hashed counts: no vocabulary is learnt, so none has to be forgotten.

Loads scikit-learn for its hash when texts are mapped, and not before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from erasable.core.names import is_unicode
from erasable.errors import ConfigurationError, InputError, InputTypeError
from erasable.features._base import MOST_FEATURES, TEXTS, FeatureMap, set_field
from erasable.validation import choice, switch, whole_number

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

    def __call__(self, X: Any) -> Any:
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


def as_texts(X: Any) -> npt.NDArray[np.object_]:
    """Texts as a one-dimensional array of plain strings.

    Raises
    ------
    InputError, InputTypeError
        For anything else; no text is quoted.
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
