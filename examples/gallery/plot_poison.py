"""
Rows from strangers
===================

Somebody who chooses ids and knows the key can have rows kept for certain: it is enough to try ids until the hash is
small. With a key that senders do not know, their rows are drawn like all others.
"""

import secrets

import matplotlib.pyplot as plt
import numpy as np

from erasable import ErasableClassifier

rng = np.random.default_rng(0)
X = rng.standard_normal((8_000, 12))
w = rng.standard_normal(12)
y = X @ w > 0
bad_X = rng.standard_normal((400, 12))  # 5% of the rows, with turned labels
bad_y = bad_X @ w < 0

# %%
# The attacker offers many ids to a model of their own with the public key 0, and sends rows under those it keeps.

common = {"selection": "independent", "rate": 0.05, "loss": "logistic", "alpha": 0.1, "scaling": 8.0}
tried = np.arange(100_000, 120_000)
draw = ErasableClassifier(**common).fit(np.zeros((20_000, 12)) + 0.1, tried % 2, ids=tried)
chosen = draw.core_ids_[:400]


def poisoned(key):
    """Accuracy, and the share of stored rows that the attacker sent."""
    clf = ErasableClassifier(**common, random_state=key)
    ids = np.concatenate([np.arange(8_000), chosen])
    clf.fit(np.vstack([X, bad_X]), np.concatenate([y, bad_y]), ids=ids)
    return clf.score(X, y), np.mean(np.isin(clf.core_ids_, chosen))


# %%
# A secret key takes the attacker's advantage away.

names, results = ["public key", "secret key"], [poisoned(0), poisoned(secrets.randbits(128))]
figure, panels = plt.subplots(1, 2, figsize=(7, 3), layout="constrained")
for axes, values, title in zip(
    panels, zip(*results, strict=True), ("accuracy", "share of stored rows sent by the attacker"), strict=True
):
    bars = axes.bar(names, values, color=["tab:red", "tab:blue"])
    axes.bar_label(bars, fmt="%.2f")
    axes.set(title=title, ylim=(0, 1.1))
plt.show()
