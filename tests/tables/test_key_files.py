"""Ids and subjects to forget, from every kind of file."""

import gzip
import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from erasable.errors import ConfigurationError, ErasableError, InputError, InputTypeError
from erasable.tables import read_keys
from tests.tables.cases import SECRET_TEXT, refused

TEXTS = {
    "integers": (b"17\n4\n-2001\n", ["17", "4", "-2001"]),
    "strings": ("a\nÄ b\nx\u2028y\n".encode(), ["a", "Ä b", "x\u2028y"]),
    "no line break at the end": (b"a\nb", ["a", "b"]),
    "Windows": (b"17\r\n\r\n4\r\n", ["17", "4"]),
    "a byte order mark": (b"\xef\xbb\xbf17\n4\n", ["17", "4"]),
    "blank lines": (b"\n\n17\n\n\n4\n\n", ["17", "4"]),
    "leading zeros": (b"007\n7\n", ["007", "7"]),
    "spaces inside": (b"a b\n7 8\n", ["a b", "7 8"]),
    "quotes inside": (b'5" pipe\na"b\n', ['5" pipe', 'a"b']),
    "past 64 bits": (b"9223372036854775808\n1\n", ["9223372036854775808", "1"]),
    "nothing": (b"\n", []),
}


@pytest.mark.parametrize("case", TEXTS)
@pytest.mark.parametrize("ending", [".txt", "", ".ids"])
def test_text_has_one_key_per_line(tmp_path, monkeypatch, case, ending):
    data, expected = TEXTS[case]
    (tmp_path / f"k{ending}").write_bytes(data)
    assert read_keys(tmp_path / f"k{ending}") == expected

    class Standard:
        buffer = io.BytesIO(data)

    monkeypatch.setattr("sys.stdin", Standard)
    assert read_keys("-") == expected


def test_columns_and_arrays(tmp_path):
    (tmp_path / "one.csv").write_text('id\n17\n"4"\n')
    (tmp_path / "one.csv.gz").write_bytes(gzip.compress(b"id\n17\n4\n"))
    pq.write_table(pa.table({"id": [17, 4]}), tmp_path / "one.parquet")
    np.save(tmp_path / "one.npy", np.array([17, 4], np.uint8))
    np.savez(tmp_path / "one.npz", ids=[17, 4])
    for file in sorted(tmp_path.iterdir()):
        found = read_keys(file, kind=int)
        assert found == [17, 4], file.name
        assert {type(k) for k in found} == {int}
    for name in ("one.csv", "one.csv.gz"):  # a list is read by itself: no other key in it plays a part
        assert read_keys(tmp_path / name) == read_keys(tmp_path / name, kind=str) == ["17", "4"]
    for name in ("one.parquet", "one.npy", "one.npz"):
        with refused(InputTypeError, name, "integers", "strings are needed"):
            read_keys(tmp_path / name, kind=str)


def test_text_and_bytes_in_columns_and_arrays(tmp_path):
    for keys, kind in ((["a\nb", "", "07"], str), ([b"\x00", b"\xff\x00"], bytes)):
        pq.write_table(pa.table({"id": keys}), tmp_path / "k.parquet")
        assert read_keys(tmp_path / "k.parquet") == read_keys(tmp_path / "k.parquet", kind=kind) == keys
    np.save(tmp_path / "k.npy", np.array(["x", "yz"]))
    assert read_keys(tmp_path / "k.npy") == ["x", "yz"]


def test_bytes_are_written_in_hexadecimal_digits(tmp_path):
    (tmp_path / "k.txt").write_text("00ff\n5A\n")
    (tmp_path / "k.csv").write_text("id\n00ff\n5A\n")
    for name in ("k.txt", "k.csv"):
        assert read_keys(tmp_path / name, kind=bytes) == [b"\x00\xff", b"Z"]
    (tmp_path / "k.txt").write_text(f"00ff\n{SECRET_TEXT}\n")
    with refused(InputError, "k.txt", "hexadecimal"):
        read_keys(tmp_path / "k.txt", kind=bytes)


def test_a_column_can_be_named(tmp_path):
    (tmp_path / "k.csv").write_text("who,id,id\nx,1,2\ny,3,4\n")
    pq.write_table(pa.table({"who": ["x", "y"], "id": [1, 3]}), tmp_path / "k.parquet")
    np.savez(tmp_path / "k.npz", who=["x", "y"], id=[1, 3])
    for name in ("k.csv", "k.parquet", "k.npz"):
        assert read_keys(tmp_path / name, column="who") == ["x", "y"]
        with refused(InputError, name, "column="):
            read_keys(tmp_path / name)
        with refused(InputError, name, "'other'"):
            read_keys(tmp_path / name, column="other")
    with refused(InputError, "k.csv", "2 columns 'id'"):
        read_keys(tmp_path / "k.csv", column="id")
    (tmp_path / "k.txt").write_text("x\n")
    with refused(ConfigurationError, "column"):
        read_keys(tmp_path / "k.txt", column="who")


def test_a_csv_without_a_line_of_names_loses_no_key(tmp_path):
    (tmp_path / "k.csv").write_text("7654321\n4\n")
    with refused(InputError, "k.csv", "first line"):
        read_keys(tmp_path / "k.csv")


UNCLEAR = {
    "an unclosed quote": (b'A1\n"B2\nC3\n', b'id\nA1\n"B2\nC3\n'),
    "an unclosed quote at the start": (b'"A1\nB2\n', b'id\n"A1\nB2\n'),
    "an unclosed quote at the end": (b'A1\nB2"\n', None),
    "a quote that is closed too late": (b'"A1\n"B2"\n', b'id\n"A1\n"B2"\n'),
    "something after a quote": (None, b'id\n"A1"x\nB2\n'),
    "a line break in quotes": (None, b'id\n"A1\nB2"\nC3\n'),
    "quotes in text": (b'"A1"\nB2\n', None),
    "a space at the end": (b"A1 \nB2\n", b"id\nA1 \nB2\n"),
    "a space at the start": (b" A1\nB2\n", b"id\n A1\nB2\n"),
    "a space before a quote": (None, b'id\n "A1"\nB2\n'),
    "a space in quotes": (None, b'id\n"A1 "\nB2\n'),
    "a tab": (b"A1\t\nB2\n", b"id\nA1\t\nB2\n"),
    "a space that is no ASCII": ("A1\u00a0\nB2\n".encode(), "id\nA1\u00a0\nB2\n".encode()),
    "a space before a number": (b"1\n 2\n", b"id\n1\n 2\n"),
    "nothing but a space": (b"A1\n \n", b"id\nA1\n \n"),
    "more cells than names": (None, b"id\nA1,x\nB2\n"),
    "an unclosed quote in another column": (None, b'id,note\nA1,"x\nB2,y\n'),
    "an unclosed quote in the first line": (None, b'"id\nA1\n'),
}


@pytest.mark.parametrize("kind", [None, int, str])
@pytest.mark.parametrize("what", UNCLEAR)
def test_names_that_would_be_read_as_others_are_refused(tmp_path, what, kind):
    """Otherwise no row has such a name, and those that are meant stay."""
    for name, data in zip(("k.txt", "k.csv"), UNCLEAR[what], strict=True):
        if data is not None:
            (tmp_path / name).write_bytes(data)
            with pytest.raises(InputError, match=name) as caught:
                read_keys(tmp_path / name, kind=kind, column="id" if b"note" in data else None)
            assert not any(key in str(caught.value) for key in ("A1", "B2"))
    packed = UNCLEAR[what][1]
    if packed is not None:
        (tmp_path / "k.csv.gz").write_bytes(gzip.compress(packed))
        with pytest.raises(InputError, match=r"k\.csv\.gz"):
            read_keys(tmp_path / "k.csv.gz", kind=kind, column="id" if b"note" in packed else None)


def test_names_with_spaces_quotes_and_line_breaks_have_forms_that_hold_them(tmp_path):
    keys = [" a", "b ", '"c"', "d\ne", "f"]
    pq.write_table(pa.table({"id": keys}), tmp_path / "k.parquet")
    np.save(tmp_path / "k.npy", np.array(keys))
    assert read_keys(tmp_path / "k.parquet") == read_keys(tmp_path / "k.npy") == keys
    (tmp_path / "k.csv").write_text('id\n"a, b"\n"say ""hello"""\n')
    assert read_keys(tmp_path / "k.csv") == ["a, b", 'say "hello"']
    for ending in ("\r\n", "\r", "\n"):
        (tmp_path / "k.csv").write_bytes(ending.join(["\ufeffid", "a", "", "b", ""]).encode())
        assert read_keys(tmp_path / "k.csv") == ["a", "b"]


BAD = {
    "k.txt": (b"17\nZaphod\n4\n", InputError, "1 of 3 keys are no integers"),
    "latin.txt": (b"Zaphod\xff\n", InputError, "UTF-8"),
    "k.csv": (b"id,a\n17,1\n,2\n", InputError, "1 of 2 keys are missing"),
    "damaged.parquet": (b"PAR1" + SECRET_TEXT.encode() * 9, InputError, "Parquet"),
    "damaged.npz": (b"PK\x03\x04" + SECRET_TEXT.encode() * 9, InputError, "damaged.npz"),
    "packed.npy.gz": (gzip.compress(b"1\n"), ConfigurationError, "compressed"),
    "none.txt": (b"", InputError, "empty"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused(tmp_path, name):
    data, kind, says = BAD[name]
    (tmp_path / name).write_bytes(data)
    with refused(kind, name, says):
        read_keys(tmp_path / name, kind=int, column="id" if name == "k.csv" else None)


def test_bad_arrays_and_columns_are_refused(tmp_path):
    for array, says in (
        (np.ones((2, 2), int), "one dimension"),
        (np.ones(2), "integers"),
        (np.array([2**63], np.uint64), "64 bits"),
        (np.array(["x", None], object), "array of ids"),
    ):
        np.save(tmp_path / "k.npy", array)
        with refused(ErasableError, "k.npy", says):
            read_keys(tmp_path / "k.npy")
    for values, says in (([1, None], "1 of 2 keys are missing"), ([1.5, 2.0], "integers or strings")):
        pq.write_table(pa.table({"id": values}), tmp_path / "k.parquet")
        with refused(ErasableError, "k.parquet", says):
            read_keys(tmp_path / "k.parquet")
    with refused(ConfigurationError, "kind"):
        read_keys(tmp_path / "k.npy", kind=float)
    with refused(InputError, "does not exist"):
        read_keys(tmp_path / "other.txt")
    with refused(InputTypeError, "path"):
        read_keys(3)
