"""
Boosting that forgets
=====================

Trees see what a line cannot. A learner stands behind the same stored rows: when somebody leaves, LightGBM is trained
again on the rows that are left. The stored state is the same bytes as after learning without them from the start.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from erasable import ErasableClassifier

rng = np.random.default_rng(0)
X = rng.standard_normal((12_000, 6))
y = (X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + 0.6 * rng.standard_normal(12_000) > 0).astype(int)  # an interaction
people = rng.integers(800, size=9_000)
train, test = slice(0, 9_000), slice(9_000, None)

common = {"selection": "independent", "rate": 0.2}
models = {
    "logistic": ErasableClassifier(loss="logistic", **common),
    "LightGBM": ErasableClassifier(learner="lightgbm", **common),
}

# %%
# Half of the people leave, an eighth at a time.

leaving = rng.permutation(800)[:400].reshape(4, 100)
figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
for name, unfitted in models.items():
    clf = clone(unfitted).fit(X[train], y[train], ids=np.arange(9_000), subjects=people)
    scores = [roc_auc_score(y[test], clf.predict_proba(X[test])[:, 1])]
    for group in leaving:
        clf.forget(subjects=group)
        scores.append(roc_auc_score(y[test], clf.predict_proba(X[test])[:, 1]))
    left = ~np.isin(people, leaving)
    fresh = clone(unfitted).fit(X[train][left], y[train][left], ids=np.flatnonzero(left), subjects=people[left])
    assert fresh.state_digest() == clf.state_digest()
    axes.plot(np.arange(5) * 12.5, scores, marker="o", label=name)
axes.set(xlabel="% of people who have left", ylabel="AUC on held-out rows", ylim=(0.45, 1))
axes.legend()
plt.show()
