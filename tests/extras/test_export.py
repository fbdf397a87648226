"""The extra export: models as ONNX."""

import numpy as np
import pytest

from erasable import ErasableClassifier, ErasableRegressor

onnx = pytest.importorskip("onnx", reason="onnx is not installed")


@pytest.mark.parametrize("options", [{}, {"loss": "squared"}, {"scaling": 8.0}])
def test_a_model_becomes_a_graph_that_onnx_accepts(options, capsys):
    from tests.extras.session import printed

    X = np.random.default_rng(0).integers(-64, 65, (40, 3)) / 16
    ErasableClassifier(**options).fit(X, X[:, 0] > 0).save("m.erasable")
    printed(capsys, "export", "m.erasable", "-o", "m.onnx")
    graph = onnx.load("m.onnx")
    onnx.checker.check_model(graph, full_check=True)
    assert [entry.name for entry in graph.graph.input]


def test_a_regression_becomes_one_too(capsys):
    from tests.extras.session import printed

    X = np.random.default_rng(0).integers(-64, 65, (40, 3)) / 16
    ErasableRegressor((-20, 20)).fit(X, X[:, 0]).save("m.erasable")
    printed(capsys, "export", "m.erasable", "-o", "m.onnx")
    onnx.checker.check_model(onnx.load("m.onnx"), full_check=True)
