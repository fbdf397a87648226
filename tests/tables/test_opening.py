"""Text as it is stored: compressed, in other encodings, with other separators and decimals. One table comes out."""

import bz2
import codecs
import gzip
import io

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable.errors import ConfigurationError, InputError, InputTypeError
from erasable.tables import Dialect, load_table, read_keys, stream_table
from erasable.tables.text import in_utf8
from tests.tables.cases import SECRET_TEXT, assert_same, refused

TEXT = "a,b,label,id\n" + "".join(f"{i / 4},{-i},{i % 2},Müller {i}\n" for i in range(40))
PACKERS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
}


def plain(tmp_path, text=TEXT):
    (tmp_path / "plain.csv").write_bytes(text.encode())
    return load_table(tmp_path / "plain.csv", id="id")


@pytest.mark.parametrize("ending", PACKERS)
def test_compressed_text_can_be_read_again_and_again(tmp_path, ending):
    pack = PACKERS[ending]
    data, half = TEXT.encode(), len(TEXT) // 2
    (tmp_path / f"one.csv{ending}").write_bytes(pack(data))
    (tmp_path / f"two.csv{ending}").write_bytes(pack(data[:half]) + pack(data[half:]))  # as `cat` joins them
    for name in ("one", "two"):
        with stream_table(tmp_path / f"{name}.csv{ending}", id="id", block_bytes=100) as stream:
            assert stream.count_rows() == 40
            blocks = [sum(len(block) for block in stream) for _ in range(2)]
            assert blocks == [40, 40]
            assert_same(stream.read(), plain(tmp_path))


@pytest.mark.parametrize("ending", PACKERS)
@pytest.mark.parametrize("kept", [0.1, 0.5, 0.98])
def test_compressed_text_that_is_cut_short_is_refused(tmp_path, ending, kept):
    packed = PACKERS[ending]((TEXT * 50).replace("\na,b,label,id", "").encode())
    file = tmp_path / f"cut.csv{ending}"
    file.write_bytes(packed[: int(kept * len(packed))])
    with refused(InputError, file.name, "cut short"):
        load_table(file, id="id")
    with refused(InputError, file.name, "cut short"), stream_table(file, id="id", block_bytes=100) as stream:
        list(stream)


def test_svmlight_and_lists_of_names_may_be_compressed_with_zstd(tmp_path):
    text = b"1 1:2\n0 2:3\n" * 50
    (tmp_path / "t.svmlight").write_bytes(text)
    (tmp_path / "t.svmlight.zst").write_bytes(PACKERS[".zst"](text))
    assert_same(load_table(tmp_path / "t.svmlight.zst"), load_table(tmp_path / "t.svmlight"))
    for ending, pack in PACKERS.items():
        (tmp_path / f"k.csv{ending}").write_bytes(pack(b"id\nx\ny\n"))
        (tmp_path / f"k.txt{ending}").write_bytes(pack("x\ny\n".encode("utf-16")))
        assert read_keys(tmp_path / f"k.csv{ending}") == read_keys(tmp_path / f"k.txt{ending}") == ["x", "y"]


MARKED = {
    "utf-8": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
    "utf-32-le": codecs.BOM_UTF32_LE,
}


@pytest.mark.parametrize("encoding", MARKED)
@pytest.mark.parametrize("said", [None, "family", "itself"])
def test_a_byte_order_mark_says_what_the_encoding_is(tmp_path, encoding, said):
    file = tmp_path / "marked.csv"
    file.write_bytes(MARKED[encoding] + TEXT.encode(encoding))
    names = {None: None, "family": encoding[:6].rstrip("-") if encoding != "utf-8" else "utf-8-sig", "itself": encoding}
    dialect = Dialect(encoding=names[said])
    assert_same(load_table(file, id="id", dialect=dialect), plain(tmp_path))
    with file.open("rb") as pipe:
        assert_same(load_table(pipe, id="id", dialect=dialect), plain(tmp_path))
    with refused(InputError, "byte order mark", "encoding="):
        load_table(file, id="id", dialect=Dialect(encoding="latin-1"))


def test_other_encodings_have_to_be_named(tmp_path):
    (tmp_path / "t.csv").write_bytes(TEXT.encode("latin-1"))
    assert_same(load_table(tmp_path / "t.csv", id="id", dialect=Dialect(encoding="cp1252")), plain(tmp_path))
    with refused(InputError, "t.csv is not text in UTF-8", "line 2", "encoding="):
        load_table(tmp_path / "t.csv", id="id")
    with refused(InputError, "t.csv is not text in UTF-8", "line 2", "encoding="):
        stream_table(tmp_path / "t.csv", label=None, labelled=False, raw=True)
    (tmp_path / "late.csv").write_bytes(b"a,label\n" + b"1,0\n" * 300_000 + b"2,\xe9\n")
    with refused(InputError, "late.csv is not text in UTF-8", "line 300,002"):
        load_table(tmp_path / "late.csv")
    (tmp_path / "names.csv").write_bytes("größe,label\n1,0\n".encode("latin-1"))
    with refused(InputError, "names.csv", "encoding="):
        load_table(tmp_path / "names.csv")
    (tmp_path / "u.csv").write_bytes(TEXT.encode("utf-16-le"))
    with refused(InputError, "u.csv", "bytes of zero", "encoding="):
        load_table(tmp_path / "u.csv", id="id")
    assert_same(load_table(tmp_path / "u.csv", id="id", dialect=Dialect(encoding="utf-16-le")), plain(tmp_path))
    (tmp_path / "v.csv").write_bytes(codecs.BOM_UTF16_LE + f"a,label\n1,{SECRET_TEXT}\n".encode("utf-16-le")[:-1])
    with refused(InputError, "v.csv"):
        load_table(tmp_path / "v.csv")


@given(st.text(max_size=30), st.sampled_from(["utf-16", "utf-32", "utf-8-sig", "utf-7"]), st.integers(1, 5))
def test_text_in_any_encoding_becomes_utf_8(text, encoding, size):
    class Slow(io.BytesIO):
        def read(self, n=-1):
            return super().read(min(size, n))

    data = text.encode(encoding)
    named = encoding if encoding == "utf-7" else None
    assert in_utf8(Slow(data), named, "t").read().decode() == text


FLOATS = {"label": float}


def test_separators_and_decimals(tmp_path):
    text = "a;label;weight;id\n1,5;0,5;1;x\n-2;1,5;0,5;y\n"
    (tmp_path / "t.csv").write_text(text)
    table = load_table(
        tmp_path / "t.csv", id="id", weight="weight", dialect=Dialect(sep=";", decimal=","), kinds=FLOATS
    )
    assert table.X.tolist() == [[1.5], [-2.0]]
    assert table.y.tolist() == [0.5, 1.5]
    assert table.weights.tolist() == [1.0, 0.5]
    tabs = text.replace(";", "\t").replace(",", ".")
    for sep in ("\t", r"\t"):
        again = load_table(io.BytesIO(tabs.encode()), id="id", weight="weight", dialect=Dialect(sep=sep), kinds=FLOATS)
        assert_same(again, table)
    with refused(InputError, "sep="):
        load_table(io.BytesIO(tabs.encode()), id="id")
    with refused(InputError, "'a' holds numbers", "decimal= ','"):
        load_table(tmp_path / "t.csv", id="id", weight="weight", dialect=Dialect(sep=";"))


def test_labels_with_a_comma_are_no_numbers_where_decimals_have_a_point():
    text = b"a;label\n1;0,5\n2;1,5\n"
    assert load_table(io.BytesIO(text), dialect=Dialect(sep=";")).y.tolist() == ["0,5", "1,5"]
    commas = load_table(io.BytesIO(text), dialect=Dialect(sep=";", decimal=","), kinds=FLOATS)
    assert commas.y.tolist() == [0.5, 1.5]
    with refused(InputError, "2 of 2 labels are not numbers"):
        load_table(io.BytesIO(text), dialect=Dialect(sep=";"), kinds=FLOATS)


@pytest.mark.parametrize(
    ("given", "kind", "says"),
    [
        ({"sep": ""}, ConfigurationError, "sep= must be one character"),
        ({"sep": ";;"}, ConfigurationError, "sep= must be one character"),
        ({"sep": '"'}, ConfigurationError, "sep= must be one character"),
        ({"sep": "\n"}, ConfigurationError, "sep= must be one character"),
        ({"sep": "7"}, ConfigurationError, "sep= must be one character"),
        ({"sep": "é"}, ConfigurationError, "sep= must be one character"),
        ({"sep": 3}, InputTypeError, "sep"),
        ({"decimal": "'"}, ConfigurationError, "decimal= must be"),
        ({"decimal": ","}, ConfigurationError, "decimal= and sep= must differ"),
        ({"encoding": "klingon"}, ConfigurationError, "encoding= must be one that Python knows"),
        ({"encoding": "zlib"}, ConfigurationError, "encoding= must be one that Python knows"),
    ],
)
def test_dialects_that_are_none_are_refused(given, kind, says):
    with refused(kind, says):
        Dialect(**given)


def test_dialects_are_for_csv_alone(tmp_path):
    np.savez(tmp_path / "d.npz", X=np.eye(2), y=[0, 1])
    with refused(ConfigurationError, "d.npz", "for CSV"):
        load_table(tmp_path / "d.npz", dialect=Dialect(sep=";"))
    table = pa.table({"a": [1.0], "label": [1]})
    stream = io.BytesIO()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    with refused(ConfigurationError, "for CSV"):
        load_table(io.BytesIO(stream.getvalue()), dialect=Dialect())


def test_zstd_in_a_pipe_is_told_apart():
    with refused(InputError, "zstd data"):
        load_table(io.BytesIO(PACKERS[".zst"](TEXT.encode())))
