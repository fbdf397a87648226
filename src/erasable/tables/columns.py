"""Columns of a table: which has which role, their types in text, and their values as checked arrays."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from erasable.core.arrays import MatrixLike, summed
from erasable.errors import ConfigurationError, InputError, InputTypeError
from erasable.models.inputs import as_subject_column
from erasable.schemas import Role, Schema

Kinds = dict[str, type]
_KINDS: dict[str, tuple[type, ...]] = {"label": (int, bool, float, str), "id": (int, str), "subject": (int, str)}
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
_FLOAT = re.compile(
    r"[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE
)
_TRUTH = {"true": True, "false": False}
_ARRAYS: dict[type, Any] = {bool: bool, int: np.int64, float: np.float64}


class ColumnNames(TypedDict, total=False):
    """The names of columns that readers of tables take as keyword arguments, where files have them."""

    label: str | None  # "label" by default: the labels, which are integers, strings, booleans or floats
    id: str | None  # names every row by an integer or a string; ``fit`` checks that they are distinct
    # Integers or strings, missing in some rows; in Parquet and Arrow also lists of these. A row belongs to all subjects
    # that it names in any of the columns.
    subject: str | Sequence[str] | None
    features: Sequence[str] | None  # the columns to take, in this order; by default all columns without another role
    ignore: Sequence[str]  # columns that are left out; they may hold anything
    weight: str | None  # how much each row counts; none missing
    # Numbers to predict, none missing, in place of a label. They become ``y``, of shape (n_rows,) for one and (n_rows,
    # n_targets) for several. Files without names of columns have theirs in ``y``.
    targets: Sequence[str]


@dataclass(frozen=True)
class Roles:
    """The names of the columns that have a role, and of the features where they are not all others.

    ``labelled`` says whether there must be labels; columns to ``ignore`` may hold anything. A row belongs to all
    subjects that its subject columns name. Columns of ``target`` take the place of labels. With a ``schema`` features
    are what it makes of its columns, which hold anything; ``optional`` roles may be absent. With ``raw``, cells of
    any kind are handed on unchanged.
    """

    label: str | None
    id: str | None = None
    subject: str | Sequence[str] | None = None
    features: Sequence[str] | None = None
    labelled: bool = True
    ignore: Sequence[str] = ()
    weight: str | None = None
    schema: Schema | None = None
    raw: bool = False
    optional: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    clipped: bool = False  # to the ranges that the schema declares for targets
    named: tuple[str, ...] = ()  # columns that the caller knows by name, whatever their role

    @classmethod
    def of(
        cls, columns: ColumnNames, schema: Schema | None, *, labelled: bool, raw: bool, known: Sequence[str] = ()
    ) -> Roles:
        """The roles of columns that the caller names, and of those that a schema names; others may be ``known``."""
        named: dict[str, Any] = {"label": "label", "named": tuple(known), **columns}
        named["target"] = named.pop("targets", ())
        if schema is not None:
            return cls(**named, labelled=False, raw=raw).by_schema(schema, labelled=labelled)
        if named["target"]:
            return cls(**{**named, "label": None}, labelled=False, raw=raw)
        return cls(**named, labelled=labelled, raw=raw)

    def __post_init__(self) -> None:
        if isinstance(self.subject, list | tuple):
            several = tuple(self.subject)
            object.__setattr__(self, "subject", several if len(several) > 1 else several[0] if several else None)
        named = [(role, getattr(self, role)) for role in ("label", "id", "weight")]
        for role, column in [*named, *(("subject", column) for column in self.subjects)]:
            if not (isinstance(column, str) or (column is None and not (role == "label" and self.labelled))):
                raise InputTypeError(f"{role} must be the name of a column, a string; got {type(column).__name__}.")
        for role in ("ignore", "features", "target"):
            names = getattr(self, role)
            if names is not None and (isinstance(names, str) or not all(isinstance(name, str) for name in names)):
                shown = "targets" if role == "target" else role
                raise InputTypeError(f"{shown} must be names of columns, a list of strings.")
            object.__setattr__(self, role, None if names is None else tuple(names))
        if len(set(self.subjects)) < len(self.subjects):
            raise ConfigurationError("subject names a column twice: name each column once.")
        if self.label is not None and self.label in (self.id, *self.subjects):
            raise ConfigurationError("label must be another column than id and subject: name one column for each.")
        if self.weight is not None and self.weight in (self.label, self.id, *self.subjects):
            raise ConfigurationError("weight must be another column than label, id and subject: name one for each.")
        taken = {*chain(*self.given.values())}
        if len(set(self.target)) < len(self.target) or {*self.target} & {*taken, *self.ignore, *(self.features or ())}:
            raise ConfigurationError("targets must name each column once, and none of those that have another role.")
        if both := {*self.ignore} & {*taken, *(self.features or ())}:
            found = ", ".join(map(repr, sorted(both)))
            raise ConfigurationError(f"a column cannot be ignored and have a role: {found}.")
        features = self.features
        if features is not None and (not features or len(set(features)) < len(features) or taken & set(features)):
            raise ConfigurationError(
                "features must name one column or more, each once, and none of those that label, id and subject name."
            )

    @property
    def untyped(self) -> bool:
        """Whether columns of features may hold anything."""
        return self.raw or self.schema is not None

    @property
    def subjects(self) -> tuple[str, ...]:
        """The columns of subjects: none, one or several."""
        return self.subject if isinstance(self.subject, tuple) else () if self.subject is None else (self.subject,)

    @property
    def given(self) -> dict[str, tuple[str, ...]]:
        """The columns of labels, ids, weights and subjects, by role."""
        single = {"label": self.label, "id": self.id, "weight": self.weight}
        roles = {role: () if column is None else (column,) for role, column in single.items()}
        return {role: columns for role, columns in {**roles, "subject": self.subjects}.items() if columns}

    @property
    def columns(self) -> list[str]:
        """The same and targets, each once: id and subject may be one column."""
        return list(dict.fromkeys(chain(*self.given.values(), self.target)))

    def present(self, names: Container[str]) -> Roles:
        """The roles without those that may be absent and are."""
        optional = [*self.optional, *(() if self.labelled else ("label",))]
        absent: dict[str, Any] = {role: None for role in optional if getattr(self, role) not in names}
        return replace(self, **absent) if absent else self

    def by_schema(self, schema: Schema, *, labelled: bool) -> Roles:
        """The roles that the schema gives, which those named by the caller have to agree with.

        In a table to predict, which need not be ``labelled``, only ids have a role unless the caller names others.

        Raises ConfigurationError when the two differ, or there are no labels or targets to learn.
        """
        named = {**self.given, "target": self.target}
        features = tuple(c.name for c in schema.features)
        found: dict[str, Any] = {"features": features, "ignore": (), "schema": schema}
        for role in ("label", "id", "subject", "weight", "target"):
            theirs, ours = schema.names_of(role), named.get(role, ())
            if ours and theirs and {*ours} != {*theirs}:
                raise ConfigurationError(
                    f"{role}= is {_shown(ours)}, and the schema says {_shown(theirs)}: leave it out, or change the "
                    "schema."
                )
            for name in (*ours, *self.ignore):
                if name in features:
                    option, role = (f"{role}= is", role) if name in ours else ("ignore= names", "ignore")
                    raise ConfigurationError(
                        f"{option} {name!r}, which is a feature by the schema: give that column the role {role!r} "
                        "there."
                    )
            columns = theirs or ours if ours or labelled or role == "id" else ()  # in the order of the schema
            found[role] = columns if role == "target" or len(columns) > 1 else columns[0] if columns else None
        if found["target"] and found["label"] is not None:
            raise ConfigurationError(
                f"label= is {found['label']!r}, and {_shown(found['target'])} is a target: name one of the two."
            )
        if labelled and found["label"] is None and not found["target"]:
            raise ConfigurationError(
                "the schema names no column of labels or targets: name it with label= or targets=, or in the schema."
            )
        if not labelled:
            found["optional"] = () if "id" in named else ("id",)
        return replace(self, **found, labelled=labelled and not found["target"], clipped=labelled)


def _shown(names: Sequence[str]) -> str:
    return " and ".join(map(repr, names))


def check_kinds(kinds: Mapping[str, type] | None, schema: Schema | None) -> Kinds:
    """The types of labels, ids and subjects in text, as the caller or the schema states them; otherwise texts.

    Labels are integers where all classes of the schema are written so. *Law*: no row plays a part: one odd cell would
    change the type of all others, and they would keep it when its row is forgotten.
    """
    for role, kind in (kinds or {}).items():
        if role not in _KINDS or kind not in _KINDS[role]:
            allowed = "; ".join(f"{r}: {', '.join(t.__name__ for t in ts)}" for r, ts in _KINDS.items())
            raise ConfigurationError(f"kinds may give one of these types for a role: {allowed}.")
    classes = () if schema is None else classes_of(schema) or ()
    of_classes = int if classes and all(fits(c, int) for c in classes) else str
    return {**dict.fromkeys(_KINDS, str), "label": of_classes, **(kinds or {})}


def classes_of(schema: Schema) -> tuple[str, ...] | None:
    """The classes that a schema lists for its labels."""
    labels = [c.classes for c in schema.columns if isinstance(c, Role) and c.role == "label"]
    return labels[0] if labels else None


def fits(text: str, kind: type) -> bool:
    """Whether a cell of text can be read as this type; an empty cell fits any, and every cell fits ``str``.

    ``007`` is no integer, since as one it would equal ``7``.
    """
    if not text or kind is str:
        return True
    if kind is int:
        return _INTEGER.fullmatch(text) is not None and -(2**63) <= int(text) < 2**63
    return text.lower() in _TRUTH if kind is bool else _FLOAT.fullmatch(text) is not None


def read_texts(texts: Sequence[str], kind: type) -> list[Any]:
    """Cells as values of a type that all of them fit, None when empty."""
    read: Any = (lambda text: _TRUTH[text.lower()]) if kind is bool else kind
    return [read(t) if t else None for t in texts]


# -- checked arrays ---------------------------------------------------------------------------------------------------


def plain_array(values: Any, name: str) -> npt.NDArray[Any]:
    """One-dimensional array of the values: of numbers where all are of one kind, of Python objects otherwise.

    Text stays Python text, since NumPy's own drops zeros at its end.
    """
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise InputError(f"{name} must have one dimension; got {values.ndim}.")
        if np.ma.is_masked(values):
            raise InputError(f"{name} has masked entries: fill them in, or leave these rows out.")
        if values.dtype.kind in "mM":  # of which NumPy makes integers where the unit is fine
            raise InputTypeError(f"{name} holds dates or times: convert them to strings.")
        return values.astype(object) if values.dtype.kind in "US" else np.asarray(values)
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise InputTypeError(f"{name} must be an array or a list; got {type(values).__name__}.")
    kinds = set(map(type, values))
    kind = kinds.pop() if len(kinds) == 1 else object
    fits = kind is not int or (min(values) >= -(2**63) and max(values) < 2**63)
    array: npt.NDArray[Any] = np.empty(len(values), _ARRAYS.get(kind, object) if fits else object)
    array[:] = values
    return array


def subject_array(values: Any, name: str) -> npt.NDArray[Any]:
    """To whom each row belongs: :func:`plain_array`, with sorted tuples where rows belong to several.

    The subjects of a row may come in a list, or in a row of an array of two dimensions.
    """
    wide = getattr(values, "ndim", 1) == 2
    listed = isinstance(values, list | tuple) or getattr(getattr(values, "dtype", None), "hasobject", False)
    kinds = set(map(type, values)) if listed else set()
    if not wide and not any(issubclass(kind, list | tuple | np.ndarray) for kind in kinds):
        array = plain_array(values, name)
        empty = (
            [i for i, v in enumerate(array) if isinstance(v, str | bytes) and not v] if array.dtype == object else []
        )
        if empty:
            array = array.copy()
            array[empty] = None
        return array
    column = as_subject_column(values, name)
    if isinstance(column, np.ndarray) or tuple not in set(map(type, column)):
        return plain_array(column, name)
    array = np.empty(len(column), dtype=object)
    for i, owners in enumerate(column):  # NumPy would make two dimensions of tuples of one length
        array[i] = owners
    return array


def checked_column(values: Any, role: str, where: str, first: int = 0) -> npt.NDArray[Any]:
    """The values of a label, id, subject or weight, one per row, as an array that a model can hold.

    ``first`` is how many rows of the file come before these.
    """
    array = subject_array(values, where) if role == "subject" else plain_array(values, where)
    if array.dtype == object and tuple in set(map(type, array)):
        return array  # checked when it was made
    if role == "weight":
        return _check_weights(array, where, first)
    if role == "label":
        return _check_labels(array, where, first)
    return check_keys(array, where, optional=role == "subject", first=first)


def _none_missing(missing: npt.ArrayLike, what: str, where: str, first: int, advice: str) -> None:
    """Refuse a column with missing entries: how many, and where the first is, counted from one."""
    missing = np.asarray(missing)
    at = np.flatnonzero(missing)
    if len(at):
        row = f"the first in row {first + int(at[0]) + 1:,}"
        raise InputError(f"{where}: {len(at)} of {len(missing)}{what} are missing, {row}: {advice}.")


def _check_labels(y: npt.NDArray[Any], where: str, first: int) -> npt.NDArray[Any]:
    """Labels, none missing, all of one type that a model can hold."""
    missing: npt.ArrayLike = (
        [v is None for v in y] if y.dtype == object else ~np.isfinite(y) if y.dtype.kind == "f" else ()
    )
    _none_missing(missing, " labels", where, first, "leave those rows out, or label them")
    kinds = {type(v) for v in y} if y.dtype == object else set()
    too_large = y.dtype.kind == "u" and len(y) > 0 and int(y.max()) >= 2**63
    if y.dtype.kind not in "biufO" or not kinds <= {str} or too_large:
        found = ", ".join(sorted(t.__name__ for t in kinds)) or str(y.dtype)
        raise InputTypeError(f"{where}: labels must be all 64-bit integers, strings, booleans or floats; got {found}.")
    return y


def _check_weights(weights: npt.NDArray[Any], where: str, first: int) -> npt.NDArray[Any]:
    """Numbers, none missing; whether they are weights is for the model to say."""
    missing = [v is None or v != v for v in weights.tolist()]
    _none_missing(missing, " weights", where, first, "fill them in, or leave those out")
    if weights.dtype == object and all(type(v) in (int, float) for v in weights):
        weights = weights.astype(np.float64)
    if weights.dtype.kind not in "iuf":
        raise InputTypeError(f"{where}: weights of rows must be numbers; got {weights.dtype}.")
    return weights


def check_keys(keys: npt.NDArray[Any], where: str, *, optional: bool, first: int = 0) -> npt.NDArray[Any]:
    """Ids or subjects: integers, strings or bytes; with ``optional``, None where there is none."""
    if keys.dtype == object:
        missing = sum(v is None for v in keys)
        kinds = {type(v) for v in keys if v is not None}
    else:
        missing, kinds = 0, {int if keys.dtype.kind in "iu" else type(np.zeros(1, keys.dtype).tolist()[0])}
    if missing and not optional:
        _none_missing([v is None for v in keys], "", where, first, "every row needs one")
    if len(kinds) > 1 or not kinds <= {int, str, bytes}:
        found = ", ".join(sorted(t.__name__ for t in kinds))
        raise InputTypeError(
            f"{where}: must be all integers, all strings or all bytes; got {found}: convert them first."
        )
    if kinds == {int}:
        known = [v for v in keys if v is not None] if missing else keys
        if not (int(np.min(known)) >= -(2**63) and int(np.max(known)) < 2**63):
            raise InputError(f"{where}: integers must fit 64 bits, signed: store larger ones as strings.")
        return keys if missing else keys.astype(np.int64)
    return keys


def number_columns(values: npt.NDArray[Any], where: str) -> npt.NDArray[Any]:
    """Return several targets for each row, shape (n, n_targets); refused unless all are finite numbers."""
    if values.dtype.kind not in "biuf":
        raise InputTypeError(f"{where}: several targets must be numbers; got {values.dtype}.")
    unfit = int(np.count_nonzero(~np.isfinite(values)))
    if unfit:
        raise InputError(f"{where}: {unfit} of {values.size} targets are missing or not finite: leave those rows out.")
    return values


def as_rows(X: MatrixLike, where: str, shown: Sequence[str] | None = None, first: int = 0) -> Any:
    """Rows as float32 where that holds every number they can have, as float64 otherwise; sparse ones as a csr_array.

    ``first`` is how many rows of the file come before these.

    Raises InputError or InputTypeError when there are none, when they are no numbers, or some are missing or not
    finite.
    """
    check_shape(X.shape, X.dtype, where)
    if sp.issparse(X):
        if hasattr(X, "check_format"):  # first, since indices may point outside
            X.check_format(full_check=True)
        X = summed(sp.csr_array(X, dtype=row_dtype([X.dtype])))
        odd = np.flatnonzero(~np.isfinite(X.data))
        bad = np.bincount(X.indices[odd], minlength=X.shape[1])
        row = int(np.searchsorted(X.indptr, odd[0], side="right")) - 1 if len(odd) else 0
    else:
        X = np.ascontiguousarray(X, dtype=row_dtype([X.dtype]))
        finite = np.isfinite(X)
        bad = X.shape[0] - finite.sum(axis=0)
        row = int(finite.all(axis=1).argmin()) if bad.any() else 0
    unfit = np.flatnonzero(bad)
    if len(unfit):
        counts = [f"{bad[j]} entries of {shown[j] if shown else f'column {j}'}" for j in unfit[:10].tolist()]
        more = f" and some of {len(unfit) - 10} other columns" if len(unfit) > 10 else ""
        raise InputError(
            f"{where}: {', '.join(counts)}{more} are missing or not finite, the first in row {first + row + 1:,}: "
            "fill them in with a fixed public number, or leave those rows out."
        )
    return X


def check_shape(shape: Sequence[int], dtype: np.dtype[Any], where: str) -> None:
    """Refuse what are no rows of numbers."""
    if len(shape) != 2:
        raise InputError(f"{where}: X must have two dimensions, rows and features; got {len(shape)}.")
    if dtype.kind not in "biuf":
        raise InputTypeError(f"{where}: X must hold real numbers or booleans; got {dtype}.")
    if 0 in shape:
        raise InputError(f"{where}: there are {shape[0]} rows of {shape[1]} features: at least one of each is needed.")


def row_dtype(dtypes: Sequence[np.dtype[Any]]) -> type[np.floating[Any]]:
    """The smaller of float32 and float64 that holds all numbers of these types, or float64."""
    small = all(t.itemsize <= (4 if t.kind == "f" else 2) for t in dtypes)
    return np.float32 if small else np.float64
