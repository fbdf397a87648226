"""No extra: archives are learnt, and whatever needs a package names it. A missing module is no damaged file."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import RidgeClassifier

from erasable import CoreSetUnlearner, ErasableClassifier, load
from erasable.coresets import LeverageThreshold
from erasable.errors import ConfigurationError
from erasable.estimators import trained
from erasable.operations.rendering import pyplot
from erasable.tables import load_table
from erasable.tables.reading import read_or_refuse
from tests.extras.session import archive, printed, put, without


def test_an_archive_is_learnt_forgotten_and_verified(capsys):
    printed(capsys, "learn", archive(), "-o", "m.erasable")
    Path("gone.csv").write_text("subject\np1\np2\n")
    printed(capsys, "forget", "m.erasable", "--subjects-file", "gone.csv")
    assert "verified" in printed(capsys, "verify", "m.erasable")
    assert not {"p1", "p2"} & {str(s) for s in load("m.erasable")._model.core.subjects()}


@pytest.mark.parametrize(
    ("module", "arguments", "extra"),
    [
        ("pyarrow", ["learn", "t.csv", "--label", "churned", "-o", "other.erasable"], "erasable[tables]"),
        ("pyarrow", ["predict", "m.erasable", "t.csv", "-o", "p.csv"], "erasable[tables]"),
        ("onnx", ["export", "m.erasable", "-o", "m.onnx"], "erasable[export]"),
        ("lightgbm", ["learn", "t.npz", "--learner", "lightgbm", "-o", "l.erasable"], "erasable[boosting]"),
    ],
)
def test_what_needs_an_extra_names_it(module, arguments, extra, capsys, monkeypatch):
    put()
    printed(capsys, "learn", archive(), "-o", "m.erasable")
    without(monkeypatch, module)
    trained.try_out.cache_clear()
    said = printed(capsys, *arguments, code=2)
    assert extra in said
    assert "damaged" not in said


def test_figures_name_their_extra(monkeypatch):
    without(monkeypatch, "matplotlib")
    with pytest.raises(ConfigurationError, match=r"erasable\[figures\]"):
        pyplot()


def test_engines_name_their_extra(monkeypatch):
    without(monkeypatch, "dask", "torch")
    for engine in ("dask", "torch"):
        with pytest.raises(ConfigurationError, match=rf"erasable\[{engine}\]"):
            ErasableClassifier(engine=engine).fit([[1.0], [2.0]], [0, 1])


def test_a_missing_module_is_no_damaged_file():
    def read():
        import a_module_that_nobody_has  # noqa: F401

    with pytest.raises(ConfigurationError, match="needs the module a_module_that_nobody_has") as caught:
        read_or_refuse(read, Path("t.csv"), "numbers")
    assert "damaged" not in str(caught.value)


def test_the_package_of_a_file_system_is_named(monkeypatch):
    def absent(url):
        raise ImportError("Install s3fs to access S3", name="s3fs")

    module = SimpleNamespace(core=SimpleNamespace(url_to_fs=absent))
    monkeypatch.setitem(sys.modules, "fsspec", module)
    with pytest.raises(ConfigurationError, match="reading from s3:// URLs needs the module s3fs"):
        load_table("s3://bucket/part.parquet", label="y")


def test_a_learner_whose_package_is_missing_blames_neither_rows_nor_the_file(monkeypatch):
    clf = ErasableClassifier(learner="hist_gradient_boosting").fit(np.arange(40.0).reshape(20, 2), [0, 1] * 10)

    def absent(*args):
        raise ModuleNotFoundError("No module named 'joblib'", name="joblib")

    monkeypatch.setattr(trained, "_train", absent)
    clf._model.drop_caches()
    with pytest.raises(ConfigurationError, match="needs the module joblib"):
        clf.predict([[1.0, 2.0]])


class NeedsPackage(RidgeClassifier):
    """A learner that imports a package when it is trained."""

    missing = False

    def fit(self, X, y):
        if NeedsPackage.missing:
            raise ModuleNotFoundError("No module named 'numba'", name="numba")
        return super().fit(X, y)


def test_a_file_whose_learner_lacks_a_package_is_not_called_damaged(tmp_path, monkeypatch):
    like = CoreSetUnlearner(LeverageThreshold(0.1, scaling=8.0), NeedsPackage())
    X = np.arange(40.0).reshape(20, 2) / 16
    clone(like).fit(X, [0, 1] * 10).save(tmp_path / "m.erasable")
    monkeypatch.setattr(NeedsPackage, "missing", True)
    with pytest.raises(ConfigurationError, match="training the learner needs the module numba") as caught:
        load(tmp_path / "m.erasable", like=like)
    assert "not a state" not in str(caught.value)


def test_a_cached_learner_whose_package_is_gone_is_trained_again_or_the_package_named(monkeypatch):
    clf = ErasableClassifier(learner="hist_gradient_boosting").fit(np.arange(40.0).reshape(20, 2), [0, 1] * 10)
    clf.predict([[1.0, 2.0]])

    def absent(name):
        raise trained.PackageNotFoundError(name)

    monkeypatch.setattr(trained, "version", absent)
    assert not clf._model.cache["learner"].usable
