"""
A curved boundary that forgets
==============================

The kernel classifier stores a few points and forgets any of them exactly. Here one of the two moons loses its left
half, because the people behind these points asked for it.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from erasable import ErasableKernelClassifier, verify

X, y = make_moons(1_000, noise=0.15, random_state=0)
clf = ErasableKernelClassifier(gamma=2.0, threshold=0.5).fit(X, y)
across, up = np.meshgrid(np.linspace(-1.6, 2.6, 160), np.linspace(-1.2, 1.7, 120))
points = np.column_stack([across.ravel(), up.ravel()])


def draw(axes, title):
    """The boundary and the stored points."""
    score = clf.decision_function(points).reshape(across.shape)
    axes.contourf(across, up, score, levels=20, cmap="coolwarm", alpha=0.5)
    axes.contour(across, up, score, levels=[0], colors="black")
    axes.scatter(*X[clf.core_ids_].T, c=y[clf.core_ids_], cmap="coolwarm", s=14, edgecolor="white", linewidth=0.4)
    axes.set(title=f"{title}: {clf.n_core_} points stored", xticks=[], yticks=[])


figure, panels = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
draw(panels[0], "before")
clf.forget(ids=np.flatnonzero((y == 0) & (X[:, 0] < 0)))
draw(panels[1], "after")
print(verify(clf))
plt.show()
