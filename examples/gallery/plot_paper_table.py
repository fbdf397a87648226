"""
The paper's experiment, small
=============================

Figure 1 of the paper in a few seconds: Algorithm 1 on its *Margin* data, while rows are deleted at random. The squared
loss is the paper's. ``erasable reproduce`` runs the full experiment next to the paper's baselines.
"""

import matplotlib.pyplot as plt
import numpy as np

from erasable import ErasableClassifier
from erasable.research.sets import make_margin

table = make_margin(20_000, 50, 0.1, random_state=0)
X, y, test_X, test_y = table.X[:16_000], table.y[:16_000], table.X[16_000:], table.y[16_000:]
order = np.random.default_rng(0).permutation(16_000)

figure, axes = plt.subplots(figsize=(6.2, 3.5), layout="constrained")
for kappa in (0.2, 0.3, 0.4):
    clf = ErasableClassifier(capacity=1.0, kappa=kappa, selection="leverage", loss="squared").fit(X, y)
    stored, accuracy = clf.n_core_, []
    for tenth in range(9):
        accuracy.append(clf.score(test_X, test_y))
        clf.forget(ids=order[tenth * 1_600 : (tenth + 1) * 1_600])
    axes.plot(np.arange(9) * 10, accuracy, marker="o", label=f"kappa {kappa}: {stored / 160:.1f}% stored")
axes.set(xlabel="% of all rows deleted", ylabel="accuracy on held-out rows")
axes.legend(fontsize=8)
plt.show()
