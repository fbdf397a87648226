"""Tables: parts that belong together stay together, and reprs tell counts alone."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import train_test_split

from erasable.errors import ConfigurationError, InputError, InputTypeError
from erasable.tables import Split, Table
from tests.tables.cases import (
    BIG_IDS,
    COLUMNS,
    IDS,
    SECRET,
    SECRET_TEXT,
    SUBJECTS,
    N,
    X,
    Y,
    assert_same,
    dense,
    refused,
)

FULL = Table(X, Y, IDS, SUBJECTS, "small", COLUMNS, "The labels were fitted.")


def test_lists_become_arrays_that_keep_their_values():
    assert FULL.ids.tolist() == IDS
    assert FULL.subjects.tolist() == SUBJECTS
    assert Table(X, Y.tolist(), BIG_IDS).ids.dtype == np.int64
    assert Table(X, ["a\0"] * N).y.tolist() == ["a\0"] * N
    assert Table(X, np.array(["a"] * N)).y.tolist() == ["a"] * N
    assert Table(X, [True] * N).y.dtype == bool
    assert Table(X, [2**63] * N).y.dtype == object


def test_every_sparse_form_becomes_a_csr_array():
    for form in (sp.csr_matrix, sp.csc_array, sp.coo_array):
        table = Table(form(X), Y)
        assert type(table.X) is sp.csr_array
        assert_same(table, Table(X, Y))


def test_repr_tells_no_values():
    secret = Table(np.full((N, 2), SECRET), [SECRET_TEXT] * N, IDS, IDS)
    for text in (repr(secret), str(secret), repr(secret.split())):
        assert SECRET_TEXT not in text
        assert "7654321" not in text
    assert repr(FULL) == "<Table 'small': 12 rows × 3 features, dense float64, with ids and subjects>"
    assert "sparse float32" in repr(Table(sp.csr_array(X, dtype=np.float32), Y))


def test_tables_are_compared_by_identity_and_cannot_be_changed():
    assert Table(X, Y, IDS, SUBJECTS, "small") != FULL
    assert len({FULL, FULL.take(slice(None))}) == 2
    with pytest.raises(AttributeError):
        FULL.name = "other"


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(
    "index",
    [
        [3, 1, 1, -1],
        np.array([2], np.uint8),
        slice(2, 9, 3),
        slice(None, None, -1),
        np.arange(N) % 2 == 0,
        [],
        range(4),
    ],
    ids=str,
)
def test_take_takes_the_same_rows_of_every_part(container, index):
    part = Table(container(X), Y, IDS, SUBJECTS, "small", COLUMNS, "The labels were fitted.").take(index)
    numbers = np.arange(N)[index if isinstance(index, slice) else np.asarray(index, dtype=None if len(index) else int)]
    np.testing.assert_array_equal(dense(part.X), X[numbers])
    assert part.y.tolist() == Y[numbers].tolist()
    assert part.ids.tolist() == [IDS[i] for i in numbers]
    assert part.subjects.tolist() == [SUBJECTS[i] for i in numbers]
    assert (part.name, part.feature_names, part.fitted) == ("small", COLUMNS, "The labels were fitted.")


def test_take_copies():
    for index in (slice(None), range(N)):
        table = Table(X.copy(), Y.copy())
        part = table.take(index)
        part.X[:], part.y[:] = 9, 9
        np.testing.assert_array_equal(table.X, X)
        np.testing.assert_array_equal(table.y, Y)


@pytest.mark.parametrize(
    ("index", "kind", "says"),
    [
        ([0, N], InputError, "1 of 2"),
        ([-N - 1], InputError, "12 rows"),
        ([[0]], InputError, "one dimension"),
        ([True], InputError, "12 rows"),
        ([0.5], InputTypeError, "float64"),
        (["0"], InputTypeError, "integers"),
        (3, InputError, "one dimension"),
    ],
)
def test_take_refuses_what_names_no_rows(index, kind, says):
    with refused(kind, says):
        FULL.take(index)


@pytest.mark.parametrize("test_size", [0.2, 0.5, 0.01, 0.9, 1, N - 1, np.float64(0.25), np.int64(2)])
def test_split_is_that_of_scikit_learn(test_size):
    split = FULL.split(test_size, random_state=5)
    train, test = train_test_split(np.arange(N), test_size=test_size, random_state=5)
    assert_same(split.train, FULL.take(train))
    assert_same(split.test, FULL.take(test))
    assert split.train.n_rows + split.test.n_rows == N
    assert set(split.train.ids.tolist()) | set(split.test.ids.tolist()) == set(IDS)


def test_split_can_leave_rows_in_their_order():
    table = Table(np.arange(40.0).reshape(-1, 1), np.arange(40) % 2)
    shuffled, kept = table.split(0.25, 3), table.split(0.25, 3, in_order=True)
    for side in ("train", "test"):
        mixed, rows = (getattr(split, side).X[:, 0].tolist() for split in (shuffled, kept))
        assert mixed != rows == sorted(mixed)


def test_split_depends_on_the_seed_alone():
    assert_same(FULL.split().train, FULL.split(0.2, 0).train)
    assert FULL.split().test.ids.tolist() != FULL.split(random_state=1).test.ids.tolist()


@pytest.mark.parametrize(
    ("test_size", "seed", "kind", "says"),
    [
        (0, 0, ConfigurationError, "0 of 12"),
        (N, 0, ConfigurationError, "12 of 12"),
        (-1, 0, ConfigurationError, "both sides"),
        (0.0, 0, ConfigurationError, "0 of 12"),
        (0.99, 0, ConfigurationError, "12 of 12"),
        (1.0, 0, ConfigurationError, "below 1"),
        (float("nan"), 0, ConfigurationError, "test_size"),
        (-0.5, 0, ConfigurationError, "test_size"),
        (True, 0, ConfigurationError, "test_size"),
        ("0.2", 0, ConfigurationError, "test_size"),
        (0.2, None, ConfigurationError, "random_state"),
        (0.2, 1.5, ConfigurationError, "random_state"),
        (0.2, -1, ConfigurationError, "random_state"),
        (0.2, 2**32, ConfigurationError, "random_state"),
    ],
)
def test_split_refuses_an_empty_side_and_bad_parameters(test_size, seed, kind, says):
    with refused(kind, says):
        FULL.split(test_size, seed)


@pytest.mark.parametrize(
    ("parts", "kind", "says"),
    [
        ({"X": X.tolist()}, InputTypeError, "list"),
        ({"X": X[0]}, InputError, "two dimensions"),
        ({"X": X.astype(int)}, InputTypeError, "int64"),
        ({"X": X.astype(object)}, InputTypeError, "object"),
        ({"y": Y[1:]}, InputError, "11 entries for 12 rows"),
        ({"y": Y[:, None]}, InputError, "one dimension"),
        ({"y": SECRET_TEXT}, InputTypeError, "str"),
        ({"ids": IDS[1:]}, InputError, "ids has 11"),
        ({"ids": set(IDS)}, InputTypeError, "set"),
        ({"subjects": [*IDS, "x"]}, InputError, "subjects has 13"),
        ({"feature_names": ("a",)}, InputError, "1 entries for 3 features"),
    ],
)
def test_parts_that_do_not_fit_are_refused(parts, kind, says):
    with refused(kind, says):
        Table(**{"X": X, "y": Y, **parts})


def test_rows_may_have_no_labels():
    table = Table(X, ids=IDS, name="small")
    assert repr(table) == "<Table 'small': 12 rows × 3 features, dense float64, with ids, without labels>"
    for part in (table.take([1]), table.split(2).test):
        assert part.y is None
        assert part.ids is not None


def test_both_sides_need_the_same_features():
    with refused(InputError, "3 features", "2"):
        Split(FULL, Table(X[:, :2], Y))
