"""
What is stored
==============

Two ways to choose the rows that a model keeps. Algorithm 1 of the paper keeps rows that are unlike those kept before.
Independent selection draws each row by itself. Every other row leaves no trace in the model.
"""

import matplotlib.pyplot as plt
import numpy as np

from erasable import ErasableClassifier

rng = np.random.default_rng(0)
X = rng.normal(size=(4_000, 2)) * [1.0, 0.35]
X[:40] = rng.normal(size=(40, 2)) * 0.2 + [0.0, 2.2]  # a small, unusual group
y = (X[:, 1] > 0.6 * np.sin(2 * X[:, 0])).astype(int)

# %%
# Rows are divided by a public number, so that they lie in the unit ball.

common = {"loss": "logistic", "alpha": 0.1, "scaling": 5.0}
leverage = ErasableClassifier(selection="leverage", threshold=0.01, **common).fit(X, y)
independent = ErasableClassifier(selection="independent", rate=leverage.n_core_ / len(X), **common).fit(X, y)

# %%
# Both store the same number of rows. Algorithm 1 finds the small group; a uniform draw holds a few of it.

figure, panels = plt.subplots(1, 2, figsize=(8, 3.6), sharex=True, sharey=True, layout="constrained")
for axes, clf, title in zip(panels, (leverage, independent), ("Algorithm 1", "independent"), strict=True):
    axes.scatter(*X.T, s=3, color="lightgrey", label="left no trace")
    axes.scatter(*X[clf.core_ids_].T, s=10, c=y[clf.core_ids_], cmap="coolwarm", label="stored")
    axes.set_title(f"{title}: {clf.n_core_} of {len(X):,} rows")
panels[0].legend(loc="lower left", fontsize=8)
plt.show()
