"""What the defaults of loss, alpha, capacity, threshold, selection, rate and balance were chosen by.

    make bench ARGS="--only defaults --data DIR"

Rows are selected once for each setting, and plain logistic regression is fitted on them: the same minimiser as ours.
Rows that other sections report are not looked at: see ``Table.parts``.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

from benchmarks.sets import bundled, prepared, raw_tables
from benchmarks.tools import console, table
from erasable import ErasableClassifier
from erasable.core.grid import Grid, plain_scaling, to_grid

BLOCK, MOST_ROWS = 8192, 30_000
ALPHAS = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
DEFAULT = (0.02, 0.06)  # capacity and threshold
SETTINGS = (DEFAULT, (0.02, 0.2), (0.02, 0.1), (0.02, 0.03), (0.1, 0.06), (0.004, 0.06))
RATES = (0.05, 0.1, 0.2, 0.4)
NUMBERS, TABLES = "array", "schema"
ALPHA = {NUMBERS: 0.01, TABLES: 0.1}
RULES = {  # exponent of rarity, balance
    "uniform": (0.0, 0.0),
    "moments": (1.0, 0.0),
    "moments, balance 0.5": (1.0, 0.5),
    "moments, balance 1": (1.0, 1.0),
    "square root of rarity, balance 0.5": (0.5, 0.5),
}
INTRODUCTION = """## Defaults

What the defaults were chosen by: six sets of plain numbers, and raw tables behind unedited drafts of schemas. Of every
set 70% of the rows may be looked at; the rest is for reports ("Comparison"). A quarter of the former scores the models
(up to three random divisions; at most 30,000 rows). Heads are `LogisticRegression` on the rows that were selected, one
class against the rest. AUC is the mean over classes. "Constant" predicts the shares of the training rows.

Rules. That of the selection was fixed beforehand, the others after a first look at these rows. The bound for the
threshold was revised once: as first written, 0.03 on all sets, it would have taken threshold 0.1.

- *Loss*: logistic, since the squared loss had a log-loss worse than a constant on some tables.
- *alpha*: the least mean of log-loss divided by the constant's: of raw tables for a schema, of all sets for plain
  numbers, which may be anything. No default may be worse than a constant on any set it is for.
- *capacity and threshold*, which are defaults for plain numbers: the least storage for which the log-loss is on average
  at most 0.02 of the constant's above that of all rows.
- *selection*: independent, if its AUC is within 0.003 and its log-loss within 0.005 of Algorithm 1's, at its storage,
  on three quarters of the sets: on raw tables with the moments and shares of the draft, on plain numbers without.
- *rate*, drafted with a schema: what Algorithm 1 stores, by a rule that needs only the numbers of rows and features.

Taken: alpha 0.1 behind a schema and 0.01 for plain numbers; capacity 0.02 and threshold 0.06, as before; behind a
schema, independent selection with balance 0.5, and a rate of sixteen rows for each feature, at least 1/8. Balance 1
lost with several classes. For plain numbers Algorithm 1 stayed, against the letter of the rule: at the storage that
it finds by itself a uniform sample was within the limits on most sets; but nothing public states that storage, and at
the default rate of 0.1 a uniform sample was beyond them on most. The square root of rarity in place of rarity changed
next to nothing, so the definition stayed. The tables are of today's code, and the choice was made by earlier ones.
"""
AT_EQUAL_STORAGE = """
AUC / log-loss of Algorithm 1, and the difference of independent selection at equal storage (two keys; bold is beyond
0.003 or 0.005; storage in brackets where clipping kept it lower). Moments of plain numbers are those of the training
rows, rounded to powers of two, and only the column "uniform" counts for them.

"""


@dataclass
class Problem:
    """One division of a set: rows to learn and to score, on the grid."""

    name: str
    kind: str
    X: object
    y: np.ndarray
    train: np.ndarray
    test: np.ndarray
    scaling: object = "row"
    public: tuple | None = None  # moments and shares of a draft
    seed: int = 0
    fits: dict = field(default_factory=dict)

    @property
    def classes(self):
        """All labels."""
        return np.unique(self.y)

    @cached_property
    def rows(self):
        """All rows on the grid, the constant appended."""
        return on_grid(self.X, Grid(self.X.shape[1], scaling=plain_scaling(self.scaling)))

    @property
    def constant(self):
        """The log-loss of the shares of the training rows."""
        shares = np.array([np.mean(self.y[self.train] == c) for c in self.classes])
        return log_loss(self.y[self.test], np.tile(shares, (len(self.test), 1)), labels=self.classes)

    def judged(self, kept, alpha, tilts=1.0):
        """AUC and log-loss of a head on these of the training rows."""
        core, classes, y = self.train[kept], self.classes, self.y[self.test]
        P = probabilities(one_against_rest(self.rows[core], self.y[core], classes, self.rows[self.test], alpha))
        P = np.clip(P / tilts, 1e-15, None)
        P /= P.sum(axis=1, keepdims=True)
        known = [k for k, c in enumerate(classes) if 0 < np.sum(y == c) < len(y)]
        area = np.mean([roc_auc_score(y == classes[k], P[:, k]) for k in known])
        return area, log_loss(y, P, labels=classes)

    def by_leverage(self, capacity, threshold):
        """Positions among the training rows that Algorithm 1 keeps."""
        if (capacity, threshold) not in self.fits:
            how = {"threshold": threshold, "scaling": self.scaling, "loss": "squared", "selection": "leverage"}
            clf = ErasableClassifier(capacity, **how, feature_map=None).fit(self.X[self.train], self.y[self.train])
            self.fits[capacity, threshold] = np.sort(clf.core_ids_)
        return self.fits[capacity, threshold]

    @cached_property
    def rarity(self):
        """How unusual each training row is, on average one."""
        rows = self.rows[self.train][:, :-1] * np.sqrt(2.0)
        squares = rows.multiply(rows) if sp.issparse(rows) else np.square(rows)
        moments = None if self.public is None else self.public[0]
        if moments is None:
            moments = 2.0 ** np.round(np.log2(np.maximum(np.asarray(squares.mean(axis=0)).ravel(), 1e-6)))
        return np.asarray(squares @ (1 / moments)).ravel() / rows.shape[1]

    def drawn(self, rate, exponent, balance, key, *, reached=False):
        """Training rows that independent selection keeps, and the tilts; with ``reached``, as many as ``rate`` says."""
        y, stated = self.y[self.train], {} if self.public is None else self.public[1]
        shares = np.array([stated.get(str(c), 2.0 ** np.round(np.log2(np.mean(y == c)))) for c in self.classes])
        tilts = (len(shares) * shares) ** -balance
        chance = np.random.default_rng([key, self.seed]).random(len(y))
        by_row = tilts[np.searchsorted(self.classes, y)] / tilts.max()
        factor = tilts.max() * shares.sum() / (shares @ tilts)
        asked = rate
        for _ in range(4 if reached else 1):
            kept = np.flatnonzero(chance < np.minimum(1.0, factor * asked * self.rarity**exponent) * by_row)
            asked *= rate * len(y) / max(1, len(kept))
        return kept, tilts


def problems(folder):
    """Every division of every set."""
    for data in [*bundled(), *(prepared(folder) if folder else ())]:
        rows = np.random.default_rng(27).permutation(data.X.shape[0])
        rows = rows[3 * (len(rows) // 10) :][:MOST_ROWS]
        yield from divided(data.name, NUMBERS, data.X[rows], data.y[rows], data.scaling)
    for raw in raw_tables(folder):
        if not raw.numeric:
            rows = raw.parts()[0][:MOST_ROWS]
            frame, y = raw.frame.iloc[rows].reset_index(drop=True), raw.y[rows].astype(str)
            schema = raw.schema(rows)
            X = sp.csr_array(schema.encode(frame)[0])
            yield from divided(raw.name, TABLES, X, y, "row", (schema.second_moments, schema.class_shares))


def divided(name, kind, X, y, scaling, public=None):
    for seed in range(3 if len(y) < 3000 else 2 if len(y) < 12_000 else 1):
        train, test = train_test_split(np.arange(len(y)), test_size=0.25, random_state=seed, stratify=y)
        yield Problem(name, kind, X, y, train, test, scaling, public, seed)


def on_grid(X, grid):
    """Rows as the model learns them, the constant appended, dense where that is small."""
    blocks = []
    for start in range(0, X.shape[0], BLOCK):
        block = X[start : start + BLOCK]
        G = to_grid(block.toarray() if sp.issparse(block) else block, grid)
        blocks.append(sp.csr_array(G.astype(np.float64)) if sp.issparse(X) else G.astype(np.float64))
    return (sp.vstack(blocks, format="csr") if sp.issparse(X) else np.vstack(blocks)) * 2.0**-grid.bits


def one_against_rest(rows, y, classes, asked, alpha):
    """Scores of logistic regressions, a column for each class (one where there are two)."""
    wanted = classes[1:] if len(classes) == 2 else classes
    scores = np.zeros((asked.shape[0], len(wanted)))
    solver = "newton-cholesky" if rows.shape[1] < 400 else "lbfgs"
    for k, label in enumerate(wanted):
        target = y == label
        if target.any() and not target.all():
            head = LogisticRegression(C=1 / alpha, fit_intercept=False, max_iter=1000, solver=solver)
            scores[:, k] = head.fit(rows, target).decision_function(asked)
        else:
            scores[:, k] = 30.0 if target.all() else -30.0
    return scores


def probabilities(scores):
    """Of each class, from the scores of one against the rest."""
    p = expit(scores)
    return np.hstack([1 - p, p]) if p.shape[1] == 1 else p / np.maximum(p.sum(axis=1, keepdims=True), 1e-300)


def measured(folder):
    """Means over divisions: by set, then by what was tried, (stored, AUC, log-loss)."""
    found, about = {}, {}
    for p in problems(folder):
        console.log(p.name)
        entry, n = found.setdefault(p.name, {}), len(p.train)
        about[p.name] = (p.kind, p.X.shape[1], n)
        alpha, everything = ALPHA[p.kind], np.arange(n)

        def add(key, kept, alpha=alpha, tilts=1.0, p=p, entry=entry, n=n):
            entry.setdefault(key, []).append((len(kept) / n, *p.judged(kept, alpha, tilts)))

        entry.setdefault("constant", []).append((0.0, 0.5, p.constant))
        add("all rows", everything)
        for setting in SETTINGS:
            add(setting, p.by_leverage(*setting))
        for other in ALPHAS:
            add(("alpha", other), p.by_leverage(*DEFAULT), other)
        share = len(p.by_leverage(*DEFAULT)) / n
        for key in (0, 1):
            for name, (exponent, balance) in RULES.items():
                kept, tilts = p.drawn(min(share, 1.0), exponent, balance, key, reached=True)
                add(("equal", name), kept, tilts=tilts)
            for rate in RATES:
                rule = RULES["moments, balance 0.5" if p.kind == TABLES else "uniform"]
                kept, tilts = p.drawn(rate, *rule, key)
                add(("rate", rate), kept, tilts=tilts)
    return {name: {k: np.mean(v, axis=0) for k, v in entry.items()} for name, entry in found.items()}, about


def alpha_section(found, about):
    """Log-losses by alpha."""
    rows = []
    for name, entry in found.items():
        losses = [entry["alpha", a][2] for a in ALPHAS]
        cells = [f"**{v:.4f}**" if v == min(losses) else f"{v:.4f}" for v in losses]
        rows.append([name, about[name][0], f"{entry['constant'][2]:.4f}", *cells])
    for title, kinds in (("all sets", (NUMBERS, TABLES)), ("raw tables", (TABLES,))):
        chosen = [entry for name, entry in found.items() if about[name][0] in kinds]
        ratios = [np.mean([e["alpha", a][2] / e["constant"][2] for e in chosen]) for a in ALPHAS]
        rows.append([f"mean of ratios, {title}", "", "1", *(f"{v:.4f}" for v in ratios)])
    return "\nLog-loss by alpha, on the rows that Algorithm 1 stores by default:\n\n" + table(
        ["data", "kind", "constant", *(f"alpha {a:g}" for a in ALPHAS)], rows
    )


def setting_section(found, about):
    """Storage and log-loss by capacity and threshold, of plain numbers and of raw tables."""
    rows = []
    for setting in SETTINGS:
        row = [*setting]
        for kind in (NUMBERS, TABLES):
            entries = [entry for name, entry in found.items() if about[name][0] == kind]
            lost = [(e[setting][2] - e["all rows"][2]) / e["constant"][2] for e in entries] or [np.nan]
            stored = np.mean([e[setting][0] for e in entries] or [np.nan])
            row += [f"{stored:.1%}", f"{np.mean(lost):.4f}", f"{max(lost):.4f}"]
        rows.append(row)
    head = ["capacity", "threshold", "plain numbers: stored", "mean loss", "largest"]
    text = "\nLog-loss above that of all rows, as a share of the constant's:\n\n"
    return text + table([*head, "raw tables: stored", "mean loss", "largest"], rows)


def selection_section(found, about):
    """Independent selection against Algorithm 1, at its storage."""
    rows, passed = [], {}
    for name, entry in found.items():
        stored, area, loss = entry[DEFAULT]
        cells = []
        for rule in RULES:
            share, a, b = entry["equal", rule]
            holds = a >= area - 0.003 and b <= loss + 0.005
            passed.setdefault((about[name][0], rule), []).append(holds)
            text = f"{a - area:+.4f} / {b - loss:+.4f}" + (f" ({share:.0%})" if abs(share - stored) > 0.02 else "")
            cells.append(text if holds else f"**{text}**")
        rows.append([name, about[name][0], f"{stored:.1%}", f"{area:.4f} / {loss:.4f}", *cells])
    for kind in (TABLES, NUMBERS):
        counts = [passed.get((kind, rule), []) for rule in RULES]
        rows.append([f"within, {kind}", "", "", "", *(f"{sum(c)} of {len(c)}" for c in counts)])
    return AT_EQUAL_STORAGE + table(["data", "kind", "stored", "Algorithm 1", *RULES], rows)


def rate_section(found, about):
    """Log-loss by rate, and the rate that a draft would state."""
    rows = []
    for name, entry in found.items():
        kind, d, n = about[name]
        drafted = 2.0 ** np.round(np.log2(min(1.0, max(0.125, 16 * d / n))))
        cells = [f"{entry['rate', rate][2]:.4f}" for rate in RATES]
        mine = f"{drafted:g}" if kind == TABLES else ""
        rows.append([name, f"{n:,} x {d}", *cells, f"{entry['all rows'][2]:.4f}", f"{entry[DEFAULT][0]:.1%}", mine])
    text = (
        "\nLog-loss by rate (raw tables: moments, balance 0.5; plain numbers: uniform), and the rate of a draft for as "
    )
    text += "many rows:\n\n"
    head = ["data", "rows x features", *(f"rate {r:g}" for r in RATES), "all rows", "Algorithm 1 stores", "drafted"]
    return text + table(head, rows)


def defaults(options):
    """The section."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, about = measured(Path(options.data) if options.data else None)
    parts = [alpha_section, setting_section, selection_section, rate_section]
    return INTRODUCTION + "".join(part(found, about) for part in parts)
