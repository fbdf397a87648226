"""The Purchase recipe, on small files of the same form."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.model_selection import train_test_split

from erasable.errors import InputError, InputTypeError
from erasable.research.sets import load_purchase, make_purchase_like
from tests.tables.cases import refused

ROWS = make_purchase_like(300).X.astype(int)


def write(folder, first=None, second=None):
    sp.save_npz(folder / "data1.npz", sp.csr_matrix(ROWS[:120] if first is None else first))
    sp.save_npz(folder / "data2.npz", sp.csr_matrix(ROWS[120:] if second is None else second))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("purchase"))


@pytest.fixture(scope="module")
def split(folder):
    return load_purchase(folder)


def test_it_is_the_recipe(split):
    data = ROWS.toarray()
    labels = KMeans(n_clusters=2, n_init=10, random_state=0).fit(data).labels_
    X_train, X_test, y_train, y_test = train_test_split(data, labels, test_size=0.2, random_state=0)
    np.testing.assert_array_equal(split.train.X.toarray(), X_train)
    np.testing.assert_array_equal(split.test.X.toarray(), X_test)
    small = min((0, 1), key=lambda c: data[labels == c].sum(axis=1).mean())
    assert split.train.y.tolist() == np.where(y_train == small, -1, 1).tolist()
    assert split.test.y.tolist() == np.where(y_test == small, -1, 1).tolist()
    assert (split.train.n_rows, split.test.n_rows) == (240, 60)


def test_form_and_what_was_fitted(folder, split):
    for side in (split.train, split.test):
        assert type(side.X) is sp.csr_array
        assert side.X.dtype == np.float32
        assert side.name == "purchase"
        assert "labels were fitted" in side.fitted
        assert "all rows" in side.fitted
    assert sorted(p.name for p in folder.iterdir()) == ["data1.npz", "data2.npz"]


def test_clusters_of_equal_size_are_told_apart_by_the_first_row(tmp_path):
    rows = np.tile(np.array([[0, 0, 1, 1], [1, 1, 0, 0]]), (20, 1))
    for order, first in ((slice(None), [0, 0, 1, 1]), (slice(None, None, -1), [1, 1, 0, 0])):
        split = load_purchase(write(tmp_path, rows[order], rows[order]))
        negative = split.train.X.toarray()[split.train.y == -1]
        assert (negative == first).all()


def test_stored_zeros_and_booleans_are_fine(tmp_path):
    stored = sp.csr_matrix(ROWS[:120])
    stored.data[::2] = 0
    split = load_purchase(write(tmp_path, stored, ROWS[120:].astype(bool)))
    assert split.train.X.data.min() == 1


@pytest.mark.parametrize("gone", [("data1.npz",), ("data2.npz",), ("data1.npz", "data2.npz")])
def test_missing_files_are_named(tmp_path, gone):
    write(tmp_path)
    for name in gone:
        (tmp_path / name).unlink()
    with refused(InputError, " and ".join(gone) + " missing", str(tmp_path), "machine-unlearning", "600", "save_npz"):
        load_purchase(tmp_path)
    with refused(InputError, "data1.npz and data2.npz missing"):
        load_purchase(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("first", "says"),
    [
        (np.full((120, 600), 7654321), "zeros and ones"),
        (-ROWS[:120], "zeros and ones"),
        (ROWS[:120, :599], "599"),
        (np.full((120, 600), np.nan), "not finite"),
        (np.empty((0, 600)), "0 rows"),
    ],
)
def test_other_content_is_refused(tmp_path, first, says):
    with refused(InputError, says):
        load_purchase(write(tmp_path, first))


def test_rows_that_are_all_the_same_have_no_clusters(tmp_path):
    with refused(InputError, "all the same"):
        load_purchase(write(tmp_path, np.ones((5, 4)), np.ones((5, 4))))


def test_damaged_files_and_odd_paths_are_refused(tmp_path):
    write(tmp_path)
    whole = (tmp_path / "data2.npz").read_bytes()
    for damaged in (b"", b"Zaphod" * 50, whole[: len(whole) // 2]):
        (tmp_path / "data2.npz").write_bytes(damaged)
        with refused(InputError, "data2.npz"):
            load_purchase(tmp_path)
    np.savez(tmp_path / "data2.npz", X=ROWS.toarray())
    with refused(InputError, "save_npz"):
        load_purchase(tmp_path)
    with refused(InputTypeError, "int"):
        load_purchase(3)
