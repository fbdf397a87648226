"""Labels, ids and subjects that come with rows, checked before anything is changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from erasable.core.names import Key, each_owner
from erasable.errors import InputError
from erasable.models.keys import Column, as_key_column, as_subject_column, label_type, same_kind

if TYPE_CHECKING:
    from erasable.models.model import Model


def check_labels(y: npt.NDArray[Any], model: Model) -> None:
    """Refuse labels that the model could not hold."""
    kind = label_type(y)
    fixed = model.configuration.classes
    if fixed is not None:
        if kind is not type(fixed[0]):
            wanted = type(fixed[0]).__name__
            raise InputError(f"y holds labels of type {kind.__name__}, but the fixed classes are of type {wanted}.")
        allowed = set(fixed)
        unseen = sum(v not in allowed for v in y.tolist())
        if unseen:
            raise InputError(
                f"{unseen} of {len(y)} labels are not among the {len(fixed)} fixed classes: "
                "correct y, or fix all classes with classes=."
            )
    weighed = getattr(model.configuration.head, "class_weight", None)
    if isinstance(weighed, tuple) and kind is not type(weighed[0][0]):
        wanted = type(weighed[0][0]).__name__
        raise InputError(f"y holds labels of type {kind.__name__}, but class_weight names labels of type {wanted}.")
    if fixed is None and model.core.class_counts and kind is not type(next(iter(model.core.class_counts))):
        known = type(next(iter(model.core.class_counts))).__name__
        raise InputError(f"y holds labels of type {kind.__name__}, but the model's classes are of type {known}.")


def check_ids(ids: Any, n: int, place: Mapping[Key, Any]) -> Column | None:
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


def distinct_ids(ids: Any, n: int) -> Column:
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
    same_kind(keys, type(next(iter(place))), "ids")
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

    Raises
    ------
    InputError
        When ids are not numbers.
    """
    if not place:
        return 0
    if not isinstance(next(iter(place)), int):
        raise InputError("ids are required: this model's ids are not integers, so rows cannot be numbered on.")
    return max(place) + 1  # type: ignore[operator]


def check_subjects(subjects: Any, n: int, known: type | None, *, allow_no_subject: bool) -> Column:
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
    same_kind(named, known, "subjects")
    return owners


def _distinct(numbers: npt.NDArray[np.int64]) -> int:
    """How many different ones there are; sorting is several times as fast as NumPy's own way."""
    ordered = np.sort(numbers)
    return min(1, len(ordered)) + int(np.count_nonzero(ordered[1:] != ordered[:-1]))
