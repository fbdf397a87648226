"""Examples of public methods, shown on the pages of the API and run by tests.

An example of an estimator's method is the set-up of its class followed by the lines of the method, so that every class
shows a method at work on its own model. Classes and functions have examples of their own in their docstrings.
"""

from __future__ import annotations

_CLASSES = """
>>> from sklearn.datasets import load_breast_cancer
>>> X, y = load_breast_cancer(return_X_y=True)
>>> X, y = X[:200], y[:200]
"""
SETUP = {
    "ErasableClassifier": f"""{_CLASSES}
>>> from erasable import ErasableClassifier
>>> model = ErasableClassifier()
""",
    "ErasableRegressor": """
>>> from sklearn.datasets import load_diabetes
>>> from erasable import ErasableRegressor
>>> X, y = load_diabetes(return_X_y=True)
>>> model = ErasableRegressor(target_range=(0, 400), scaling=0.5)
""",
    "ErasableKernelClassifier": f"""{_CLASSES}
>>> from erasable import ErasableKernelClassifier
>>> model = ErasableKernelClassifier("rbf", gamma=2.0)
""",
    "ErasableGeneralClassifier": """
>>> from sklearn.datasets import make_moons
>>> from erasable import ErasableGeneralClassifier
>>> from erasable.classes import LinearBall
>>> X, y = make_moons(200, noise=0.2, random_state=0)
>>> model = ErasableGeneralClassifier(LinearBall())
""",
    "CoreSetUnlearner": """
>>> from sklearn.datasets import make_moons
>>> from sklearn.linear_model import LogisticRegression
>>> from erasable import CoreSetUnlearner
>>> from erasable.coresets import LeverageThreshold
>>> X, y = make_moons(200, noise=0.2, random_state=0)
>>> model = CoreSetUnlearner(LeverageThreshold(0.02), LogisticRegression())
""",
    "ModelFile": f"""{_CLASSES}
>>> from erasable import ErasableClassifier, ModelFile
>>> ErasableClassifier().fit(X, y).save("model.erasable", overwrite=True)
>>> file = ModelFile("model.erasable")
""",
    "Schema": """
>>> from erasable import Schema
>>> text = '''
... version = 2
... [columns.who]
... role = "subject"
... [columns.town]
... kind = "category"
... values = ["Bern", "Oslo"]
... indicator = false
... '''
""",
    "TableEncoder": """
>>> from erasable import Schema, TableEncoder
>>> encoder = TableEncoder(Schema.parse('''
... version = 2
... [columns.town]
... kind = "category"
... values = ["Bern", "Oslo"]
... indicator = false
... '''))
""",
}
_MODELS = {
    "fit": """
>>> model.fit(X, y).n_core_ <= len(X)
True
""",
    "partial_fit": """
>>> model = model.partial_fit(X[:100], y[:100], ids=range(100))
>>> model.partial_fit(X[100:200], y[100:200], ids=range(100, 200)).n_core_ <= 200
True
""",
    "learn": """
>>> report = model.learn(X, y)
>>> report.rows == len(X), report.core_rows == model.n_core_
(True, True)
""",
    "learn_blocks": """
>>> from erasable.tables import Table
>>> ids = list(range(200))
>>> blocks = [Table(X[:100], y[:100], ids[:100]), Table(X[100:200], y[100:200], ids[100:])]
>>> model.learn_blocks(blocks).rows
200
""",
    "forget": """
>>> model = model.fit(X, y)
>>> report = model.forget(ids=model.core_ids_[:2])
>>> report.requested, report.core_rows_removed
(2, 2)
""",
    "predict": """
>>> model.fit(X, y).predict(X[:2]).shape
(2,)
""",
    "rows_of": """
>>> model = model.fit(X, y)
>>> rows = model.rows_of(ids=model.core_ids_[:2])
>>> len(rows.rows)
2
""",
    "state_digest": """
>>> model = model.fit(X, y)
>>> len(model.state_digest())
64
""",
    "save": """
>>> model.fit(X, y).save("model.erasable")
""",
}
_OF_CLASSES = {
    "predict_proba": """
>>> model.fit(X, y).predict_proba(X[:3]).shape
(3, 2)
""",
    "decision_function": """
>>> model.fit(X, y).decision_function(X[:3]).shape
(3,)
""",
}
NOT_OF_CORE_SETS = {"partial_fit", "learn", "learn_blocks"}  # a core-set map sees all rows at once
METHODS = {
    "ErasableClassifier": _MODELS | _OF_CLASSES,
    "ErasableRegressor": _MODELS,
    "ErasableKernelClassifier": _MODELS | _OF_CLASSES,
    "ErasableGeneralClassifier": _MODELS | _OF_CLASSES,
    "CoreSetUnlearner": {k: v for k, v in (_MODELS | _OF_CLASSES).items() if k not in NOT_OF_CORE_SETS},
    "ModelFile": {
        "forget": """
>>> file.forget(ids=[0, 50]).requested
2
""",
        "forget_together": """
>>> [report.requested for report in file.forget_together([{"ids": [1]}, {"ids": [2, 3]}])]
[1, 2]
""",
        "learn": """
>>> from erasable.tables import Table
>>> file.learn([Table(X[:10], y[:10], list(range(1000, 1010)))]).rows
10
""",
        "rows_of": """
>>> len(file.rows_of(ids=[int(file.model.core_ids_[0])]).rows)
1
""",
        "verify": """
>>> file.verify().core_rows == file.model.n_core_
True
""",
    },
    "Schema": {
        "load": """
>>> Schema.parse(text).save("schema.toml")
>>> Schema.load("schema.toml")
Schema(1 columns, 3 features)
""",
        "parse": """
>>> Schema.parse(text)
Schema(1 columns, 3 features)
""",
        "save": """
>>> Schema.parse(text).save("schema.toml", head="Towns of customers.")
""",
        "names_of": """
>>> Schema.parse(text).names_of("subject")
('who',)
""",
        "feature_names_out": """
>>> Schema.parse(text).feature_names_out()
['town=Bern', 'town=Oslo', 'town=(others)']
""",
        "encode": """
>>> rows, report = Schema.parse(text).encode({"town": ["Oslo", "Rome"]})
>>> rows.tolist()
[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
>>> print(report)
2 rows
town: 1 unknown
""",
        "encode_sparse": """
>>> Schema.parse(text).encode_sparse({"town": ["Oslo", "Rome"]})[0].nnz
2
""",
    },
    "TableEncoder": {
        "fit": """
>>> encoder.fit({"town": ["Oslo", "Bern"]}) is encoder
True
""",
        "transform": """
>>> encoder.transform({"town": ["Oslo", "Bern"]}).tolist()
[[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
""",
        "get_feature_names_out": """
>>> encoder.get_feature_names_out().tolist()
['town=Bern', 'town=Oslo', 'town=(others)']
""",
    },
}


def example(owner: str, method: str) -> str:
    """The example of a method as a text of doctests; empty if it has none."""
    body = METHODS.get(owner, {}).get(method, "")
    return "\n".join(line for line in f"{SETUP[owner]}{body}".splitlines() if line) if body else ""
