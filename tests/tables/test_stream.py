"""Tables block by block: the same as in one piece, whatever the blocks, and never all in memory."""

import bz2
import gzip
import io
import tracemalloc
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file

from erasable.errors import ConfigurationError, ErasableError, InputError, InputTypeError
from erasable.tables import Table, csv_stream, load_table, stream_table
from tests.tables.cases import SECRET, SECRET_TEXT, assert_same, dense, refused
from tests.tables.test_bad_files import good_files

ROLES = {"label": "label", "id": "id", "subject": "subject"}


class Dribble(io.RawIOBase):
    """A pipe that gives few bytes at a time."""

    def __init__(self, data, step=7):
        self._data, self._step = io.BytesIO(data), step

    def readable(self):
        return True

    def read(self, n=-1):
        return self._data.read(min(n, self._step) if n >= 0 else -1)


def together(blocks):
    """One table of many, put together independently of the package."""
    blocks = list(blocks)

    def column(part):
        values = [getattr(b, part) for b in blocks]
        return None if values[0] is None else np.concatenate(values)

    X = np.concatenate([dense(b.X) for b in blocks])
    assert len({b.X.dtype for b in blocks}) == 1
    assert len({type(b.X) for b in blocks}) == 1
    assert len({b.y.dtype for b in blocks}) == 1
    return Table(X, column("y"), column("ids"), column("subjects"))


@pytest.fixture
def small_text_blocks(monkeypatch):
    """Text in blocks of 256 bytes, so that a small file has many."""
    monkeypatch.setattr(csv_stream, "TEXT_BLOCK", 256)


numbers = st.integers(-8, 8).map(lambda v: v / 4)
keys = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), unique=True),
    st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1, max_size=6), unique=True),
    st.lists(st.integers(0, 30).map(lambda i: str(i) if i % 7 else f"0{i}"), unique=True),
)
labels = st.sampled_from([[0, 1], ["no", "yes"], [True, False], [0.5, -1.0], ["1", "01"], ["true", "1"]])


@st.composite
def tables(draw):
    ids = draw(keys.filter(len))
    n = len(ids)
    owners = draw(st.lists(st.one_of(st.none(), st.sampled_from(ids)), min_size=n, max_size=n))
    y = draw(st.lists(st.sampled_from(draw(labels)), min_size=n, max_size=n))
    X = np.array(draw(st.lists(st.lists(numbers, min_size=3, max_size=3), min_size=n, max_size=n)))
    kind = draw(st.sampled_from(["float64", "float32", "int8", "bool"]))
    features = {f"f{j}": X[:, j].astype(kind if j else "float32") for j in range(3)}
    if all(o is None for o in owners):
        owners = pa.nulls(n, pa.string())
    return pa.table({"id": ids, **features, "label": y, "subject": owners})


FILES = ["parquet", "csv", "csv.gz", "csv.bz2"]


def written(table, folder, form, groups=3):
    file = folder / f"t.{form}"
    if form == "parquet":
        pq.write_table(table, file, row_group_size=groups)
        return file
    text = io.BytesIO()
    pyarrow.csv.write_csv(table, text)
    file.write_bytes({"csv": bytes, "csv.gz": gzip.compress, "csv.bz2": bz2.compress}[form](text.getvalue()))
    return file


def assert_equal_tables(found, expected):
    assert_same(found, expected)
    assert found.X.dtype == expected.X.dtype


@pytest.mark.parametrize("form", FILES)
@given(table=tables(), block=st.sampled_from([1, 200, 1000, 2**26]), groups=st.integers(1, 9))
@settings(max_examples=25)
def test_blocks_of_any_size_are_the_table(tmp_path_factory, form, table, block, groups):
    folder = tmp_path_factory.mktemp("t")
    file = written(table, folder, form, groups)
    whole = load_table(file, **ROLES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_stream, "TEXT_BLOCK", 256)
        with stream_table(file, **ROLES, block_bytes=block) as stream:
            for _ in range(2):  # a file can be read again
                blocks = list(stream)
                assert_equal_tables(together(blocks), whole)
                assert all(len(b) == 1 for b in blocks) or block > 1
            assert stream.n_features == whole.n_features
            assert stream.feature_names == whole.feature_names
            assert stream.count_rows() == stream.n_rows == whole.n_rows


@given(table=tables(), block=st.sampled_from([1, 200, 2**26]), step=st.integers(1, 400))
@settings(max_examples=40)
def test_pipes_hold_the_same(tmp_path_factory, table, block, step):
    folder = tmp_path_factory.mktemp("t")
    file = written(table, folder, "csv")
    whole = load_table(file, **ROLES)
    kinds = {"label": whole.y.tolist(), "id": whole.ids.tolist(), "subject": whole.subjects.tolist()}
    kinds = {role: next((type(v) for v in values if v is not None), int) for role, values in kinds.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_stream, "TEXT_BLOCK", 256)
        with stream_table(Dribble(file.read_bytes(), step), **ROLES, kinds=kinds, block_bytes=block) as stream:
            found = together(stream)
            assert stream.n_rows is stream.count_rows() is None
        typed = load_table(written(table, folder, "parquet"), **ROLES)
        with stream_table(Dribble(ipc(table, 2), step), **ROLES, block_bytes=block) as stream:
            streamed = together(stream)
    assert_same(found, whole)
    assert_same(streamed, typed)
    assert streamed.X.dtype == typed.X.dtype


def ipc(table, rows):
    """An Arrow stream with batches of so many rows."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    return sink.getvalue()


@pytest.mark.parametrize("kind", ["int16", "float32", ">f8", "bool"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_archives_give_the_same(tmp_path, kind, save):
    X = np.abs(np.random.default_rng(0).integers(-9, 9, (17, 4))).astype(kind)
    y, ids = np.arange(17) % 3, [f"n{i}" for i in range(17)]
    save(tmp_path / "c.npz", X=X, y=y, ids=ids)
    save(tmp_path / "f.npz", X=np.asfortranarray(X), y=y, ids=ids)
    if kind != ">f8":
        sp.save_npz(tmp_path / "s.npz", sp.csr_array(X))
    np.savez(tmp_path / "s_labels.npz", y=y, ids=ids)
    for file in [f for f in sorted(tmp_path.iterdir()) if "labels" not in f.name]:
        for block in (1, 70, 2**26):
            with stream_table(file, block_bytes=block) as stream:
                assert stream.n_rows == 17
                assert stream.n_features == 4
                assert_equal_tables(together(stream), load_table(file))
                assert sum(1 for _ in stream) == {1: 17, 2**26: 1}.get(block, sum(1 for _ in stream))


@pytest.mark.parametrize("base", [0, 1])
def test_svmlight_gives_the_same(tmp_path, base):
    rng = np.random.default_rng(1)
    X = rng.integers(0, 2, (40, 6)) * rng.standard_normal((40, 6))
    X[:20, 4:] = 0  # the last features show late
    X[:, 0], X[0, 0] = 0, 1.5  # and the first only once, so that blocks alone do not show where counting starts
    y = np.where(np.arange(40) < 30, 1.0, 0.5)  # and so does what labels are
    dump_svmlight_file(X, y, str(tmp_path / "a.svmlight"), query_id=np.arange(40) % 5, zero_based=base == 0)
    dump_svmlight_file(X, np.arange(40) % 2, str(tmp_path / "b.txt"), query_id=np.arange(40) % 5, zero_based=base == 0)
    (tmp_path / "c.libsvm.gz").write_bytes(gzip.compress((tmp_path / "a.svmlight").read_bytes()))
    (tmp_path / "d.txt.bz2").write_bytes(bz2.compress((tmp_path / "b.txt").read_bytes()))
    for file in sorted(tmp_path.iterdir()):
        for block in (1, 100, 2**26):
            with stream_table(file, subject="qid", block_bytes=block) as stream:
                found = together(stream)
                assert sum(1 for _ in stream) == {1: 40, 2**26: 1}.get(block, sum(1 for _ in stream))
            whole = load_table(file, subject="qid")
            assert_equal_tables(found, whole)
            assert stream.n_rows == 40
            assert stream.n_features == whole.n_features == 6
    wide = together(stream_table(tmp_path / "b.txt", n_features=9, block_bytes=100))
    assert wide.X.shape == (40, 9)
    assert wide.X[:, :6].tolist() == load_table(tmp_path / "b.txt").X.toarray().tolist()
    with refused(InputError, "b.txt has 6 features", "5"):
        list(stream_table(tmp_path / "b.txt", n_features=5))


@pytest.mark.parametrize("last", ["x,1,,0\n", "7,2.5,,0.5\n", "07,2,07,a\n"])
def test_the_last_row_changes_the_type_of_no_other(tmp_path, small_text_blocks, last):
    lines = "".join(f"{i},1.5,{i},0\n" for i in range(200))
    file = tmp_path / "late.csv"
    file.write_text("id,a,subject,label\n" + lines + last)
    for source in (io.BytesIO(file.read_bytes()), file):
        table = together(stream_table(source, **ROLES, block_bytes=1000))
        assert_equal_tables(table, load_table(file, **ROLES))
        assert table.ids.tolist()[:200] == table.subjects.tolist()[:200] == [str(i) for i in range(200)]
        assert table.y.tolist()[:200] == ["0"] * 200
    numbers = {"id": int, "subject": int, "label": int}
    with refused(InputError, "rows 181 to 201, column", "1 of 21", "are not integers", "correct the column"):
        list(stream_table(file, **ROLES, kinds=numbers, block_bytes=30 * (8 + 3 * 64)))


def test_a_pipe_whose_first_block_names_no_subject(small_text_blocks):
    text = "a,label,subject\n" + "1,0,\n" * 100 + "1,0,x\n" + "1,0,7\n"
    table = together(stream_table(io.BytesIO(text.encode()), subject="subject", block_bytes=500))
    assert table.subjects.tolist() == [None] * 100 + ["x", "7"]


@pytest.mark.parametrize("size", range(200, 240))
def test_a_pipe_may_be_cut_anywhere(monkeypatch, size):
    """Types of features are those of whole rows, wherever the first bytes end: in a word, or at a quoted line break."""
    lines = "".join(f'"{i}\n{i}",{i},no,true\n' for i in range(40))
    monkeypatch.setattr(csv_stream, "TEXT_BLOCK", size)
    table = together(stream_table(io.BytesIO(b"id,a,label,b\n" + lines.encode()), id="id"))
    assert table.ids.tolist() == [f"{i}\n{i}" for i in range(40)]
    assert table.X.tolist() == [[i, 1] for i in range(40)]


def test_a_csv_is_parsed_once(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_text("a,label\n1,0\n2,1\n")
    opened = []
    read_csv = pyarrow.csv.read_csv
    monkeypatch.setattr(pyarrow.csv, "read_csv", lambda *a, **k: opened.append(1) or read_csv(*a, **k))
    with stream_table(tmp_path / "t.csv") as stream:
        assert [b.y.tolist() for b in stream] == [["0", "1"]]
        assert len(opened) == 2  # for the names of columns, and for the rows
        assert stream.n_rows is None
        assert stream.count_rows() == stream.n_rows == 2
    assert len(opened) == 3


def test_the_standard_input_is_read(monkeypatch):
    class Standard:
        buffer = io.BytesIO(b"a,label\n1,x\n2,y\n")

    monkeypatch.setattr("sys.stdin", Standard)
    with stream_table("-") as stream:
        assert [b.y.tolist() for b in stream] == [["x", "y"]]
        with refused(InputError, "only once"):
            list(stream)
    assert not Standard.buffer.closed


# -- memory ------------------------------------------------------------------------------------------------------


def peak_of(stream):
    """The most bytes that Python and Arrow held beyond what they held before, and the number of rows."""
    before, most, n = pa.total_allocated_bytes(), 0, 0
    tracemalloc.start()
    try:
        for block in stream:
            n += len(block)
            most = max(most, pa.total_allocated_bytes() - before)
        return tracemalloc.get_traced_memory()[1] + most, n
    finally:
        tracemalloc.stop()


def test_only_a_block_is_in_memory(tmp_path, monkeypatch):
    n, d, block = 60_000, 20, 2**18
    X = np.random.default_rng(0).standard_normal((n, d))
    y = np.arange(n) % 2
    table = pa.table({**{f"f{j}": X[:, j] for j in range(d)}, "label": y})
    pq.write_table(table, tmp_path / "groups.parquet", row_group_size=1000, use_dictionary=False)
    pq.write_table(
        table,
        tmp_path / "one.parquet",
        row_group_size=n,
        data_page_size=2**15,
        write_batch_size=64,
        use_dictionary=False,
    )
    np.savez(tmp_path / "plain.npz", X=X, y=y)
    np.savez_compressed(tmp_path / "packed.npz", X=X, y=y)
    pyarrow.csv.write_csv(table.slice(0, 20_000), tmp_path / "text.csv")
    del table
    whole = X.nbytes
    for name in ("groups.parquet", "one.parquet", "plain.npz", "packed.npz"):
        with stream_table(tmp_path / name, block_bytes=block) as stream:
            peak, rows = peak_of(stream)
        assert rows == n, name
        assert peak < whole // 3, (name, peak / whole)
    size = (tmp_path / "text.csv").stat().st_size
    assert size > 7 * 2**20
    monkeypatch.setattr(csv_stream, "TEXT_BLOCK", 2**14)
    text = (tmp_path / "text.csv").read_bytes()
    (tmp_path / "text.csv.gz").write_bytes(gzip.compress(text, 1))
    (tmp_path / "text.csv.zst").write_bytes(pa.compress(text, codec="zstd", asbytes=True))
    del text
    for name in ("text.csv", "text.csv.gz", "text.csv.zst"):
        with stream_table(tmp_path / name, block_bytes=block) as stream:
            peak, rows = peak_of(stream)
        assert rows == 20_000
        assert peak < size // 3, (name, peak / size)


# -- refusals ----------------------------------------------------------------------------------------------------


def test_what_is_wrong_late_is_told_with_its_rows(tmp_path, small_text_blocks):
    a = np.ones(100)
    a[77] = np.nan
    table = pa.table({"a": a, "b": np.full(100, SECRET), "label": [SECRET_TEXT] * 100})
    pq.write_table(table, tmp_path / "t.parquet")
    pyarrow.csv.write_csv(table, tmp_path / "t.csv")
    np.savez(tmp_path / "t.npz", X=np.c_[a, a], y=np.ones(100))
    for name, width in (("t.parquet", 48), ("t.csv", 80), ("t.npz", 16)):
        blocks = iter(stream_table(tmp_path / name, block_bytes=10 * width))
        for _ in range(7):
            assert len(next(blocks)) == 10
        with refused(InputError, f"{name}, rows 71 to 80", "1 entries of", "not finite"):
            next(blocks)
    text = "a,label\n" + "1,0\n" * 200 + f"{SECRET_TEXT},1\n"
    with refused(InputTypeError, "'a' must be numeric"):
        list(stream_table(io.BytesIO(text.encode())))
    with refused(InputError, "standard input", "different numbers of cells"):
        list(stream_table(io.BytesIO(text.replace(",1\n", "\n").encode())))
    (tmp_path / "q.txt").write_text("1 qid:3 1:1\n" * 5 + "0 1:1\n")
    with refused(InputError, "q.txt, rows 6 to 6: 0 of 1 rows have a query id"):
        list(stream_table(tmp_path / "q.txt", subject="qid", block_bytes=1))


def test_a_wrong_checksum_of_a_packed_archive_is_noticed(tmp_path):
    np.savez_compressed(tmp_path / "t.npz", X=np.eye(50), y=np.arange(50))
    with zipfile.ZipFile(tmp_path / "t.npz") as archive:
        right = archive.getinfo("X.npy").CRC
    data = (tmp_path / "t.npz").read_bytes()
    for block in (400, 10**6):
        (tmp_path / "t.npz").write_bytes(data.replace(right.to_bytes(4, "little"), (right ^ 1).to_bytes(4, "little")))
        with refused(InputError, "t.npz"):
            list(stream_table(tmp_path / "t.npz", block_bytes=block))


def test_a_flipped_byte_of_an_archive_is_noticed(tmp_path):
    X = np.random.default_rng(0).standard_normal((50, 4))
    np.savez(tmp_path / "t.npz", X=X, y=np.arange(50))
    data = bytearray((tmp_path / "t.npz").read_bytes())
    data[data.index(X[30].tobytes()) + 1] ^= 1
    (tmp_path / "t.npz").write_bytes(data)
    with refused(InputError, "t.npz"):
        list(stream_table(tmp_path / "t.npz", block_bytes=320))


PIPES = {
    "nothing": (b"", "is empty"),
    "blank": (b"\n\n", "is empty"),
    "Parquet": (b"PAR1....", "give the path of a file"),
    "an Arrow file": (b"ARROW1\0\0", "streaming format"),
    "gzip": (gzip.compress(b"a,label\n1,2\n"), "unpack"),
    "an archive": (b"PK\x03\x04...", "give the path"),
    "only names": (b"a,label\n", "no rows"),
    "no such column": (b"a,b\n1,2\n", "no column 'label'"),
    "damaged Arrow": (b"\xff\xff\xff\xff" + SECRET_TEXT.encode() * 9, "Arrow stream"),
}


@pytest.mark.parametrize("case", PIPES)
def test_pipes_that_cannot_be_read_are_refused(case):
    data, says = PIPES[case]
    with refused(InputError, "standard input", says):
        list(stream_table(io.BytesIO(data)))


def test_an_arrow_stream_cut_short_is_refused():
    data = ipc(pa.table({"a": np.ones(50), "label": [SECRET_TEXT] * 50}), 10)
    with refused(InputError, "standard input", "Arrow stream"):
        list(stream_table(io.BytesIO(data[:-300]), block_bytes=100))


def test_an_arrow_stream_that_points_outside_is_refused():
    """Its reader trusts the offsets of texts: they would be read out of memory that is not theirs."""
    data = ipc(pa.table({"a": np.ones(3), "label": ["x", "yz", "abc"]}), 3)
    offsets = np.array([0, 1, 3, 6], np.int32)
    assert data.count(offsets.tobytes()) == 1
    offsets[2:] = 2**20
    damaged = data.replace(np.array([0, 1, 3, 6], np.int32).tobytes(), offsets.tobytes())
    with refused(InputError, "standard input", "Arrow stream"):
        list(stream_table(io.BytesIO(damaged)))


def test_a_closed_stream_gives_nothing(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.eye(9), y=np.arange(9))
    with stream_table(tmp_path / "t.npz", block_bytes=72) as stream:
        blocks = iter(stream)
        next(blocks)
    assert list(blocks) == []  # it was closed in the middle, and the file with it
    with refused(InputError, "closed"):
        list(stream)
    with refused(InputError, "closed"):
        stream.read()


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({"block_bytes": 0}, ConfigurationError, "block_bytes"),
        ({"block_bytes": 1.5}, ConfigurationError, "block_bytes"),
        ({"kinds": {"id": float}}, ConfigurationError, "kinds"),
        ({"kinds": {"row": int}}, ConfigurationError, "kinds"),
        ({"n_features": 3}, ConfigurationError, "n_features"),
        ({"label": None}, InputTypeError, "label"),
    ],
)
def test_odd_arguments_are_refused(tmp_path, options, kind, says):
    (tmp_path / "t.csv").write_text("a,label\n1,2\n")
    for source in (tmp_path / "t.csv", io.BytesIO(b"a,label\n1,2\n")):
        with refused(kind, says):
            stream_table(source, **options)
    with pytest.raises(TypeError, match="unexpected keyword argument 'clipped'"):
        stream_table(tmp_path / "t.csv", clipped=True)
    with refused(InputTypeError, "path"):
        stream_table(3)
    with refused(InputError, "binary"):
        stream_table(io.StringIO("a,label\n1,2\n"))


# -- rows without labels -----------------------------------------------------------------------------------------


def columns(file, **options):
    return load_table(file, **{"label": None, "labelled": False, **options})


def test_rows_need_no_labels(tmp_path):
    table = pa.table({"who": ["x", "y", "z"], "a": [1.0, 2.0, 3.0], "b": [4, 5, 6], "ill": [0, 1, 1]})
    for form in FILES:
        file = written(table, tmp_path, form)
        rows = columns(file, id="who", label="ill", kinds={"label": int})
        assert (rows.y.tolist(), rows.ids.tolist(), rows.feature_names) == ([0, 1, 1], ["x", "y", "z"], ("a", "b"))
        rows = columns(file, id="who", label="other")
        assert (rows.y, rows.n_features) == (None, 3)
        rows = columns(file, features=["ill", "b"])  # the column of texts is left alone
        assert rows.feature_names == ("ill", "b")
        assert rows.X.tolist() == [[0, 4], [1, 5], [1, 6]]
        assert rows.ids is rows.subjects is None
        with refused(InputError, "lacks 2 of 3 features", "'c', 'd'", "'who', 'a'"):
            columns(file, features=("a", "c", "d"))
        with refused(InputTypeError, "'who' must be numeric"):
            columns(file)
        with refused(InputError, "no column 'name'"):
            columns(file, id="name")
        blocks = list(stream_table(file, label=None, labelled=False, features=["b"], block_bytes=8))
        assert [b.X.tolist() for b in blocks] == [[[4]], [[5]], [[6]]]
    rows = columns(io.BytesIO(b"a,b\n1,2\n3,4\n"), features=("b", "a"))
    assert rows.X.tolist() == [[2, 1], [4, 3]]


def test_columns_that_are_not_asked_for_may_be_anything(tmp_path, small_text_blocks):
    file = tmp_path / "t.csv"
    file.write_text("a,x,x,,label\n1,p,q,,0\n2,3,,7,1\n")
    assert columns(file, features=["a"], label="label").X.tolist() == [[1], [2]]
    with refused(InputError, "earlier column"):
        columns(file, features=["a", "x"])
    file.write_text("a,x\n" + "1,2\n" * 200 + "3,text\n")
    assert columns(file, features=["a"]).X.tolist() == [[1]] * 200 + [[3]]


def test_rows_of_nameless_formats(tmp_path):
    X = np.eye(4)
    np.savez(tmp_path / "d.npz", X=X)
    np.savez(tmp_path / "y.npz", X=X, y=np.arange(4))
    sp.save_npz(tmp_path / "s.npz", sp.csr_array(X))
    for name in ("d", "s"):
        rows = columns(tmp_path / f"{name}.npz")
        assert rows.y is None
        assert dense(rows.X).tolist() == X.tolist()
    assert columns(tmp_path / "y.npz").y.tolist() == [0, 1, 2, 3]
    (tmp_path / "t.txt").write_text("1 1:2\n0 2:3\n")
    rows = columns(tmp_path / "t.txt", n_features=4)
    assert rows.X.toarray().tolist() == [[2, 0, 0, 0], [0, 3, 0, 0]]
    for name in ("d.npz", "t.txt"):
        with refused(ConfigurationError, "column"):
            columns(tmp_path / name, features=["a"])
    with refused(InputError, "array"):
        np.savez(tmp_path / "d.npz", Z=X)
        columns(tmp_path / "d.npz")


@pytest.mark.parametrize("features", ["ab", ["a", 3], ["a", "a"], [], ["a", "label"]])
def test_odd_lists_of_features_are_refused(tmp_path, features):
    (tmp_path / "t.csv").write_text("a,b,label\n1,2,3\n")
    with refused(ErasableError, "features must"):
        load_table(tmp_path / "t.csv", features=features, labelled=False)


def test_a_pipe_is_read_whole_or_in_blocks_once():
    text = "a,label\n" + "1,0\n" * 9 + "2,x\n"  # what labels are shows at the end
    table = load_table(io.BytesIO(text.encode()))
    assert table.y.tolist() == ["0"] * 9 + ["x"]
    with stream_table(io.BytesIO(text.encode())) as stream:
        assert_same(stream.read(), table)
        with refused(InputError, "only once"):
            stream.read()


def test_a_file_is_read_whole_as_often_as_one_likes(tmp_path):
    for file in good_files(tmp_path):
        with stream_table(file, block_bytes=100) as stream:
            assert_same(stream.read(), together(stream))
            assert_same(stream.read(), load_table(file))
        with refused(InputError, "closed"):
            stream.read()


# -- columns that are left alone -----------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_columns_can_be_left_alone_whatever_they_hold(tmp_path, ending):
    frame = pd.DataFrame({"a": [1.0, 2.0], "when": ["monday", None], "b": [3.0, 4.0], "label": [0, 1], "n": [5, 6]})
    path = tmp_path / f"t.{ending}"
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    with pytest.raises(InputTypeError, match="ignore="):
        load_table(path)
    table = load_table(path, ignore=["when", "n"])
    assert table.feature_names == ("a", "b")
    assert table.X.tolist() == [[1.0, 3.0], [2.0, 4.0]]
    with stream_table(path, ignore=("n", "when")) as stream:
        assert [block.X.tolist() for block in stream] == [table.X.tolist()]
    assert load_table(path, labelled=False, ignore=["when", "n"]).X.tolist() == table.X.tolist()
    with pytest.raises(InputError, match="no column 'whn'"):
        load_table(path, ignore=["whn"])
    with pytest.raises(ConfigurationError, match="ignored and have a role"):
        load_table(path, ignore=["label"])
    with pytest.raises(InputTypeError):
        load_table(path, ignore="when")
