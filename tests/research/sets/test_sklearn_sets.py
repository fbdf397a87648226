"""Sets that scikit-learn ships; downloads are played by stand-ins."""

from urllib.error import HTTPError, URLError

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.datasets as sets
from sklearn.utils import Bunch

from erasable.errors import ConfigurationError, InputError
from erasable.research.sets import load_bundled, load_sklearn
from tests.tables.cases import refused

SHIPPED = ["breast_cancer", "digits", "iris", "wine"]
DOWNLOADED = {"20newsgroups": "fetch_20newsgroups_vectorized", "covtype": "fetch_covtype", "rcv1": "fetch_rcv1"}


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_sets_are_those_of_scikit_learn(name):
    table = load_sklearn(name)
    X, y = getattr(sets, f"load_{name}")(return_X_y=True)
    np.testing.assert_array_equal(table.X, X)
    np.testing.assert_array_equal(table.y, y)
    assert (table.name, table.fitted) == (name, "")
    assert len(table.feature_names) == table.n_features
    again = load_sklearn(name, return_X_y=True)
    assert again[0].tobytes() == table.X.tobytes()
    assert again[1].tobytes() == table.y.tobytes()


def test_bundled_digits_are_even_or_odd():
    table = load_bundled()
    X, y = load_bundled(return_X_y=True)
    digits = sets.load_digits()
    np.testing.assert_array_equal(table.X, digits.data)
    assert table.y.tolist() == [-1 if d % 2 == 0 else 1 for d in digits.target]
    assert table.fitted == ""
    assert X.tobytes() == table.X.tobytes()
    assert y.tobytes() == table.y.tobytes()


def test_rcv1_has_two_classes_and_ids(monkeypatch):
    topics = sp.csr_matrix(np.array([[0, 1], [1, 0], [1, 1]], np.uint8))
    bunch = Bunch(
        data=sp.csr_matrix(np.eye(3)),
        target=topics,
        target_names=np.array(["C15", "CCAT"], object),
        sample_id=np.array([2286, 2287, 2288], np.uint32),
    )
    monkeypatch.setattr(sets, "fetch_rcv1", lambda **options: bunch if options == {"subset": "all"} else None)
    table = load_sklearn("rcv1")
    assert table.y.tolist() == [1, -1, 1]
    assert table.ids.tolist() == [2286, 2287, 2288]
    assert table.ids.dtype == np.int64
    assert type(table.X) is sp.csr_array
    assert "tf-idf" in table.fitted


@pytest.mark.parametrize("name", ["20newsgroups", "covtype"])
def test_other_downloads_come_as_they_are(monkeypatch, name):
    rows = np.eye(3) if name == "covtype" else sp.csr_matrix(np.eye(3))
    monkeypatch.setattr(sets, DOWNLOADED[name], lambda **_: Bunch(data=rows, target=np.array([3, 1, 2])))
    table = load_sklearn(name)
    assert table.y.tolist() == [3, 1, 2]
    assert ("vocabulary" in table.fitted) == (name == "20newsgroups")
    assert load_sklearn(name, return_X_y=True)[0].shape == (3, 3)


@pytest.mark.parametrize("name", DOWNLOADED)
@pytest.mark.parametrize(
    "error",
    [URLError("no route to Zaphod"), HTTPError("u", 503, "Zaphod", None, None), TimeoutError("x"), OSError("sum")],
)
def test_a_failed_download_is_told(monkeypatch, name, error):
    def fail(**_):
        raise error

    monkeypatch.setattr(sets, DOWNLOADED[name], fail)
    with refused(InputError, name, "download", type(error).__name__, "digits"):
        load_sklearn(name)


@pytest.mark.parametrize("name", ["mnist", "", None, 3, ["iris"]])
def test_unknown_names_are_refused(name):
    with refused(ConfigurationError, *SHIPPED, *DOWNLOADED, "downloaded at first use"):
        load_sklearn(name)
