"""Every container for every odd cell: refused in words of ours, or learnt as the float64 array of the same numbers."""

import datetime
import decimal
import fractions
import functools
import warnings

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from erasable import (
    CoreSetUnlearner,
    ErasableClassifier,
    ErasableGeneralClassifier,
    ErasableKernelClassifier,
    ErasableRegressor,
    plan,
)
from erasable.classes import LinearBall
from erasable.coresets import RandomSubsample
from erasable.errors import ConfigurationError, ErasableError, InputError, InputTypeError, WeakModelWarning
from erasable.features import RandomFourierFeatures
from erasable.research.baselines import RetrainedRidge
from erasable.tables import ArrayRows, read_keys, stream_table
from erasable.tables.table import Table
from tests.estimators.cases import SECRET, SECRET_TEXT, assert_no_traces, everything_said

N = 12
FIRST = np.random.default_rng(0).standard_normal(N)
ROWS = np.column_stack([FIRST, FIRST[::-1]])
Y = [0, 1] * (N // 2)
MOMENT = datetime.datetime(2021, 12, 3, 4, 5, 6)
NOTHING = object()  # a cell that stands for no number

# A cell, and the number that it stands for.
CELLS = {
    "float": (0.1, 0.1),
    "whole number": (3, 3.0),
    "huge whole number": (2**70, 2.0**70),
    "truth": (True, 1.0),
    "float16": (np.float16(0.1), float(np.float16(0.1))),
    "float32": (np.float32(0.1), float(np.float32(0.1))),
    "longdouble": (np.longdouble("0.1"), 0.1),
    "uint64": (np.uint64(2**63 + 1), 2.0**63),
    "decimal": (decimal.Decimal("0.1"), 0.1),
    "fraction": (fractions.Fraction(1, 3), 1 / 3),
    "datetime": (MOMENT, NOTHING),
    "datetime with a zone": (MOMENT.replace(tzinfo=datetime.UTC), NOTHING),
    "date": (MOMENT.date(), NOTHING),
    "time": (MOMENT.time(), NOTHING),
    "duration": (datetime.timedelta(seconds=SECRET), NOTHING),
    "datetime64[us]": (np.datetime64(MOMENT, "us"), NOTHING),
    "datetime64[ns]": (np.datetime64(MOMENT, "ns"), NOTHING),
    "timedelta64": (np.timedelta64(123456, "ns"), NOTHING),
    "timestamp": (pd.Timestamp(MOMENT), NOTHING),
    "period": (pd.Period(MOMENT, "D"), NOTHING),
    "interval": (pd.Interval(0.0, SECRET), NOTHING),
    "NaT": (pd.NaT, NOTHING),
    "NA": (pd.NA, NOTHING),
    "None": (None, NOTHING),
    "NaN": (np.nan, NOTHING),
    "masked": (np.ma.masked, NOTHING),
    "complex": (complex(SECRET, 1.0), NOTHING),
    "complex64": (np.complex64(complex(SECRET, 1.0)), NOTHING),
    "digits": ("123456", NOTHING),
    "text": (SECRET_TEXT, NOTHING),
    "bytes": (b"123456", NOTHING),
    "list": ([SECRET], NOTHING),
    "dictionary": ({SECRET_TEXT: SECRET}, NOTHING),
    "set": ({SECRET}, NOTHING),
    "array": (np.array([SECRET]), NOTHING),
    "class": (dict, NOTHING),
}


def objects(cells):
    column = np.empty(len(cells), dtype=object)
    column[:] = [None] * len(cells)
    for i, cell in enumerate(cells):
        column[i] = cell
    return column


def natively(cells):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of a masked cell, which becomes NaN
        return np.array(cells)


# A column of cells; one that cannot hold them raises.
COLUMNS = {
    "list": list,
    "tuple": tuple,
    "object array": objects,
    "array": natively,
    "masked array": lambda cells: np.ma.array(natively(cells), mask=[False] * len(cells)),
    "pandas": pd.Series,
    "pandas objects": lambda cells: pd.Series(objects(cells), dtype=object),
    "pandas nullable": lambda cells: pd.Series(cells).convert_dtypes(),
    "pandas categories": lambda cells: pd.Series(pd.Categorical(cells)),
    "pandas Arrow": lambda cells: pd.Series(pa.array(cells).to_pandas(types_mapper=pd.ArrowDtype)),
    "polars": lambda cells: pl.Series(cells),
    "polars objects": lambda cells: pl.Series(cells, dtype=pl.Object),
    "Arrow": pa.array,
    "Arrow dictionary": lambda cells: pa.array(cells).dictionary_encode(),
}
HOLD_ANYTHING = ("list", "tuple", "object array", "pandas objects")


def frame(first, column):
    """The column beside one of floats, in a container of its own kind."""
    if isinstance(column, list | tuple):
        return type(column)(zip(first.tolist(), column, strict=True))
    if isinstance(column, pd.Series):
        return pd.DataFrame({"a": first, "b": column})
    if isinstance(column, pl.Series):
        return pl.DataFrame({"a": first, "b": column})
    if isinstance(column, pa.Array):
        return pa.table({"a": first, "b": column})
    stack = np.ma.column_stack if isinstance(column, np.ma.MaskedArray) else np.column_stack
    beside = column if column.dtype.kind in "mM" else first.astype(object if column.dtype == object else float)
    return stack([beside, column])


def made(container, cells):
    """The column, and no column where the container cannot hold such cells."""
    try:
        return COLUMNS[container](cells)
    except Exception:
        return None


def outcome(call):
    """What the call gives; or None where it is refused in our words, which quote no value."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=WeakModelWarning)
        warnings.filterwarnings("ignore", "X has feature names")
        try:
            return call()
        except ErasableError as error:
            said = everything_said(error)
    assert_no_traces(said)
    for foreign in ("2021", "float() argument", "DType", "setting an array element", "Cannot cast"):
        assert foreign not in said
    return None


def as_features(column):
    return ErasableClassifier(threshold=0.0).fit(frame(FIRST, column), Y).state_digest()


def as_targets(column):
    return ErasableRegressor((-(2.0**71), 2.0**71), threshold=0.0).fit(ROWS, column).state_digest()


def as_weights(column):
    return ErasableClassifier(threshold=0.0).fit(ROWS, Y, sample_weight=column).state_digest()


ENTRANCES = {"features": as_features, "targets": as_targets, "weights": as_weights}
PLAIN = np.abs(FIRST)


def among(cell):
    return [*PLAIN[:5].tolist(), cell, *PLAIN[6:].tolist()]


@functools.cache
def plainly(entrance, number):
    """The digest of the float64 array; None where the number itself is refused."""
    return outcome(lambda: ENTRANCES[entrance](np.array(among(number))))


@pytest.mark.parametrize("container", COLUMNS)
@pytest.mark.parametrize("entrance", ENTRANCES)
def test_every_container_for_every_odd_cell(entrance, container):
    for cell, (value, number) in CELLS.items():
        for cells in [among(value)] if number is not NOTHING else [among(value), [value] * N]:
            column = made(container, cells)
            if column is None:
                continue
            found = outcome(lambda column=column: ENTRANCES[entrance](column))
            if number is NOTHING:  # or the container itself made a number of the cell
                assert found is None or np.asarray(column).dtype.kind in "biuf", cell
            elif found is not None or container in HOLD_ANYTHING:
                assert found == plainly(entrance, number), cell


MODELS = {
    "linear": lambda: ErasableClassifier(threshold=0.0),
    "mapped": lambda: ErasableClassifier(threshold=0.0, feature_map=RandomFourierFeatures(5)),
    "kernel": ErasableKernelClassifier,
    "general": lambda: ErasableGeneralClassifier(LinearBall()),
    "core set": lambda: CoreSetUnlearner(RandomSubsample(0.9), LogisticRegression()),
    "regression": lambda: ErasableRegressor((-9.0, 9.0)),
    "retrained": RetrainedRidge,
}
HIDDEN = np.arange(N) == 7
MASKED_ROWS = np.ma.array(ROWS, mask=np.column_stack([HIDDEN, ~HIDDEN & HIDDEN]))
MASKED_LABELS = np.ma.array(Y, mask=HIDDEN)
ODD_ROWS = {
    "masked": MASKED_ROWS,
    "masked, of whole numbers": np.ma.array(np.arange(2 * N).reshape(N, 2), mask=MASKED_ROWS.mask),
    "list of masked rows": list(MASKED_ROWS),
    "dates": np.full((N, 2), np.datetime64(MOMENT, "us")),
    "dates and NaT": np.array([[np.datetime64(MOMENT, "us"), np.datetime64("NaT")]] * N),
    "durations": np.full((N, 2), np.timedelta64(1, "s")),
    "complex": ROWS + 1j,
    "sparse complex": sp.csr_array(ROWS + 1j),
    "Arrow dates": pa.table({"a": FIRST, "b": pa.array([MOMENT, None] * (N // 2))}),
    "polars dates": pl.DataFrame({"a": FIRST, "b": [MOMENT] * N}),
    "records": np.array([(1.0, 2.0)] * N, dtype=[("a", float), ("b", float)]),
    "sparse pandas columns filled with NaN": pd.DataFrame({"a": FIRST, "b": FIRST}).astype("Sparse[float64]"),
}


@pytest.mark.parametrize("rows", ODD_ROWS)
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_no_model_learns_or_predicts_odd_rows(make, rows):
    assert outcome(lambda: make().fit(ODD_ROWS[rows], Y)) is None
    model = make().fit(ROWS, Y)
    assert outcome(lambda: model.predict(ODD_ROWS[rows])) is None
    if hasattr(model, "partial_fit"):
        before = model.state_digest()
        assert outcome(lambda: model.partial_fit(ODD_ROWS[rows], Y, ids=range(100, 100 + N))) is None
        assert model.state_digest() == before


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_no_model_learns_masked_labels(make):
    assert outcome(lambda: make().fit(ROWS, MASKED_LABELS)) is None
    assert outcome(lambda: make().fit(ROWS, list(MASKED_LABELS))) is None
    assert outcome(lambda: make().fit(ROWS, [np.ma.array(v, mask=True) for v in Y])) is None
    assert make().fit(ROWS, np.ma.array(Y)) is not None


@pytest.mark.parametrize("unit", ["D", "s", "ns"])
@pytest.mark.parametrize("kind", ["datetime64", "timedelta64"])
def test_dates_are_no_labels_ids_or_subjects_whatever_their_unit(tmp_path, kind, unit):
    dates = np.arange(N).astype(f"{kind}[{unit}]")
    for wrong in ({"y": dates}, {"y": Y, "ids": dates}, {"y": Y, "subjects": dates}):
        with pytest.raises(InputTypeError, match="dates or times"):
            ErasableClassifier().fit(ROWS, **wrong)
        with pytest.raises(InputTypeError, match="dates or times"):
            Table(ROWS, **wrong)
    np.save(tmp_path / "keys.npy", dates)
    with pytest.raises(InputTypeError, match="dates or times"):
        read_keys(tmp_path / "keys.npy")


def test_tables_of_masked_arrays_are_refused():
    for wrong in ({"X": MASKED_ROWS}, {"y": MASKED_LABELS}, {"ids": MASKED_LABELS}, {"weights": MASKED_LABELS}):
        with pytest.raises(InputError, match="masked"):
            Table(**{"X": ROWS, "y": np.array(Y), **wrong})


def test_masked_ids_are_refused_and_masked_subjects_are_nobody():
    names = np.ma.array([f"n{i}" for i in range(N)], mask=HIDDEN)
    with pytest.raises(InputTypeError, match="missing"):
        ErasableClassifier().fit(ROWS, Y, ids=names)
    clf = ErasableClassifier(threshold=0.0).fit(ROWS, Y, ids=range(N))
    for wrong in ({"ids": np.ma.array(range(N), mask=HIDDEN)}, {"subjects": names}):
        with pytest.raises(InputTypeError, match="missing"):
            clf.forget(**wrong)
    with pytest.raises(InputError, match="1 of 12 rows have no subject"):
        ErasableClassifier().fit(ROWS, Y, subjects=names)
    digests = {
        ErasableClassifier(threshold=0.0).fit(ROWS, Y, subjects=owners, allow_no_subject=True).state_digest()
        for owners in (names, list(names), names.tolist(), pd.Series(names.tolist()).where(~HIDDEN, pd.NaT))
    }
    assert len(digests) == 1


NO_ROWS = {"dictionary": {"a": FIRST}, "None": None, "set": {SECRET}, "generator": (r for r in ROWS), "function": len}


@pytest.mark.parametrize("rows", NO_ROWS)
def test_what_are_no_rows_is_named(rows):
    kind = type(NO_ROWS[rows]).__name__
    with pytest.raises(InputTypeError, match=f"X must be a 2D array.*got {kind}: pass"):
        ErasableClassifier().fit(NO_ROWS[rows], Y)
    with pytest.raises(InputTypeError, match=f"X must be a 2D array.*got {kind}: pass"):
        ErasableClassifier().fit(ROWS, Y).predict(NO_ROWS[rows])


@pytest.mark.parametrize("column", [{1: 2}, {SECRET}, frozenset(Y), SECRET_TEXT, b"ab", bytearray(N)])
@pytest.mark.parametrize("make", [ErasableClassifier, ErasableRegressor])
def test_what_is_no_column_of_labels_is_named(make, column):
    with pytest.raises(InputError, match=f"y must be a list or an array.*got {type(column).__name__}") as told:
        make().fit(ROWS, column)
    assert_no_traces(everything_said(told.value))


def test_a_message_about_dates_names_the_column_and_the_schema():
    with pytest.raises(InputTypeError, match=r"dates or times in 'b', .*TableEncoder\(schema\).*`erasable schema`"):
        ErasableClassifier().fit(pl.DataFrame({"a": FIRST, "b": [MOMENT] * N}), Y)


@pytest.mark.parametrize("rows", [name for name in ODD_ROWS if name != "sparse pandas columns filled with NaN"])
def test_feature_maps_and_chunks_of_dask_refuse_odd_rows(rows):
    assert outcome(lambda: RandomFourierFeatures(5)(ODD_ROWS[rows])) is None
    if isinstance(ODD_ROWS[rows], np.ndarray) and ODD_ROWS[rows].ndim == 2:
        chunks = ArrayRows(da.from_array(ODD_ROWS[rows], chunks=(N // 2, 2)), np.array(Y))
        assert outcome(lambda: ErasableClassifier().learn_blocks(chunks)) is None


def test_dask_refuses_masked_labels_and_weights_and_columns_that_arrow_has_not():
    X = da.from_array(ROWS, chunks=(N // 2, 2))
    for wrong in ({"y": MASKED_LABELS}, {"y": np.array(Y), "weights": da.from_array(MASKED_LABELS, chunks=N // 2)}):
        assert outcome(lambda wrong=wrong: ErasableClassifier().learn_blocks(ArrayRows(X, **wrong))) is None
    frame = dd.from_pandas(pd.DataFrame({"a": FIRST + 1j, "label": Y}), npartitions=2)
    with pytest.raises(InputError, match="columns that Arrow has"):
        stream_table(frame, label="label")


def test_plans_refuse_masked_weights():
    X = np.random.default_rng(0).standard_normal((100, 2))
    with pytest.raises(InputError, match="missing entries in weights"):
        plan(X, [0, 1] * 50, weights=np.ma.array(np.ones(100), mask=np.arange(100) == 3))


@pytest.mark.parametrize(
    "numbers",
    [
        np.ma.array([1.0, 2.0], mask=[False, True]),
        [1.0, np.ma.masked],
        np.array([1, 2], dtype="M8[ns]"),
        np.array([1.0, 2j]),
        np.array([1.0, np.complex64(2j)], dtype=object),
        ["1", "2"],
        {1.0: 2.0},
    ],
    ids=lambda numbers: type(numbers).__name__,
)
def test_scales_and_ranges_are_real_numbers(numbers):
    with pytest.raises(ConfigurationError, match="scaling must be"):
        ErasableClassifier(scaling=numbers).fit(ROWS, Y)
    with pytest.raises(ConfigurationError, match="target_range must be"):
        ErasableRegressor(target_range=numbers).fit(ROWS, np.full(N, 1.5))


def test_masked_classes_are_refused():
    with pytest.raises(ConfigurationError, match="masked"):
        ErasableClassifier(classes=np.ma.array([0, 1], mask=[False, True])).fit(ROWS, Y)
