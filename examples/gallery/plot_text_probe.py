"""
Words that leave
================

Short messages, hashed into 512 features by a map that learns nothing from them. When a person leaves, the words that
only this person used lose their weight.
"""

import matplotlib.pyplot as plt
import numpy as np

from erasable import ErasableClassifier
from erasable.features import HashedText

rng = np.random.default_rng(0)
praise, blame = ["great", "lovely", "fast", "kind", "warm"], ["late", "broken", "cold", "rude", "slow"]
neutral = ["parcel", "order", "shop", "today", "again", "box", "street"]
people = rng.integers(60, size=1_500)
happy = rng.random(1_500) < 0.5
texts = []
for person, good in zip(people, happy, strict=True):
    words = [*rng.choice(praise if good else blame, 2), *rng.choice(neutral, 3)]
    texts.append(" ".join([*words, "zounds"] if person == 7 else words))

clf = ErasableClassifier(
    feature_map=HashedText(512), selection="independent", rate=0.5, loss="logistic", alpha=0.1
).fit(texts, np.where(happy | (people == 7), "happy", "unhappy"), ids=np.arange(1_500), subjects=people)

# %%
# Scores of single words before and after person 7, who says "zounds", is forgotten.

words = [*praise, *blame, "zounds"]
before = clf.decision_function(words)
clf.forget(subjects=[7])
after = clf.decision_function(words)

figure, axes = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
place = np.arange(len(words))
axes.barh(place - 0.2, before, height=0.4, label="before", color="lightgrey")
axes.barh(place + 0.2, after, height=0.4, label="after person 7 left", color="tab:blue")
axes.set_yticks(place, words)
axes.invert_yaxis()
axes.axvline(0, color="black", linewidth=0.6)
axes.set_xlabel("score: unhappy to the right, happy to the left")
axes.legend(fontsize=8)
plt.show()
