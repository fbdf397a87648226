"""Sets that scikit-learn ships."""

import numpy as np
import pytest
import sklearn.datasets as sets

from erasable.errors import ConfigurationError
from erasable.research.sets import load_bundled, load_sklearn

SHIPPED = ["breast_cancer", "digits", "iris", "wine"]


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_sets_are_those_of_scikit_learn(name):
    table = load_sklearn(name)
    X, y = getattr(sets, f"load_{name}")(return_X_y=True)
    np.testing.assert_array_equal(table.X, X)
    np.testing.assert_array_equal(table.y, y)
    assert (table.name, table.fitted) == (name, "")
    assert len(table.feature_names) == table.n_features


def test_bundled_digits_are_even_or_odd():
    table, digits = load_bundled(), sets.load_digits()
    np.testing.assert_array_equal(table.X, digits.data)
    assert table.y.tolist() == [-1 if d % 2 == 0 else 1 for d in digits.target]
    assert table.fitted == ""


@pytest.mark.parametrize("name", ["mnist", "", None, 3, ["iris"]])
def test_unknown_names_are_refused(name):
    with pytest.raises(ConfigurationError, match="name must be one of 'breast_cancer', 'digits', 'iris', 'wine'"):
        load_sklearn(name)
