"""
Accuracy while people leave
===========================

People leave in random order, a tenth of them at a time. After each request the model is compared, byte for byte, with
one that learnt the people who are left from nothing. With independent selection the two are the same.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.datasets import make_classification

from erasable import ErasableClassifier

X, y = make_classification(12_000, 20, n_informative=8, random_state=0)
train, test = slice(0, 9_000), slice(9_000, None)
people = np.random.default_rng(0).integers(900, size=9_000)

unfitted = ErasableClassifier(selection="independent", rate=0.1, loss="logistic", alpha=0.1)
clf = clone(unfitted).fit(X[train], y[train], ids=np.arange(9_000), subjects=people)

# %%
# Forget a hundred people at a time. ``state_digest`` is the SHA-256 of the whole stored state.

left, accuracy, stored = np.ones(9_000, dtype=bool), [], []
leaving = np.random.default_rng(1).permutation(900).reshape(9, 100)
for group in [[], *leaving[:8]]:
    if len(group):
        clf.forget(subjects=group)
        left &= ~np.isin(people, group)
    fresh = clone(unfitted).fit(X[train][left], y[train][left], ids=np.flatnonzero(left), subjects=people[left])
    assert fresh.state_digest() == clf.state_digest()
    accuracy.append(clf.score(X[test], y[test]))
    stored.append(clf.n_core_)

# %%
# The model after each request, which is also the model of a fresh start.

share = np.arange(9) * 100 / 9
figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
axes.plot(share, accuracy, marker="o")
for x, a, n in zip(share, accuracy, stored, strict=True):
    axes.annotate(f"{n} rows", (x, a), textcoords="offset points", xytext=(0, 8), ha="center", fontsize=8)
axes.set(xlabel="% of people who have left", ylabel="accuracy on held-out rows", ylim=(min(accuracy) - 0.02, 1))
figure.suptitle("Forgetting equals a fresh start, at every step")
plt.show()
