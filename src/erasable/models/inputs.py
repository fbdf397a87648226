"""Ids, subjects, labels and weights that callers give with rows: checked, and copied as plain Python values.

Copying at once matters: dictionary and string-view columns keep deleted strings alive after a filter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate, chain, pairwise
from typing import Any, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import ColumnLike, on_host
from erasable.core.names import Key, Label, Spelling, Steps, each_owner, is_unicode, spelt
from erasable.errors import InputError, InputTypeError
from erasable.validation import real_numbers

_PLURAL = {"int": "integers", "str": "strings", "bytes": "bytes"}
_NAMES: dict[type, str] = {int: "int", str: "str", bytes: "bytes"}
_LABEL_ARRAYS: dict[type, Any] = {bool: bool, int: np.int64, float: np.float64, str: object}
_LABEL_TYPES = "integers, strings, booleans or floats"
_MISSING_LABELS = "y has missing entries (None, NaN or masked): every row needs a label."
T = TypeVar("T")
Column = Sequence[Any] | npt.NDArray[np.int64]
#: Ids or subjects as callers give them: a list, array, series or Arrow column; of a request also a single one.
Names = Any
Labels = Sequence[Any]  # of rows: classes, or targets on their grid


def as_key_column(values: Names, name: str) -> Column:
    """Ids or subjects of the rows of a batch: an integer array stays one, everything else becomes a list."""
    values = on_host(values)
    _check_ordered(values, name)
    if type(values) is np.ndarray and values.ndim == 1 and values.dtype.kind in "iu":
        if len(values):
            _check_64_bits(int(values.min()), int(values.max()), name)
        return values.astype(np.int64)
    return as_keys(values, name)


def as_subject_column(values: Names, name: str = "subjects") -> Column:
    """To whom the rows of a batch belong: a key, None, or a sorted tuple of two or more keys for each row.

    Takes what :func:`as_key_column` takes, a column whose entries are lists, tuples, sets or arrays of keys,
    or an array or dataframe of two dimensions, a row of keys for each row.

    *Definition*: None, NaN, masked entries, the missing values of pandas, and empty texts and bytes name nobody,
    whatever they come in. A row that names nobody else has None. A name that comes twice counts once, and the order of
    names does not count.
    """
    values = on_host(values)
    if type(values) is np.ndarray and values.ndim == 1 and values.dtype.kind in "iu":
        return as_key_column(values, name)
    _check_ordered(values, name)
    column = _wide_rows(values, name) if len(getattr(values, "shape", (0,))) == 2 else _as_list(values, name)
    types = set(map(type, column))
    if types <= _NAMES.keys() and "" not in column and b"" not in column:
        return as_keys(column, name)
    several = {t for t in types if issubclass(t, _SEVERAL) or hasattr(t, "to_list")}
    if several:
        of_each = [[] if _is_missing(v) else _in_row(v, name) if type(v) in several else _named([v]) for v in column]
        keys, ends = as_keys(list(chain.from_iterable(of_each)), name), [0, *accumulate(map(len, of_each))]
        return [_canonical(keys[a:b]) for a, b in pairwise(ends)]
    following = iter(as_keys(_named(column), name))
    return [None if _is_nobody(v) else next(following) for v in column]


_SEVERAL = (list, tuple, set, frozenset, np.ndarray)  # in a column: the subjects of one row


def _in_row(entry: Any, name: str) -> list[Any]:
    """The keys of one row that name a subject; rows of an array may be filled up with empty texts."""
    if getattr(entry, "ndim", 1) != 1:
        raise InputError(f"{name} of one row must be a plain list; got an array of {entry.ndim} dimensions.")
    return _named(entry.tolist() if isinstance(entry, np.ndarray) else entry)


def _named(keys: Iterable[Any]) -> list[Any]:
    """The keys that name a subject."""
    return [key for key in keys if not _is_nobody(key)]


def _is_nobody(key: Any) -> bool:
    return not key if isinstance(key, str | bytes) else type(key) is not int and _is_missing(key)


def as_requested(subjects: Names, stored: Collection[Key]) -> list[Key]:
    """The subjects that a request names, each once.

    Raises InputError when one is an empty text, which names nobody. Rows of earlier versions may be stored under it.
    """
    keys = list(dict.fromkeys(as_keys(subjects, "subjects")))
    if any(key in keys and key not in stored for key in ("", b"")):
        raise InputError(
            "an empty subject names nobody: leave it out. Rows without a subject can only be forgotten by their ids."
        )
    return keys


def _check_ordered(values: Names, name: str) -> None:
    if isinstance(values, set | frozenset | dict):
        raise InputTypeError(
            f"{name} must be in the order of the rows, one for each; got {type(values).__name__}: pass a list."
        )


def _canonical(keys: list[Any]) -> Any:
    """The subjects of a row as they are held: sorted and distinct, one by itself, None where there are none."""
    if len(keys) > 1:
        keys = sorted(set(keys))
    return tuple(keys) if len(keys) > 1 else keys[0] if keys else None


def _wide_rows(values: Names, name: str) -> list[Any]:
    """The rows of an array or dataframe of two dimensions, each column in its own type."""
    if isinstance(values, np.ndarray) and values.dtype.kind not in "mM":
        return list(values.tolist())
    if hasattr(values, "itertuples"):  # pandas
        return list(values.itertuples(index=False, name=None))
    if hasattr(values, "rows"):  # polars
        return list(values.rows())
    if hasattr(values, "itercolumns"):  # pyarrow
        return list(zip(*(column.to_pylist() for column in values.itercolumns()), strict=True))
    raise InputTypeError(f"{name} must be integers, strings or bytes in a list, an array or a dataframe.")


def spelt_names(ids: Names, subjects: Names, spelling: Spelling) -> tuple[Any, Any]:
    """Ids and subjects of rows that are learnt, normalised as declared; without a declaration as they came."""
    if ids is not None and "id" in spelling:
        ids = spelt_keys(as_key_column(ids, "ids"), spelling["id"])
    if subjects is not None and "subject" in spelling:
        column, steps = as_subject_column(subjects), spelling["subject"]
        if not isinstance(column, np.ndarray):
            subjects = [spelt_keys(each, steps) if isinstance(each, tuple) else each for each in column]
            subjects = [spelt(each, steps) if isinstance(each, str) else each for each in subjects]
    return ids, subjects


def spelt_keys(keys: ColumnLike, steps: Steps) -> Any:
    """Keys of one type, normalised where they are texts."""
    return [spelt(key, steps) for key in keys] if steps and len(keys) and isinstance(keys[0], str) else keys


def _is_missing(value: Any) -> bool:
    """None, NaN, a masked entry, or one of the missing values of pandas."""
    if isinstance(value, float | np.floating):
        return bool(value != value)
    masked = isinstance(value, np.ma.MaskedArray) and not value.ndim and bool(value.mask)
    return value is None or masked or type(value).__name__ in ("NAType", "NaTType")


def taken(column: Column | range, index: npt.NDArray[Any]) -> Column:
    """The entries of ids or subjects at these positions, as such a column."""
    if isinstance(column, range):
        return column.start + column.step * index
    return column[index] if isinstance(column, np.ndarray) else [column[i] for i in index.tolist()]


def pick(column: Sequence[T] | npt.NDArray[Any], index: npt.NDArray[np.intp]) -> list[T]:
    """The entries at these positions, as plain values; rows of several as tuples."""
    if isinstance(column, np.ndarray):
        if column.ndim > 1:
            return [tuple(v) for v in column[index].tolist()]  # type: ignore[misc]
        values: list[T] = column[index].tolist()
        return values if column.dtype.kind in "iub" else [_plain(v) for v in values]
    return [column[i] for i in index.tolist()]


def _plain(value: Any) -> Any:
    """A NumPy scalar as the Python value it stands for; zero without a sign, since equal labels must be one label.

    Dates and times, which would become numbers, and numbers wider than float64 stand for none, and stay as they are.
    """
    match value:
        case np.bytes_() | np.str_():  # their own ``item`` drops trailing zeros
            return bytes(value) if isinstance(value, bytes) else str(value)
        case np.generic():
            plain = value.item()
            none = isinstance(value, np.datetime64 | np.timedelta64) or isinstance(plain, np.generic)
            return value if none else _plain(plain)
        case float():
            return value + 0.0
        case _:
            return value


def array_of(values: Sequence[Any]) -> npt.NDArray[Any]:
    """Plain values of one type as an array; NumPy's own text types would drop trailing zeros."""
    lossy = any(isinstance(v, bytes) or (isinstance(v, str) and v.endswith("\0")) for v in values)
    return np.array(values, dtype=object if lossy else None)


def as_keys(values: Names, name: str) -> list[Key]:
    """Ids or subjects as a list of ints, of strings or of bytes; a bare value counts as a list of one.

    Raises InputTypeError when the values are of another type, or of several.
    """
    if type(values) is list and len(values) == 1 and type(values[0]) is int and -(2**63) <= values[0] < 2**63:
        return values  # one request after another: the most frequent call
    keys = _as_list(on_host(values), name)
    types = set(map(type, keys))
    if not types <= _NAMES.keys():
        keys = [_plain(v) for v in keys]
        types = set(map(type, keys))
    unfit = [t.__name__ for t in types if t not in _NAMES]
    if unfit:
        advice = "Convert them first, for example with str()."
        if any(_is_missing(v) for v in keys):
            advice = "Some are missing: fill them in, or leave them out."
        elif any(issubclass(t, _SEVERAL) for t in types):
            advice = "Pass one flat list, which names each of them once."
        raise InputTypeError(f"{name} must be integers, strings or bytes; got {', '.join(sorted(unfit))}. {advice}")
    if len(types) > 1:
        raise InputTypeError(
            f"{name} must be all integers, all strings or all bytes; got a mixture of "
            f"{' and '.join(sorted(_PLURAL[_NAMES[t]] for t in types))}."
        )
    if int in types:
        _check_64_bits(min(keys), max(keys), name)
    if str in types and not is_unicode("".join(keys)):
        raise InputError(f"string {name} must be valid Unicode (no lone surrogates).")
    return keys


def _check_64_bits(smallest: int, largest: int, name: str) -> None:
    if not (smallest >= -(2**63) and largest < 2**63):
        raise InputError(f"integer {name} must fit 64 bits, signed: pass larger ones as strings.")


def _as_list(values: Names, name: str) -> list[Any]:
    if isinstance(values, str | bytes | int | np.generic):
        return [values]
    if isinstance(values, bytearray | memoryview):
        raise InputTypeError(
            f"{name} must be a list or an array; got {type(values).__name__}: convert it with bytes()."
        )
    if isinstance(values, np.ndarray) and values.dtype.kind in "mM":
        raise InputTypeError(f"{name} must be integers, strings or bytes; got dates or times: convert them to strings.")
    if len(getattr(values, "shape", (0,))) != 1:
        raise InputError(f"{name} must be one-dimensional; got shape {tuple(values.shape)}: pass one flat list.")
    if isinstance(values, list | tuple | set | frozenset | range):
        return list(values)
    if hasattr(values, "to_pylist"):  # pyarrow
        return list(values.to_pylist())
    if not hasattr(values, "__array__") and not hasattr(values, "__iter__"):
        raise InputTypeError(f"{name} must be a list or an array; got {type(values).__name__}.")
    return list(values.tolist() if isinstance(values, np.ndarray) else values)


def same_kind(
    new: Sequence[Key] | npt.NDArray[np.int64], known: type | None, name: str, *, learnt: bool = False
) -> None:
    """Raise InputTypeError for keys of another type than ``known``, that of the model's own: they could never match.

    For rows to be ``learnt`` the error names the option that states the type of a column of CSV.
    """
    if known is None or not len(new):
        return
    kind = int if isinstance(new, np.ndarray) else type(new[0])
    if kind is not known:
        refuse_kind(kind, known, name, _of_csv(known, name[:-1]) if learnt else "")


def refuse_kind(kind: type, known: type, name: str, advice: str = "") -> NoReturn:
    """Raise InputTypeError: keys of one type were given to a model whose keys are of another."""
    raise InputTypeError(
        f"this model's {name} are {_PLURAL[_NAMES[known]]}, but {_PLURAL[_NAMES[kind]]} were given, which "
        f"can never match: convert them to {known.__name__} first{advice}."
    )


def _of_csv(kind: type, role: str) -> str:
    """The advice for cells of a CSV, which are texts unless their type is stated; bytes cannot be."""
    return "" if kind is bytes else f", or for a CSV give {role}_type= {kind.__name__}"


def plain_labels(y: ColumnLike) -> Any:
    """Labels of one plain type as an array that keeps them apart; anything else unchanged, for the caller to judge.

    NumPy would make one label of several: it drops zeros at the end of text, makes floats of nullable integers and
    text of numbers next to text.
    """
    if np.ma.is_masked(y):
        raise InputError(_MISSING_LABELS)
    if isinstance(y, np.ndarray) and y.dtype != object:
        return np.asarray(y)
    if getattr(y, "ndim", 1) != 1 or len(getattr(y, "shape", (0,))) != 1 or not hasattr(y, "__iter__"):
        return y
    labels = list(y.to_pylist() if hasattr(y, "to_pylist") else y)
    types = set(map(type, labels))
    if not types <= {bool, int, str}:
        labels = [_plain(v) for v in labels]
        types = set(map(type, labels))
        if any(_is_missing(v) and not isinstance(v, float) for v in labels):
            raise InputError(_MISSING_LABELS)
        if any(isinstance(v, list | tuple | np.ndarray) for v in labels):
            return y
    if len(types) == 1:
        kind = types.pop()
        if kind is int and labels:
            _check_64_bits(min(labels), max(labels), "labels")
        if kind in _LABEL_ARRAYS:
            array = np.empty(len(labels), dtype=_LABEL_ARRAYS[kind])
            array[:] = labels
            return array
        types = {kind}
    if labels:
        found = ", ".join(sorted(t.__name__ for t in types))
        raise InputTypeError(f"y must hold {_LABEL_TYPES}, all of one type; got {found}.")
    return y


def label_type(y: npt.NDArray[Any], name: str = "y") -> type:
    """The one plain Python type of the labels.

    Raises InputError or InputTypeError when labels are of a type that cannot be stored, or of several types.
    """
    if y.dtype.kind in "mM":  # of which NumPy makes integers where the unit is fine
        raise InputTypeError(f"{name} must hold {_LABEL_TYPES}; got dates or times: convert them to strings.")
    types = set(map(type, y.tolist() if y.dtype == object else np.zeros(1, y.dtype).tolist()))
    if any(issubclass(t, np.generic) for t in types):
        types = {type(_plain(v)) for v in y}
    if not types <= _LABEL_ARRAYS.keys() or len(types) != 1:
        found = ", ".join(sorted(t.__name__ for t in types))
        raise InputTypeError(f"{name} must hold {_LABEL_TYPES}, all of one type; got {found}.")
    kind: type = types.pop()
    if kind is int and len(y):
        _check_64_bits(int(y.min()), int(y.max()), name if name == "classes" else "labels")
    if kind is float and bool((y != y).any()):
        raise InputError(f"{name} contains NaN.")
    if kind is str and not is_unicode("".join(set(y.tolist()))):
        raise InputError(f"{name} must hold valid Unicode (no lone surrogates).")
    return kind


def encode(labels: Labels) -> tuple[npt.NDArray[Any], npt.NDArray[np.intp]]:
    """Distinct plain labels in order, and the position of each label among them.

    The array of classes is made from these labels alone: one cut out of a larger array would be as wide as a label that
    has been forgotten.
    """
    classes = sorted(set(labels))
    place = {label: i for i, label in enumerate(classes)}
    return array_of(classes), np.fromiter((place[v] for v in labels), dtype=np.intp, count=len(labels))


def check_labels(
    y: npt.NDArray[Any],
    fixed: tuple[Label, ...] | None,
    class_weight: str | tuple[tuple[Label, float], ...] | None,
    class_counts: Mapping[Label, int],
) -> None:
    """Raise InputError for labels that do not fit the fixed classes, the class weights or the stored classes."""
    kind = label_type(y)
    if fixed is not None:
        if kind is not type(fixed[0]):
            wanted = type(fixed[0]).__name__
            raise InputError(
                f"y holds labels of type {kind.__name__}, but the fixed classes are of type {wanted}: convert them "
                f"first{_of_csv(type(fixed[0]), 'label')}."
            )
        allowed = set(fixed)
        unseen = sum(v not in allowed for v in y.tolist())
        if unseen:
            raise InputError(
                f"{unseen} of {len(y)} labels are not among the {len(fixed)} fixed classes: "
                "correct y, or fix all classes with classes=."
            )
    if isinstance(class_weight, tuple) and kind is not type(class_weight[0][0]):
        wanted = type(class_weight[0][0]).__name__
        raise InputError(f"y holds labels of type {kind.__name__}, but class_weight names labels of type {wanted}.")
    if fixed is None and class_counts and kind is not type(next(iter(class_counts))):
        known = type(next(iter(class_counts))).__name__
        raise InputError(
            f"y holds labels of type {kind.__name__}, but the model's classes are of type {known}: convert them first"
            f"{_of_csv(type(next(iter(class_counts))), 'label')}."
        )


def check_ids(ids: Names, n: int, place: Mapping[Key, Any]) -> Column | None:
    """Ids, one per row, distinct and none of them a key of ``place`` yet; None stands for 0, 1, 2, ..."""
    if ids is None:
        if not place:
            return None
        start = next_id(place)
        if start + n > 2**63:
            raise InputError("ids are required: numbering on from the largest id in the model would pass 64 bits.")
        return range(start, start + n)
    keys = distinct_ids(ids, n)
    refuse_known(keys, place)
    return keys


def distinct_ids(ids: Names, n: int) -> Column:
    """Ids, one for each of n rows, none of which repeats another."""
    keys = as_key_column(ids, "ids")
    if len(keys) != n:
        raise InputError(f"ids has {len(keys)} entries for {n} rows: pass one id per row.")
    distinct = _distinct(keys) if isinstance(keys, np.ndarray) else len(set(keys))
    if distinct < n:
        raise InputError(f"ids must be distinct: {n - distinct} of {n} repeat an earlier one.")
    return keys


def refuse_known(keys: Column, place: Collection[Key]) -> None:
    """Refuse distinct ids of which some are in ``place``: the fewer are looked for among the more."""
    if not len(place):
        return
    same_kind(keys, type(next(iter(place))), "ids", learnt=True)
    n = len(keys)
    if n <= len(place):
        present = sum(key in place for key in (keys.tolist() if isinstance(keys, np.ndarray) else keys))
    elif isinstance(keys, np.ndarray):
        held, ordered = np.fromiter(place, dtype=np.int64, count=len(place)), np.sort(keys)
        present = int(np.count_nonzero(ordered[np.minimum(np.searchsorted(ordered, held), n - 1)] == held))
    else:
        present = len(set(keys).intersection(place))
    if present:
        raise InputError(
            f"{present} of {n} ids are already present in the model: forget them first, or leave these rows out; "
            "learning into a file does either, with replace= or skip_known=."
        )


def next_id(place: Mapping[Key, Any]) -> int:
    """What rows without ids are numbered from, after these: on from the largest id.

    Raises InputError when ids are not numbers.
    """
    if not place:
        return 0
    if not isinstance(next(iter(place)), int):
        raise InputError("ids are required: this model's ids are not integers, so rows cannot be numbered on.")
    return max(place) + 1  # type: ignore[operator]


def check_subjects(subjects: Names, n: int, known: type | None, *, allow_no_subject: bool) -> Column:
    """Subjects of each row, of the type ``known`` where there are any already; several of a row are a sorted tuple.

    None stands for rows without a subject, where these are allowed.
    """
    owners = as_subject_column(subjects)
    if len(owners) != n:
        raise InputError(f"subjects has {len(owners)} entries for {n} rows: pass one per row, or one list of them.")
    named = owners if isinstance(owners, np.ndarray) else each_owner(owners)
    nobodys = 0 if isinstance(owners, np.ndarray) else owners.count(None)
    if nobodys and not allow_no_subject:
        raise InputError(
            f"{nobodys} of {n} rows have no subject, and no erasure by subject could reach them: fill it in, "
            "leave these rows out, or allow them with allow_no_subject=."
        )
    same_kind(named, known, "subjects", learnt=True)
    return owners


def _distinct(numbers: npt.NDArray[np.int64]) -> int:
    """How many different ones there are; sorting is several times as fast as NumPy's own way."""
    ordered = np.sort(numbers)
    return min(1, len(ordered)) + int(np.count_nonzero(ordered[1:] != ordered[:-1]))


ONE = 16  # the weight of a row that was given none, in sixteenths
LARGEST = 16 * ONE
RowWeights = npt.NDArray[np.int16]


def check_row_weights(given: Any, n: int) -> RowWeights:
    """Weights of n rows in sixteenths, rounded to the nearest (ties to even), 0 to 256.

    Raises InputError when they are not one number for each row, finite, not negative and at most 16.
    """
    values = real_numbers(on_host(given), "weights (sample_weight=)")
    if values.shape != (n,):
        raise InputError(
            f"weights (sample_weight=) have shape {values.shape} for {n} rows: give one number for each row."
        )
    unfit = int(np.count_nonzero(~((values >= 0.0) & (values <= LARGEST / ONE))))
    if unfit:
        raise InputError(
            f"weights (sample_weight=) must be between 0 and {LARGEST // ONE}, and {unfit:,} of {n:,} are not (missing "
            "ones among them, if any): divide all weights by one number, or correct these."
        )
    rounded: RowWeights = np.rint(values * ONE).astype(np.int16)
    return rounded


def uneven(weights: Sequence[int] | RowWeights) -> RowWeights | None:
    """The weights of rows as a state has them: None where every row has weight one."""
    array = np.asarray(weights, dtype=np.int16)
    return array if (array != ONE).any() else None
