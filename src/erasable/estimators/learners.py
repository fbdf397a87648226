"""Any scikit-learn classifier as a part of a model that forgets: one class, or none, must not stop it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import clone, is_regressor
from sklearn.neighbors import BallTree, KDTree
from sklearn.utils.validation import has_fit_parameter

from erasable.core.layout import Tensors, canonical_json, digest_of, parts
from erasable.core.names import Key, key_tensors, kind_of, write_label
from erasable.coresets import CoreSetMap
from erasable.errors import ConfigurationError
from erasable.models.inputs import array_of, encode, pick

_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic)


class Constant:
    """Predicts the only class there is."""

    def __init__(self, code: int) -> None:
        self.code = code

    def predict(self, X: Any) -> npt.NDArray[np.intp]:
        """The same class for every row."""
        return np.full(X.shape[0], self.code, dtype=np.intp)


def check_estimator_parameter(estimator: Any, name: str = "estimator") -> None:
    """Refuse a base estimator that cannot be cloned, fitted or asked."""
    able = all(hasattr(estimator, method) for method in ("get_params", "fit", "predict"))
    if isinstance(estimator, type) or not able or is_regressor(estimator):
        raise ConfigurationError(
            f"{name} must be a scikit-learn classifier (an instance with fit and predict); "
            f"got {f'the class {estimator.__name__}' if isinstance(estimator, type) else type(estimator).__name__}."
        )


@dataclass(frozen=True, eq=False, repr=False)
class SelectedRows:
    """Core rows in order of selection: a float64 array or CSR in canonical form, with their labels and ids."""

    rows: Any
    labels: list[Any]
    ids: list[Key]

    def __post_init__(self) -> None:
        if not isinstance(self.rows, np.ndarray):
            object.__setattr__(self, "rows", _without_history(self.rows))

    @classmethod
    def chosen(cls, X: Any, y: npt.NDArray[Any], keys: Sequence[Key], index: npt.NDArray[np.intp]) -> SelectedRows:
        """Copies of the rows at these positions."""
        if isinstance(X, np.ndarray):
            rows = X[index].astype(np.float64, order="C", copy=False)
        else:
            rows = sp.csr_array(X[index], dtype=np.float64)
            rows.sum_duplicates()
            rows.eliminate_zeros()
            if max(rows.shape[1], rows.nnz) < 2**31:  # the width of the positions is no trace of other rows
                rows.indices, rows.indptr = rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
        return cls(rows, pick(y, index), pick(keys, index))

    def take(self, index: list[int]) -> SelectedRows:
        """Copies of some of them."""
        return SelectedRows(self.rows[index], [self.labels[i] for i in index], [self.ids[i] for i in index])

    @property
    def n_classes(self) -> int:
        """How many classes they are of."""
        return len(set(self.labels))

    def tensors(self) -> Tensors:
        """The rows in the layout of files: 64-bit integers with the bits of the numbers, and where they stand."""
        if isinstance(self.rows, np.ndarray):
            return {"rows": ("I64", self.rows.view(np.int64))}
        values = {"data": self.rows.data.view(np.int64), "indices": self.rows.indices, "ends": self.rows.indptr}
        return {f"rows.{name}": ("I64", array) for name, array in values.items()}

    def digest(self) -> str:
        """SHA-256 of the rows, labels and ids in order."""
        meta = {
            "n_features": int(self.rows.shape[1]),
            "layout": "dense" if isinstance(self.rows, np.ndarray) else "csr",
            "classes": [write_label(c) for c in sorted(set(self.labels))],
            "class_kind": kind_of(self.labels[0]) if self.labels else None,
            "id_kind": kind_of(self.ids[0]) if self.ids else None,
        }
        labels: Tensors = {"labels": ("I32", encode(self.labels)[1])}
        return digest_of(parts(meta, {**self.tensors(), **labels, **key_tensors("ids", self.ids)}))


def _without_history(rows: Any) -> sp.csr_array:
    """CSR in canonical form that says so: SciPy remembers which of its forms were asked for, and pickles it."""
    n, d = rows.shape
    plain = sp.csr_array((rows.data, rows.indices, rows.indptr), shape=(int(n), int(d)))
    plain.has_canonical_format = True
    return plain


def train_on(core: SelectedRows, core_set: CoreSetMap, base: Any, reproducible: bool) -> tuple[SelectedRows, Any]:
    """The learner that these core rows give, and those of them that it keeps."""
    if core.n_classes < 2:
        return core, Constant(0) if core.ids else None
    rows, labels = core.rows.copy(), array_of(core.labels)  # a learner may write to its rows, or hold on to them
    if forgets(base):
        return agreed(core, clone(base).fit(rows, labels, ids=core.ids), core_set)
    return core, (seeded(base, core.digest()) if reproducible else clone(base)).fit(rows, labels)


def agreed(core: SelectedRows, learner: Any, core_set: CoreSetMap) -> tuple[SelectedRows, Any]:
    """Core rows without those that the learner, having a core set of its own, does not keep."""
    if not hasattr(learner, "core_ids_"):
        return core, learner
    kept = set(learner.core_ids_.tolist())
    index = [i for i, key in enumerate(core.ids) if key in kept]
    if len(index) == len(core.ids):
        return core, learner
    if not core_set.stable:
        raise ConfigurationError("a core-set map that is not stable needs a learner that keeps every row it is given.")
    core = core.take(index)
    return core, learner if core.n_classes > 1 else Constant(0) if core.ids else None


def forgets(estimator: Any) -> bool:
    """Whether it is an unlearning algorithm: it takes ids when it is fitted and forgets by them."""
    return hasattr(estimator, "forget") and bool(has_fit_parameter(estimator, "ids"))


def seeded(estimator: Any, material: str) -> Any:
    """An unfitted copy in which every ``random_state`` that is None, of parts too, is drawn from the material."""
    copy = clone(estimator)
    unset = [k for k, v in copy.get_params().items() if v is None and k.split("__")[-1] == "random_state"]
    for name in sorted(unset):
        drawn = hashlib.sha256(f"{material} {name}".encode()).digest()
        copy.set_params(**{name: int.from_bytes(drawn[:4], "little")})
    return copy


def described(value: Any) -> Any:
    """A parameter, or an estimator with all of its parameters, as values that JSON can hold; nothing is rounded.

    What JSON cannot hold is given by its ``repr``, less the address in memory.
    """
    match value:
        case np.generic():
            return described(value.item())
        case None | bool() | str():
            return value
        case int():
            return {"int": str(value)}
        case float():
            return {"float": value.hex()}
        case np.ndarray():
            return {"array": described(value.tolist()), "dtype": value.dtype.str}
        case list() | tuple():
            return [described(v) for v in value]
        case dict():
            return {"dict": sorted(([described(k), described(v)] for k, v in value.items()), key=canonical_json)}
    if isinstance(value, type) or hasattr(value, "__qualname__"):
        return {"name": f"{value.__module__}.{value.__qualname__}"}
    if hasattr(value, "get_params"):
        parameters = value.get_params(deep=False)
        return {"class": described(type(value)), "parameters": {k: described(v) for k, v in parameters.items()}}
    return value.describe() if hasattr(value, "describe") else {"repr": re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))}


def fingerprint(value: Any) -> str:
    """SHA-256 of all that pickle would save of an object: equal for equal types, bits, names and structure.

    Not of the pickle itself, whose bytes also depend on which equal parts are one object.
    """
    sha = hashlib.sha256()
    _feed(sha, value, ())
    return sha.hexdigest()


def _feed(sha: Any, value: Any, inside: tuple[int, ...]) -> None:
    """Add a value to the hash; ``inside`` are the objects that it is a part of."""
    if id(value) in inside:
        sha.update(b"itself")
        return
    inside = (*inside, id(value))
    within: tuple[Any, ...] = ()
    if isinstance(value, _PLAIN):
        sha.update(f"{type(value).__name__} {value!r};".encode())
    elif isinstance(value, np.ndarray):
        sha.update(f"array {value.dtype.str} {value.shape};".encode())
        if value.dtype.hasobject or value.dtype.names:  # between fields there may be padding
            within = (value.tolist(),)
        else:
            sha.update(value.tobytes())
    elif sp.issparse(value):
        rows = value.tocsr()
        sha.update(f"{value.format} {value.shape};".encode())
        within = (rows.data, rows.indices, rows.indptr)
    elif isinstance(value, KDTree | BallTree):  # beside these they hold counts of the questions asked
        within = tuple(np.asarray(array) for array in value.get_arrays())
    elif isinstance(value, list | tuple):
        sha.update(f"{type(value).__name__} {len(value)};".encode())
        within = tuple(value)
    elif isinstance(value, dict):
        sha.update(f"dict {len(value)};".encode())
        within = tuple(entry for item in value.items() for entry in item)
    elif isinstance(value, set | frozenset):
        sha.update(f"set {len(value)};".encode())
        within = tuple(sorted(value, key=repr))
    elif isinstance(value, type) or hasattr(value, "__qualname__"):
        sha.update(f"name {value.__module__}.{value.__qualname__};".encode())
    else:
        reduced = value.__reduce_ex__(4)  # a name, or how to make it, with what, its state, its entries
        within = (reduced,) if isinstance(reduced, str) else (*reduced[:3], *(list(p or ()) for p in reduced[3:5]))
    for part in within:
        _feed(sha, part, inside)


def same_learner(held: Any, again: Any, *, reproducible: bool = True) -> bool:
    """Whether a fitted learner is what training it again gave, as far as the two can be compared.

    Bit by bit, with these exceptions: learners that are not reproducible, and unlearning algorithms with noise, are
    compared by their classes and number of rows.
    """
    if type(held) is not type(again):
        return False
    for name in ("stored_rows_", "classes_"):
        if hasattr(held, name) and not np.array_equal(getattr(held, name), getattr(again, name)):
            return False
    if not forgets(held):
        return not reproducible or fingerprint(held) == fingerprint(again)
    own = getattr(held, "guarantee", None)
    if own is not None and (own.epsilon or own.delta):
        return True
    if hasattr(held, "state_digest"):
        return bool(held.state_digest() == again.state_digest())
    return fingerprint(held) == fingerprint(again)
