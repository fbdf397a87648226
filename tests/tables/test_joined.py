"""Several files as one table."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from erasable.errors import ConfigurationError, InputError
from erasable.tables import files_of, load_table, stream_table
from tests.tables.cases import SECRET, SECRET_TEXT, assert_same, refused

COLUMNS = {
    "a": np.arange(12) / 2,
    "b": np.arange(12.0),
    "label": np.arange(12) % 2,
    "id": [f"{SECRET_TEXT}-{i}" for i in range(12)],
}
CUTS = {"part-1": (0, 5), "part-10": (5, 6), "part-2": (6, 12)}  # in the order of their names as text


def write(folder, name, form, **changes):
    table = pa.table({n: v for n, v in {**COLUMNS, **changes}.items() if v is not None})
    low, high = CUTS[name]
    file = folder / f"{name}.{form}"
    (pq.write_table if form == "parquet" else pyarrow.csv.write_csv)(table.slice(low, high - low), file)
    return file


def whole(folder, form):
    (folder / "whole").mkdir(exist_ok=True)
    file = folder / "whole" / f"all.{form}"
    (pq.write_table if form == "parquet" else pyarrow.csv.write_csv)(pa.table(COLUMNS), file)
    return load_table(file, id="id")


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_files_in_order_are_one_table(tmp_path, form):
    files = [write(tmp_path, name, form) for name in CUTS]
    expected = whole(tmp_path, form)
    for source in (files, [str(f) for f in files], str(tmp_path / f"part-*.{form}"), tmp_path / f"part-*.{form}"):
        assert_same(load_table(source, id="id"), expected)
        with stream_table(source, id="id", block_bytes=100) as stream:
            assert stream.count_rows() == stream.n_rows == 12
            assert stream.feature_names == ("a", "b")
            for _ in range(2):
                blocks = list(stream)
                assert len(blocks) > 3
                assert [i for block in blocks for i in block.ids] == expected.ids.tolist()
    turned = load_table([files[1], *files[::2]], id="id")
    assert turned.ids.tolist() == [COLUMNS["id"][i] for i in (5, *range(5), *range(6, 12))]


def test_columns_are_found_by_name_in_every_file(tmp_path):
    files = [write(tmp_path, name, "csv") for name in CUTS]
    files[2].write_text(
        "id,b,label,a\n"
        + "".join(",".join(str(COLUMNS[n][i]) for n in ("id", "b", "label", "a")) + "\n" for i in range(6, 12))
    )
    assert_same(load_table(files, id="id"), whole(tmp_path, "csv"))


BAD = {
    "a column less": ({"b": None}, ("part-2", "lacks 'b'", "part-1")),
    "a column more": ({"c": np.ones(12)}, ("part-2", "has 'c' in addition", "part-1")),
    "another column": ({"b": None, "c": np.ones(12)}, ("lacks 'b' and has 'c' in addition",)),
    "text": ({"b": [SECRET_TEXT] * 12}, ("part-2", "'b'", "numeric")),
    "booleans": ({"b": [True] * 12}, ("type of 'b' changes between files", "part-2", "part-1")),
    "NaN": ({"b": [*range(11), np.nan]}, ("part-2", "1 entries of 'b'", "in row 6")),
    "no labels": ({"label": None}, ("part-2", "no column 'label'")),
}
OF_TYPES = {
    "labels of text": ({"label": [SECRET_TEXT] * 12}, ("type of labels changes", "int in part-1", "str in part-2")),
    "labels of halves": ({"label": [SECRET] * 12}, ("type of labels changes", "int in part-1", "float in part-2")),
    "numbers as ids": ({"id": range(12)}, ("type of ids changes", "str in part-1", "int in part-2")),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_what_changes_between_files_is_refused(tmp_path, form, case):
    changes, says = BAD[case]
    files = [write(tmp_path, "part-1", form), write(tmp_path, "part-2", form, **changes)]
    with refused((InputError, TypeError), *says):
        load_table(files, id="id")
    with refused((InputError, TypeError), *says), stream_table(files, id="id", block_bytes=100) as stream:
        list(stream)


@pytest.mark.parametrize("case", OF_TYPES)
def test_types_that_change_between_files_are_refused(tmp_path, case):
    changes, says = OF_TYPES[case]
    files = [write(tmp_path, "part-1", "parquet"), write(tmp_path, "part-2", "parquet", **changes)]
    with refused(InputError, *says):
        load_table(files, id="id")


def test_files_of_csv_have_the_types_that_are_stated(tmp_path):
    files = [write(tmp_path, "part-1", "csv"), write(tmp_path, "part-2", "csv", id=range(12))]
    table = load_table(files, id="id")
    assert table.ids.tolist() == [*COLUMNS["id"][:5], *map(str, range(6, 12))]
    with refused(InputError, "part-1.csv", "5 of 5 ids are not integers"):
        load_table(files, id="id", kinds={"id": int})


def test_a_file_without_subjects_says_nothing_of_their_type(tmp_path):
    files = [
        write(tmp_path, "part-1", "csv", subject=[""] * 12),
        write(tmp_path, "part-2", "csv", subject=[f"person {i}" for i in range(12)]),
    ]
    for source in (files, files[::-1]):
        owners = load_table(source, id="id", subject="subject").subjects.tolist()
        assert sorted(filter(None, owners)) == sorted(f"person {i}" for i in range(6, 12))


def test_labels_that_are_optional_are_in_all_files_or_in_none(tmp_path):
    files = [write(tmp_path, "part-1", "csv"), write(tmp_path, "part-2", "csv", label=None)]
    with refused(InputError, "part-1.csv and part-2.csv", "column of labels"):
        load_table(files, id="id", labelled=False)


def test_which_files_a_pattern_names(tmp_path):
    names = [write(tmp_path, name, "csv") for name in CUTS]
    odd = tmp_path / "part-[1].csv"
    odd.write_bytes(names[0].read_bytes())
    (tmp_path / "part-0.csv").mkdir()
    assert files_of(str(tmp_path / "part-[0-9]*.csv")) == sorted(names)
    assert files_of(odd) == [odd]
    assert files_of("-") == []
    with refused(InputError, "no file matches"):
        files_of(tmp_path / "*.gz")
    with refused(InputError, "1 of 4 files are given twice"):
        files_of([str(tmp_path / "part-[0-9]*.csv"), names[1]])
    with refused(InputError, "no files"):
        files_of([])


def test_files_that_are_no_one_table_are_refused(tmp_path):
    csv, parquet = write(tmp_path, "part-1", "csv"), write(tmp_path, "part-2", "parquet")
    with refused(ConfigurationError, "all are .csv or all .parquet", ".csv, .parquet"):
        load_table([csv, parquet], id="id")
    for name in ("x.npz", "y.npz"):
        np.savez(tmp_path / name, X=np.eye(2), y=[0, 1])
    with refused(ConfigurationError, "these are .npz"):
        load_table(tmp_path / "*.npz")
    with refused(InputError, "does not exist"):
        load_table([csv, tmp_path / "part-3.csv"], id="id")
    with refused(InputError, "standard input", "alone"):
        load_table([csv, "-"], id="id")
