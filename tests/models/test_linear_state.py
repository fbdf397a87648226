"""The canonical bytes: a second writer gives the same, no altered byte passes unnoticed, nothing else is read."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import math
import re
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable import ErasableClassifier
from erasable.core.grid import Grid
from erasable.core.sums import symmetric
from erasable.errors import StateFormatError, VerificationError
from erasable.models.linear_configuration import LinearConfiguration
from erasable.models.linear_state import LinearState, gram_of
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


STATES = {
    "int ids": lambda: small(),
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
    again = LinearState.from_bytes(data)
    assert again.to_bytes() == data
    assert again == state
    assert hash(again) == hash(state)
    for field in dataclasses.fields(LinearState):
        a, b = getattr(again, field.name), getattr(state, field.name)
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype
            assert a.dtype.isnative
            assert a.shape == b.shape
            assert a.tobytes() == b.tobytes()
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
    again = LinearState.from_bytes(data)
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
        gram=state.gram.astype(">i8"),
        class_sums=np.asfortranarray(state.class_sums),
        weights=np.asfortranarray(state.weights),
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
    dtypes = {"I64": "<i8", "I32": "<i4", "I16": "<i2", "F32": "<f4", "U8": "|u1"}
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
    assert tensors["rows"].tolist() == [list(g) for g in oracle.rows]
    assert tensors["gram"].tolist() == oracle.gram
    assert tensors["class_sums"].tolist() == oracle.class_sums
    assert tensors["weights"].view(np.uint32).tolist() == oracle.weight_bits
    meta = json.loads(metadata["erasable"])
    assert list(meta) == sorted(meta)
    assert float.fromhex(meta["threshold"]) == oracle.threshold


def test_the_bytes_hold_no_more_than_the_state():
    """Same rows, same bytes, however the model came to hold them; and no trace of a row that left."""
    state, _ = small("str", "str")
    batch = Batch([(1.0, 1.0), (0.3, -2.0)], [0, 1], ["QQQsecretQQQ", "r"], ["QQQownerQQQ", "s"])
    clf = batch.learnt_by(Setting(2, threshold=0.0001, intercept=True).classifier())
    clf.forget(ids=["QQQsecretQQQ"])
    data = clf._model.snapshot().to_bytes()
    assert b"QQQ" not in data
    assert b"time" not in data
    assert len(state.ids) == 6


# -- damage ------------------------------------------------------------------------------------------------------


def free(before: LinearState, after: LinearState) -> bool:
    """Whether the two differ in nothing but what only the caller can know: names and configuration."""
    codes = [[s.classes.index(v) for v in s.labels] for s in (before, after)]
    return (
        codes[0] == codes[1]
        and before.rows.tobytes() == after.rows.tobytes()
        and before.gram.tobytes() == after.gram.tobytes()
        and before.class_sums.tobytes() == after.class_sums.tobytes()
        and before.weights.tobytes() == after.weights.tobytes()
    )


def outcome(data: bytes, original: LinearState) -> str:
    try:
        state = LinearState.from_bytes(data)
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


CHECKSUM = re.compile(rb'\\"checksum\\":\\"(.{64})\\"')


def sealed(data: bytes) -> bytes:
    """The bytes with the checksum that fits them, as somebody who alters them on purpose would write it."""
    found = CHECKSUM.search(data)
    if found is None:
        return data
    low, high = found.span(1)
    digits = hashlib.sha256(data[:low] + b"0" * 64 + data[high:]).hexdigest().encode()
    return data[:low] + digits + data[high:]


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
            altered = bytearray(data)
            altered[position] ^= flip
            with pytest.raises(StateFormatError):
                LinearState.from_bytes(altered)


@pytest.mark.parametrize("name", ["int ids", "str ids, bytes subjects", "subjects on some rows", "empty"])
def test_every_flipped_bit_is_noticed_though_the_checksum_was_made_to_fit(name):
    """A flipped bit is refused, or found by ``verify``, or made another valid state: other names, other configuration.

    Nothing that was learnt from rows can be altered in this way. Every bit of the header, and of each byte of the
    tensors one, which one being another from byte to byte.
    """
    state, _ = STATES[name]()
    data = state.to_bytes()
    learnt = [sections(data)[part] for part in ("gram", "class_sums", "weights", "labels", "rows")]
    header = 8 + int.from_bytes(data[:8], "little")
    for position in range(len(data)):
        protected = any(low <= position < high for low, high in learnt)
        for bit in range(8) if position < header else (3 * position % 8,):
            altered = bytearray(data)
            altered[position] ^= 1 << bit
            altered = sealed(bytes(altered))
            if altered == data:  # the flipped bit was one of the checksum's own
                continue
            result = outcome(altered, state)
            assert not (protected and result == "another state"), (position, bit)
            if position < 8:
                assert result == "not a state"


def test_every_truncation_is_refused(pair):
    data = pair[0].to_bytes()
    for length in range(len(data)):
        with pytest.raises(StateFormatError):
            LinearState.from_bytes(data[:length])


def test_anything_appended_is_refused(pair):
    data = pair[0].to_bytes()
    for extra in (b"\0", b" ", data, b"\n" * 8):
        with pytest.raises(StateFormatError):
            LinearState.from_bytes(data + extra)


@given(st.binary(max_size=200))
def test_other_bytes_are_refused(data):
    with pytest.raises(StateFormatError):
        LinearState.from_bytes(data)
    with pytest.raises(StateFormatError):
        LinearState.from_bytes(struct.pack("<Q", len(data)) + data)


def rewritten(data: bytes, change) -> bytes:
    """The bytes with their header changed by ``change(header, metadata)``."""
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    meta = json.loads(header["__metadata__"]["erasable"])
    change(header, meta)
    if "__metadata__" in header:
        header["__metadata__"] = {
            "erasable": json.dumps(meta, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return sealed(struct.pack("<Q", len(text)) + text + data[8 + length :])


def test_rewriting_nothing_changes_nothing(pair):
    data = pair[0].to_bytes()
    assert rewritten(data, lambda header, meta: None) == data


JUNK = [
    None,
    True,
    -1,
    0,
    1,
    2,
    10**30,
    0.5,
    "",
    "row",
    "nan",
    "inf",
    "-0x1p+0",
    "0x1p+0",
    [],
    ["0x1p+0"],
    [[]],
    {},
    "9" * 400,
]
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
    "subject_kind",
    "threshold",
    "version",
]


@pytest.mark.parametrize("field", FIELDS)
def test_a_nonsensical_configuration_is_refused_or_does_not_verify(field):
    for name in ("int ids", "empty", "subjects on some rows"):
        state, _ = STATES[name]()
        data = state.to_bytes()

        def put(header, meta, value):
            meta[field] = value

        for value in JUNK:
            altered = rewritten(data, lambda header, meta, value=value: put(header, meta, value))
            if altered != data:
                outcome(altered, state)
        with pytest.raises(StateFormatError):
            LinearState.from_bytes(rewritten(data, lambda header, meta: meta.pop(field)))
        with pytest.raises(StateFormatError):
            LinearState.from_bytes(rewritten(data, lambda header, meta: meta.update(extra=1)))


@pytest.mark.parametrize("key", ["dtype", "shape", "data_offsets"])
def test_a_nonsensical_header_is_refused(key):
    state, _ = small("str", "str")
    data = state.to_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    names = [n for n in json.loads(data[8 : 8 + length]) if n != "__metadata__"]
    junk = [*JUNK, [-1], [1, 2, 3], [0, 0], [-8, 0], [8, 0], [0, 10**18], "I64", "U8", "F32", [0.0, 8.0], ["0", "8"]]
    for name, value in itertools.product(names, junk):
        altered = rewritten(data, lambda header, meta, n=name, v=value: header[n].update({key: v}))
        if altered != data:
            with pytest.raises(StateFormatError):
                LinearState.from_bytes(altered)
    for name in names:
        with pytest.raises(StateFormatError):
            LinearState.from_bytes(rewritten(data, lambda header, meta, n=name: header.pop(n)))


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
            LinearState.from_bytes(rewritten(data, change))
    (length,) = struct.unpack("<Q", data[:8])
    with pytest.raises(StateFormatError):  # more padding than needed
        LinearState.from_bytes(struct.pack("<Q", length + 8) + data[8 : 8 + length] + b" " * 8 + data[8 + length :])


def test_a_newer_version_is_named():
    data = small()[0].to_bytes()
    with pytest.raises(StateFormatError, match="version 2"):
        LinearState.from_bytes(rewritten(data, lambda header, meta: meta.update(version=2)))


@pytest.mark.parametrize("classes", [["1", "0"], ["1", "1"], []])
def test_fixed_classes_that_are_not_sorted_and_distinct_are_refused(classes):
    """``LinearConfiguration.classes`` is sorted: another order would be a second form of the same configuration."""
    clf = ErasableClassifier(threshold=0.1, classes=[0, 1]).fit([[1.0], [-1.0]], [0, 1])
    clf.forget(ids=[0, 1])
    data = clf._model.snapshot().to_bytes()

    def change(header, meta):
        meta["classes"] = classes
        header["class_sums"]["shape"][0] = len(classes)
        if not classes:
            meta["class_kind"] = None

    with pytest.raises(StateFormatError):
        LinearState.from_bytes(rewritten(data, change))


@pytest.mark.parametrize(
    "change", [{"threshold": "inf"}, {"capacity_units": str(10**400)}, {"capacity_units": str(2**53)}]
)
def test_a_configuration_no_caller_could_have_fixed_is_refused(change):
    data = empty()[0].to_bytes()
    with pytest.raises(StateFormatError):
        LinearState.from_bytes(rewritten(data, lambda header, meta: meta.update(change)))


# -- records -----------------------------------------------------------------------------------------------------


@given(problems(max_rows=10))
def test_relearning_a_states_own_rows_gives_the_state(problem):
    state = state_of(problem)
    again, selection = LinearState.learnt(state.configuration, state.ids, state.subjects, state.labels, state.rows)
    assert again.to_bytes() == state.to_bytes()
    assert selection.index.tolist() == list(range(len(state.ids)))


@given(problems(max_rows=10))
def test_the_gram_matrix_is_handed_back_with_lambda_on_it(problem):
    state = state_of(problem)
    c = state.configuration
    assert symmetric(gram_of(state)).tolist() == gram_matrix(whole_rows(state).tolist(), c.units, c.grid.n_columns)


def test_a_snapshot_stays_what_it_was_when_the_model_forgets():
    """A frozen record: its digest, hence its hash, must not move with the model it was taken from."""
    clf = ErasableClassifier(threshold=0.01).fit(np.eye(3), [0, 1, 0])
    state = clf._model.snapshot()
    before = state.to_bytes()
    clf.forget(ids=[0])
    clf.coef_  # noqa: B018
    assert state.to_bytes() == before


def test_repr_shows_counts_only():
    state, _ = small("str", "str")
    assert repr(state) == "LinearState(6 core rows)"


def test_states_with_different_configurations_differ():
    grid = Grid(2, 15, True)
    states = []
    for c in (
        LinearConfiguration(grid, 2**30, 0.5),
        LinearConfiguration(grid, 2**30 + 1, 0.5),
        LinearConfiguration(grid, 2**30, math.nextafter(0.5, 1.0)),
        LinearConfiguration(Grid(2, 15, False), 2**30, 0.5),
        LinearConfiguration(Grid(3, 15, False), 2**30, 0.5),
        LinearConfiguration(Grid(2, 14, True), 2**30, 0.5),
        LinearConfiguration(Grid(2, 15, True, None), 2**30, 0.5),
        LinearConfiguration(Grid(2, 15, True, 1.0), 2**30, 0.5),
        LinearConfiguration(Grid(2, 15, True, (1.0, 1.0)), 2**30, 0.5),
        LinearConfiguration(grid, 2**30, 0.5, (0, 1)),
        LinearConfiguration(grid, 2**30, 0.5, ("0", "1")),
        LinearConfiguration(grid, 2**30, 0.5, (False, True)),
        LinearConfiguration(grid, 2**30, 0.5, (0.0, 1.0)),
        LinearConfiguration(grid, 2**30, 0.5, (0, 1, 2)),
    ):
        states.append(LinearState.learnt(c, (), (), (), np.empty((0, c.grid.n_columns), dtype=c.grid.dtype))[0])
    assert len({s.digest for s in states}) == len(states)
    assert len(set(states)) == len(states)
