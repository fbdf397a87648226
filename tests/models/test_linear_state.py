"""The canonical bytes: a second writer gives the same, no altered byte passes unnoticed, nothing else is read."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import math
import struct

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from erasable import ErasableClassifier
from erasable.core.grid import Grid
from erasable.core.sums import symmetric
from erasable.errors import StateFormatError, VerificationError
from erasable.models.configuration import Configuration
from erasable.models.heads import Squared
from erasable.models.heads.linear import ExactSums
from erasable.models.selections import Leverage
from erasable.models.state import State
from tests.formats.tampering import CHECKSUM, altered, opened, rebuilt, sealed, tensors
from tests.oracle import gram_matrix
from tests.strategies import Batch, Setting, problems, whole_rows


def state_of(problem):
    setting, batch = problem
    return batch.learnt_by(setting.classifier())._model.snapshot()


def small(ids="int", subjects=None, labels=(0, 1), **parameters):
    """A state of six rows in two dimensions, as oracle and as record."""
    setting = Setting(2, **{"threshold": 0.01, "intercept": True, **parameters})
    rng = np.random.default_rng(5)
    X = rng.standard_normal((6, 2)).tolist()
    names = {
        "int": [3, -1, 2**63 - 1, 0, -(2**63), 5],
        "str": ["a", "", "é", "b\0", '"\\\n', "long " * 5],
        "bytes": [b"", b"\0", b"\0\0", b"\xff", b"a", b"bc"],
    }
    owners = None if subjects is None else [names[subjects][i % 3] for i in range(6)]
    batch = Batch([tuple(x) for x in X], [labels[i % len(labels)] for i in range(6)], names[ids], owners)
    clf, oracle = batch.learnt_by(setting.classifier()), batch.learnt_by(setting.oracle())
    assert len(oracle.core) == 6
    return clf._model.snapshot(), oracle


def mixed():
    """Some rows with a subject and some without, three classes that the caller fixed, one of them without rows."""
    setting = Setting(1, threshold=0.001, scaling=(0.5,), bits=16, classes=("a", "b", "z\0\u2028"))
    first = Batch([(1.0,), (2.0,)], ["a", "b"], ["r1", "r2"], None)
    second = Batch([(-1.0,), (3.0,)], ["a", "b"], ["r3", "r4"], ["s", ""])
    clf, oracle = setting.classifier(), setting.oracle()
    for batch in (first, second):
        batch.learnt_by(clf)
        batch.learnt_by(oracle)
    return clf._model.snapshot(), oracle


def empty():
    setting = Setting(3, threshold=0.1, scaling=2.0)
    batch = Batch([(1.0, 0.5, 0.0)], ["only"], [7], [8])
    clf, oracle = batch.learnt_by(setting.classifier()), batch.learnt_by(setting.oracle())
    clf.forget(subjects=[8])
    oracle.forget(subjects=[8])
    return clf._model.snapshot(), oracle


def sparse(bits=15):
    """Rows with two entries, one or none among nine features."""
    setting = Setting(9, threshold=0.01, scaling=4.0, bits=bits, intercept=True)
    X = [tuple(1.5 * (j == i) - 0.25 * (j == 8 - i) for j in range(9)) for i in range(5)] + [(0.0,) * 9]
    batch = Batch(X, [0, 1, 1, 0, 1, 0], [3, 1, 4, 10, 5, 9], None)
    clf, oracle = batch.learnt_by(setting.classifier()), batch.learnt_by(setting.oracle())
    assert sp.issparse(clf._model.snapshot().rows)
    return clf._model.snapshot(), oracle


STATES = {
    "int ids": lambda: small(),
    "sparse": sparse,
    "sparse, 20 bits": lambda: sparse(20),
    "str ids, bytes subjects": lambda: small("str", "bytes", ("x", "y", "ζ")),
    "bytes ids, str subjects": lambda: small("bytes", "str", (False, True), bits=20, intercept=False),
    "int subjects, float labels": lambda: small("int", "int", (-2.0, 3.0, 2.0**40, -1.0), scaling=(0.3, 2.0)),
    "one class": lambda: small("int", None, ("α\n",)),
    "subjects on some rows": mixed,
    "empty": empty,
}


@pytest.fixture(params=STATES, scope="module")
def pair(request):
    return STATES[request.param]()


# -- the same bytes from a second writer, and back ---------------------------------------------------------------


def test_a_second_writer_gives_the_same_bytes(pair):
    state, oracle = pair
    assert state.to_bytes() == oracle.to_bytes()
    assert state.digest == oracle.digest() == hashlib.sha256(state.to_bytes()).hexdigest()


def test_reading_undoes_writing(pair):
    state, _ = pair
    data = state.to_bytes()
    again = State.from_bytes(data)
    assert again.to_bytes() == data
    assert again == state
    assert hash(again) == hash(state)
    for field in dataclasses.fields(State):
        a, b = (whole_rows(s) if field.name == "rows" else getattr(s, field.name) for s in (again, state))
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype
            assert a.dtype.isnative
            assert a.shape == b.shape
            assert a.tobytes() == b.tobytes()
        elif field.name == "derived":
            assert list(a) == list(b)
            assert all(a[name].dtype == b[name].dtype for name in a)
            assert all(a[name].dtype.isnative and a[name].tobytes() == b[name].tobytes() for name in a)
        else:
            assert a == b
            assert type(a) is type(b)
    assert list(map(type, again.ids)) == list(map(type, state.ids))
    assert list(map(type, again.labels)) == list(map(type, state.labels))
    again.verify()


@given(problems(max_rows=8))
def test_reading_undoes_writing_for_any_state(problem):
    state = state_of(problem)
    data = state.to_bytes()
    again = State.from_bytes(data)
    assert again.to_bytes() == data
    assert (again.ids, again.subjects, again.labels) == (state.ids, state.subjects, state.labels)
    assert again.verify().digest == hashlib.sha256(data).hexdigest()


def test_a_state_does_not_depend_on_the_memory_of_its_arrays(pair):
    state, _ = pair
    rows = whole_rows(state)
    wide = np.zeros((len(rows), 2 * rows.shape[1]), dtype=rows.dtype)
    wide[:, ::2] = rows
    other = dataclasses.replace(
        state,
        rows=wide[:, ::2],
        derived={
            "gram": state.derived["gram"].astype(">i8"),
            "class_sums": np.asfortranarray(state.derived["class_sums"]),
            "weights": np.asfortranarray(state.derived["weights"]),
        },
    )
    assert other.to_bytes() == state.to_bytes()


def test_a_safetensors_reader_finds_every_tensor(pair):
    """Read as the safetensors format says, with nothing of this package."""
    state, oracle = pair
    data = state.to_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    assert length % 8 == 0
    assert data[8:9] == b"{"
    header = json.loads(data[8 : 8 + length])
    metadata = header.pop("__metadata__")
    assert all(isinstance(k, str) and isinstance(v, str) for k, v in metadata.items())
    dtypes = {"I64": "<i8", "I32": "<i4", "I16": "<i2", "F32": "<f4", "U16": "<u2", "U8": "|u1"}
    body, end, tensors = data[8 + length :], 0, {}
    for name, entry in header.items():
        assert set(entry) == {"dtype", "shape", "data_offsets"}
        low, high = entry["data_offsets"]
        assert low == end  # in order, without gaps
        dtype = np.dtype(dtypes[entry["dtype"]])
        assert (8 + length + low) % dtype.itemsize == 0  # aligned
        assert high - low == dtype.itemsize * math.prod(entry["shape"])
        tensors[name] = np.frombuffer(body[low:high], dtype).reshape(entry["shape"])
        end = high
    assert end == len(body)
    if "rows" in tensors:
        assert tensors["rows"].tolist() == [list(g) for g in oracle.rows]
    else:
        entries = zip(tensors["rows.columns"].tolist(), tensors["rows.values"].tolist(), strict=True)
        found = [list(itertools.islice(entries, length)) for length in tensors["rows.lengths"].tolist()]
        assert found == [[(j, v) for j, v in enumerate(g[:-1]) if v] for g in oracle.rows]
    assert tensors["gram"].tolist() == oracle.gram
    assert tensors["class_sums"].tolist() == oracle.class_sums
    assert tensors["weights"].view(np.uint32).tolist() == oracle.weight_bits
    meta = json.loads(metadata["erasable"])
    assert list(meta) == sorted(meta)
    assert float.fromhex(meta["threshold"]) == oracle.threshold


# -- damage ------------------------------------------------------------------------------------------------------


def free(before: State, after: State) -> bool:
    """Whether the two differ in nothing but what only the caller can know: names and configuration."""
    codes = [[s.classes.index(v) for v in s.labels] for s in (before, after)]
    return (
        codes[0] == codes[1]
        and whole_rows(before).tobytes() == whole_rows(after).tobytes()
        and before.derived["gram"].tobytes() == after.derived["gram"].tobytes()
        and before.derived["class_sums"].tobytes() == after.derived["class_sums"].tobytes()
        and before.derived["weights"].tobytes() == after.derived["weights"].tobytes()
    )


def outcome(data: bytes, original: State) -> str:
    try:
        state = State.from_bytes(data)
    except StateFormatError:
        return "not a state"
    assert state.to_bytes() == data
    assert state.digest != original.digest
    try:
        state.verify()
    except VerificationError:
        return "does not verify"
    assert free(original, state)
    return "another state"


def sections(data: bytes) -> dict[str, tuple[int, int]]:
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__")
    start = 8 + length
    return {name: (start + e["data_offsets"][0], start + e["data_offsets"][1]) for name, e in header.items()}


def test_sealing_what_is_sealed_changes_nothing(pair):
    data = pair[0].to_bytes()
    assert sealed(data) == data
    assert sealed(data.replace(CHECKSUM.search(data)[1], b"f" * 64)) == data


@pytest.mark.parametrize("name", STATES)
def test_every_altered_byte_is_refused(name):
    state, _ = STATES[name]()
    data = state.to_bytes()
    for position in range(len(data)):
        for flip in (1, 8, 128, 255):
            flipped = bytearray(data)
            flipped[position] ^= flip
            with pytest.raises(StateFormatError):
                State.from_bytes(flipped)


@pytest.mark.parametrize("name", ["int ids", "sparse", "str ids, bytes subjects", "subjects on some rows", "empty"])
def test_every_flipped_bit_is_noticed_though_the_checksum_was_made_to_fit(name):
    """A flipped bit is refused, or found by ``verify``, or made another valid state: other names, other configuration.

    Nothing that was learnt from rows can be altered in this way. Every bit of the header, and of each byte of the
    tensors one, which one being another from byte to byte.
    """
    state, _ = STATES[name]()
    data = state.to_bytes()
    learnt = [place for part, place in sections(data).items() if not part.startswith(("ids", "subjects"))]
    assert len(learnt) >= 5
    header = 8 + int.from_bytes(data[:8], "little")
    for position in range(len(data)):
        protected = any(low <= position < high for low, high in learnt)
        for bit in range(8) if position < header else (3 * position % 8,):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            flipped = sealed(bytes(flipped))
            if flipped == data:  # the flipped bit was one of the checksum's own
                continue
            result = outcome(flipped, state)
            assert not (protected and result == "another state"), (position, bit)
            if position < 8:
                assert result == "not a state"


def test_every_truncation_is_refused(pair):
    data = pair[0].to_bytes()
    for length in range(len(data)):
        with pytest.raises(StateFormatError):
            State.from_bytes(data[:length])


def test_anything_appended_is_refused(pair):
    data = pair[0].to_bytes()
    for extra in (b"\0", b" ", data, b"\n" * 8):
        with pytest.raises(StateFormatError):
            State.from_bytes(data + extra)


@given(st.binary(max_size=200))
def test_other_bytes_are_refused(data):
    with pytest.raises(StateFormatError):
        State.from_bytes(data)
    with pytest.raises(StateFormatError):
        State.from_bytes(struct.pack("<Q", len(data)) + data)


def test_rewriting_nothing_changes_nothing(pair):
    data = pair[0].to_bytes()
    assert altered(data, lambda header, meta: None) == data


TEXTS = ["", "row", "nan", "inf", "-0x1p+0", "0x1p+0", "9" * 400]
JUNK = [None, True, -1, 0, 1, 2, 10**30, 0.5, [], ["0x1p+0"], [[]], {}, *TEXTS]
FIELDS = [
    "bits",
    "capacity_units",
    "class_kind",
    "classes",
    "classes_fixed",
    "format",
    "id_kind",
    "intercept",
    "n_features",
    "scaling",
]
FIELDS += ["subject_kind", "threshold", "version"]


@pytest.mark.parametrize("field", FIELDS)
def test_a_nonsensical_configuration_is_refused_or_does_not_verify(field):
    for name in ("int ids", "empty", "subjects on some rows"):
        state, _ = STATES[name]()
        data = state.to_bytes()

        def put(header, meta, value):
            meta[field] = value

        for value in JUNK:
            changed = altered(data, lambda header, meta, value=value: put(header, meta, value))
            if changed != data:
                outcome(changed, state)
        with pytest.raises(StateFormatError):
            State.from_bytes(altered(data, lambda header, meta: meta.pop(field)))
        with pytest.raises(StateFormatError):
            State.from_bytes(altered(data, lambda header, meta: meta.update(extra=1)))


@pytest.mark.parametrize("key", ["dtype", "shape", "data_offsets"])
def test_a_nonsensical_header_is_refused(key):
    state, _ = small("str", "str")
    data = state.to_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    names = [n for n in json.loads(data[8 : 8 + length]) if n != "__metadata__"]
    junk = [*JUNK, [-1], [1, 2, 3], [0, 0], [-8, 0], [8, 0], [0, 10**18], "I64", "U8", "F32", [0.0, 8.0], ["0", "8"]]
    for name, value in itertools.product(names, junk):
        changed = altered(data, lambda header, meta, n=name, v=value: header[n].update({key: v}))
        if changed != data:
            with pytest.raises(StateFormatError):
                State.from_bytes(changed)
    for name in names:
        with pytest.raises(StateFormatError):
            State.from_bytes(altered(data, lambda header, meta, n=name: header.pop(n)))


def test_other_orders_and_spellings_of_the_same_state_are_refused():
    state, _ = small("str", "str")
    data = state.to_bytes()

    def reorder(header, meta):
        header["gram"] = header.pop("gram")

    def unescaped(header, meta):
        meta["threshold"] = meta["threshold"].upper()

    def padded(header, meta):
        meta["capacity_units"] = "0" + meta["capacity_units"]

    for change in (reorder, unescaped, padded):
        with pytest.raises(StateFormatError):
            State.from_bytes(altered(data, change))
    (length,) = struct.unpack("<Q", data[:8])
    with pytest.raises(StateFormatError):  # more padding than needed
        State.from_bytes(struct.pack("<Q", length + 8) + data[8 : 8 + length] + b" " * 8 + data[8 + length :])


def in_the_other_layout(data):
    """The file of a linear state with its rows written the way that the rule does not name."""
    parts, meta = tensors(data), opened(data)[1]
    state, letter = State.from_bytes(data), "<i2" if meta["bits"] <= 15 else "<i4"
    rows, kind = whole_rows(state), "I16" if meta["bits"] <= 15 else "I32"
    features = rows[:, : meta["n_features"]]
    if sp.issparse(state.rows):
        other = {"rows": (kind, list(rows.shape), rows.astype(letter).tobytes())}
    else:
        at, values = np.nonzero(features)[1].astype(np.uint8), features[features != 0]
        other = {
            "rows.lengths": ("U8", [len(rows)], np.count_nonzero(features, axis=1).astype(np.uint8).tobytes()),
            "rows.columns": ("U8", [len(at)], at.tobytes()),
            "rows.values": (kind, [len(at)], values.astype(letter).tobytes()),
        }
    kept = {name: part for name, part in parts.items() if not name.startswith("rows")}
    named = {name: kept.pop(name) for name in list(kept) if name.startswith(("ids", "subjects"))}
    width = {"I64": 8, "I32": 4, "F32": 4, "I16": 2, "U8": 1}
    return rebuilt(meta, dict(sorted({**kept, **other, **named}.items(), key=lambda entry: -width[entry[1][0]])))


@pytest.mark.parametrize("name", [name for name in STATES if name != "empty"])
def test_rows_in_the_other_layout_are_refused(name):
    data = STATES[name]()[0].to_bytes()
    other = in_the_other_layout(data)
    assert set(tensors(other)) != set(tensors(data))
    with pytest.raises(StateFormatError, match="not in canonical form"):
        State.from_bytes(other)


@pytest.mark.parametrize("name", ["sparse", "sparse, 20 bits"])
def test_rows_in_both_layouts_are_refused(name):
    data = STATES[name]()[0].to_bytes()
    meta, dense = opened(data)[1], tensors(in_the_other_layout(data))["rows"]
    with pytest.raises(StateFormatError):
        State.from_bytes(rebuilt(meta, {**tensors(data), "rows": dense}))


@pytest.mark.parametrize("bits", [15, 20])
def test_a_sparse_row_outside_of_the_grid_is_found(bits):
    state, _ = sparse(bits)
    rows = state.rows.copy()
    at = int(np.flatnonzero(np.diff(rows.indptr) == 2)[-1])
    rows.data[rows.indptr[at]] = 2**bits - 1  # by itself on the grid; beside the constant too long
    with pytest.raises(VerificationError, match=f"core row {at + 1} of 6 is not a row of the grid"):
        dataclasses.replace(state, rows=rows).verify()


@pytest.mark.parametrize("classes", [["1", "0"], ["1", "1"], []])
def test_fixed_classes_that_are_not_sorted_and_distinct_are_refused(classes):
    """``Configuration.classes`` is sorted: another order would be a second form of the same configuration."""
    clf = ErasableClassifier(threshold=0.1, classes=[0, 1], feature_map=None).fit([[1.0], [-1.0]], [0, 1])
    clf.forget(ids=[0, 1])
    data = clf._model.snapshot().to_bytes()

    def change(header, meta):
        meta["classes"] = classes
        header["class_sums"]["shape"][0] = len(classes)
        if not classes:
            meta["class_kind"] = None

    with pytest.raises(StateFormatError):
        State.from_bytes(altered(data, change))


@pytest.mark.parametrize(
    "change", [{"threshold": "inf"}, {"capacity_units": str(10**400)}, {"capacity_units": str(2**53)}]
)
def test_a_configuration_no_caller_could_have_fixed_is_refused(change):
    data = empty()[0].to_bytes()
    with pytest.raises(StateFormatError):
        State.from_bytes(altered(data, lambda header, meta: meta.update(change)))


def test_tensors_in_another_order_or_of_another_type_are_refused():
    """One state has one form in bytes."""
    data = small()[0].to_bytes()
    parts, meta = tensors(data), opened(data)[1]
    swapped = {"class_sums": parts["class_sums"], "gram": parts["gram"], **parts}
    kind, shape, raw = parts["weights"]
    wide = {"weights": ("I64", shape, np.frombuffer(raw, "<f4").astype("<i8").tobytes())} | {
        name: part for name, part in parts.items() if name != "weights"
    }
    for changed in (swapped, wide):
        with pytest.raises(StateFormatError):
            State.from_bytes(rebuilt(meta, changed))
    assert kind == "F32"
    assert State.from_bytes(rebuilt(meta, parts)).to_bytes() == data


# -- records -----------------------------------------------------------------------------------------------------


@given(problems(max_rows=10))
def test_relearning_a_states_own_rows_gives_the_state(problem):
    state = state_of(problem)
    again, positions = State.learnt(state.configuration, state.ids, state.subjects, state.labels, state.rows)
    assert again.to_bytes() == state.to_bytes()
    assert positions.tolist() == list(range(len(state.ids)))


@given(problems(max_rows=10))
def test_the_gram_matrix_is_handed_back_with_lambda_on_it(problem):
    state = state_of(problem)
    c = state.configuration
    assert symmetric(ExactSums.read(c, state.labels, state.derived).H).tolist() == gram_matrix(
        whole_rows(state).tolist(), c.units, c.grid.n_columns
    )


def test_states_with_different_configurations_differ():
    grid, wide = Grid(2, 15, True), Grid(3, 15, False)
    others = [Grid(2, 15, False), wide, Grid(2, 14, True), *(Grid(2, 15, True, s) for s in (None, 1.0, (1.0, 1.0)))]
    selections = [Leverage(g, 2**30, 0.5) for g in (grid, *others)]
    selections += [Leverage(grid, 2**30 + 1, 0.5), Leverage(grid, 2**30, math.nextafter(0.5, 1.0))]
    fixed = [(0, 1), ("0", "1"), (False, True), (0.0, 1.0), (0, 1, 2)]
    configurations = [Configuration(s, Squared()) for s in selections]
    configurations += [Configuration(selections[0], Squared(), classes) for classes in fixed]
    states = [State.learnt(c, (), (), (), c.selection.empty())[0] for c in configurations]
    assert len(states) == 14
    assert len({s.digest for s in states}) == len(states)
    assert len(set(states)) == len(states)
