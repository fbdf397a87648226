"""
A raw table
===========

Texts, dates and missing cells become numbers by a public schema, which learns nothing from anybody's row. The draft
shows only what many people share.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from erasable import ErasableClassifier
from erasable.schemas import draft_schema

rng = np.random.default_rng(0)
n = 6_000
table = pd.DataFrame(
    {
        "customer": rng.integers(1_200, size=n).astype(str),
        "town": rng.choice(["Ghent", "Delft", "Bruges", "Aalst"], n, p=[0.5, 0.3, 0.15, 0.05]),
        "amount": np.round(rng.lognormal(3.0, 1.0, n), 2),
        "ordered": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(300, size=n), "D"),
    }
)
risk = (table.town == "Delft") + (table.amount > 60) - 0.8 * (table.ordered.dt.month > 6)
table["returned"] = np.where(risk + rng.logistic(size=n) * 0.6 > 0.5, "yes", "no")
print(table.head(3))

# %%
# Draft a schema, then learn from the raw table. In real use, read and edit the draft first.

schema = draft_schema(table, label="returned", subject="customer").schema
clf = ErasableClassifier(feature_map=schema, selection="independent", rate=0.2, loss="logistic", alpha=0.1)
clf.fit(table[:5_000], table.returned[:5_000], ids=np.arange(5_000), subjects=table.customer[:5_000])
print(clf.score(table[5_000:], table.returned[5_000:]))
schema  # notebooks show what each column becomes

# %%
# The weights of the features, by column.

figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
names, weights = schema.feature_names_out(), clf.coef_[0]
largest = np.argsort(-np.abs(weights))[:14][::-1]
axes.barh([names[i] for i in largest], weights[largest], color=np.where(weights[largest] > 0, "tab:red", "tab:blue"))
axes.axvline(0, color="black", linewidth=0.6)
axes.set_xlabel("weight: towards 'yes' to the right")
plt.show()
