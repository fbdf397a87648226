"""
When the world changes
======================

Labels change after a while. A model that keeps only rows unlike those before sees nothing new in the later rows, since
their features look the same. A model that draws each row by itself keeps old and new rows alike. If the old ones are
forgotten, it follows the new world.
"""

import matplotlib.pyplot as plt
import numpy as np

from erasable import ErasableClassifier

rng = np.random.default_rng(0)
X = rng.standard_normal((20_000, 10))
old, new = rng.standard_normal((2, 10))
month = np.arange(20_000) // 1_000
y = np.where(month < 10, X @ old, X @ new) > 0
test = rng.standard_normal((5_000, 10))
truth = test @ new > 0

models = {
    "Algorithm 1": ErasableClassifier(selection="leverage", loss="logistic", alpha=0.1),
    "independent, 10%": ErasableClassifier(selection="independent", rate=0.1, loss="logistic", alpha=0.1),
    "independent, old months forgotten": ErasableClassifier(
        selection="independent", rate=0.1, loss="logistic", alpha=0.1
    ),
}
curves = {name: [] for name in models}
for m in range(20):
    rows = np.flatnonzero(month == m)
    for name, clf in models.items():
        clf.partial_fit(X[rows], y[rows], ids=rows, subjects=month[rows], classes=[False, True])
        if name.endswith("forgotten") and m >= 5:
            clf.forget(subjects=[m - 5])
        curves[name].append(clf.score(test, truth))

figure, axes = plt.subplots(figsize=(6.5, 3.5), layout="constrained")
for name, curve in curves.items():
    axes.plot(range(20), curve, marker=".", label=name)
axes.axvline(10, color="grey", linestyle=":")
axes.set(xlabel="month", ylabel="accuracy on the new world", ylim=(0, 1.02))
axes.legend(fontsize=8)
plt.show()
