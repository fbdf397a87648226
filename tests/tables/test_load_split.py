"""Splits: as three files divide the rows, or by a seed."""

import numpy as np
import pytest
import scipy.sparse as sp

from erasable.errors import ConfigurationError, InputError
from erasable.tables import load_split, load_table
from tests.schemas import raw
from tests.tables.cases import IDS, SUBJECTS, N, X, Y, assert_same, refused

OWNERS = np.arange(N) % 3


def write(folder, X_test=X[8:], **arrays):
    sp.save_npz(folder / "set_train.npz", sp.csr_matrix(X[:8], dtype=np.float32))
    sp.save_npz(folder / "set_test.npz", sp.csr_matrix(X_test))
    np.savez(folder / "set_labels.npz", **{"y_train": Y[:8], "y_test": Y[8:], **arrays})
    return folder / "set_train.npz"


def test_three_files_are_a_split(tmp_path):
    split = load_split(write(tmp_path, subject_train=OWNERS[:8], subject_test=OWNERS[8:], ids_train=IDS[:8]))
    np.testing.assert_array_equal(split.train.X.toarray(), X[:8])
    np.testing.assert_array_equal(split.test.X.toarray(), X[8:])
    assert split.train.y.tolist() == Y[:8].tolist()
    assert split.test.y.tolist() == Y[8:].tolist()
    assert split.train.subjects.tolist() == OWNERS[:8].tolist()
    assert split.test.subjects.tolist() == OWNERS[8:].tolist()
    assert split.train.ids.tolist() == IDS[:8]
    assert split.test.ids is None
    assert split.train.name == split.test.name == "set"
    assert type(split.train.X) is type(split.test.X) is sp.csr_array
    assert split.train.X.dtype == np.float32


def test_other_files_are_divided_by_a_seed(tmp_path):
    for file in (tmp_path / "all.npz", tmp_path / "all_train.npz"):
        np.savez(file, X=X, y=Y, ids=IDS)
        split, expected = load_split(file, test_size=0.5, random_state=3), load_table(file).split(0.5, 3)
        assert_same(split.train, expected.train)
        assert_same(split.test, expected.test)
    lines = [f"{i},{a},{y},{s or ''}" for i, a, y, s in zip(IDS, X[:, 0], Y, SUBJECTS, strict=True)]
    (tmp_path / "all.csv").write_text("\n".join(["key,a,kind,who", *lines]))
    split = load_split(tmp_path / "all.csv", label="kind", id="key", subject="who")
    assert (split.train.n_rows, split.test.n_rows) == (9, 3)
    assert set(split.train.ids.tolist()) | set(split.test.ids.tolist()) == set(IDS)


@pytest.mark.parametrize("gone", ["set_train.npz", "set_test.npz", "set_labels.npz"])
def test_the_missing_file_is_named(tmp_path, gone):
    file = write(tmp_path)
    (tmp_path / gone).unlink()
    with refused(InputError, f"{gone} missing in {tmp_path}", "three files"):
        load_split(file)


def test_a_file_that_is_not_there_at_all(tmp_path):
    with refused(InputError, "does not exist"):
        load_split(tmp_path / "set_train.npz")
    with refused(ConfigurationError, "name of a file is empty"):
        load_split("")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"X_test": X[8:, :2]}, "3 features and test 2"),
        ({"X_test": X[9:]}, "(4,) for 3 rows"),
        ({"y_train": Y}, "(12,) for 8 rows"),
        ({"ids_train": IDS}, "ids has the shape (12,)"),
        ({"subjects_train": OWNERS[:8]}, "subjects_train"),
        ({"X_test": X[8:] * np.nan}, "set_test.npz"),
        ({"y_test": np.array([None] * 4)}, "objects are not read"),
    ],
)
def test_files_that_do_not_fit_are_refused(tmp_path, changes, says):
    with refused(InputError, says):
        load_split(write(tmp_path, **changes))


def test_archives_have_no_columns_to_name(tmp_path):
    for roles in ({"label": "kind"}, {"ignore": ["key"]}):
        with refused(ConfigurationError, "ignore name columns", "y_train"):
            load_split(write(tmp_path), **roles)


def test_a_division_that_leaves_nothing_is_refused(tmp_path):
    np.savez(tmp_path / "all.npz", X=X, y=Y)
    with refused(ConfigurationError, "both sides"):
        load_split(tmp_path / "all.npz", test_size=12)


def test_a_schema_encodes_the_rows_of_both_sides(tmp_path):
    schema = raw.draft()
    split = load_split(raw.write(raw.table(), str(tmp_path / "raw.csv")), label=None, schema=schema)
    assert (split.train.n_rows, split.test.n_rows) == (192, 48)
    assert split.train.n_features == schema.n_features_out
    with refused(ConfigurationError, "whose columns have names"):
        load_split(write(tmp_path), schema=schema)
