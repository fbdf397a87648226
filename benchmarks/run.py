"""Measure `erasable` beside its peers and write benchmarks/RESULTS.md.

    make bench                              everything, about twenty minutes
    make bench ARGS="--only fit forget"     some sections
    make bench ARGS="--data DIR"            accuracy, order and sparse rows also on NAME_{train,test,labels}.npz in DIR

Every comparison runs in this one process, the contestants taking turns, each after a call of its own to warm up;
figures are medians, ratios are of medians.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import json
import re
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

import numpy as np
from rich.progress import track
from scipy.linalg import blas, cho_factor, cho_solve
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.alternatives import alternatives
from benchmarks.comparison import comparison
from benchmarks.datasets import correlated, local_sets, margin, small_sets
from benchmarks.defaults import defaults
from benchmarks.drafts import drafts
from benchmarks.engines import as_text as as_engines_text
from benchmarks.engines import measured as measured_engines
from benchmarks.files import file_growth, measure, streaming
from benchmarks.gpu_tables import gpu
from benchmarks.independent import independent
from benchmarks.independent_deletions import independent_deletions
from benchmarks.independent_speed import independent_speed
from benchmarks.kernel import kernel
from benchmarks.learners import learners
from benchmarks.logistic import logistic
from benchmarks.models import models
from benchmarks.order import order
from benchmarks.orders import orders
from benchmarks.planning import cases, row
from benchmarks.poison import poison
from benchmarks.regression import regression
from benchmarks.scan import main as print_scan_tables
from benchmarks.schema import main as print_schema_tables
from benchmarks.service import service
from benchmarks.sparse import sparse
from benchmarks.sparse_files import HEAD as SPARSE_HEAD
from benchmarks.sparse_files import rows as sparse_file_rows
from benchmarks.tools import console, spread, table, take_turns
from benchmarks.worst_case import worst_case
from erasable import ErasableClassifier, learn, verify
from erasable.research.measuring import clock, in_words, machine
from erasable.research.reproduce import as_in_the_paper, in_detail, speed_ups

CORRELATED = {"kappa": 0.295, "capacity": 1.0}
MARGIN = {"kappa": 0.2, "capacity": 1.0, "fit_intercept": False}


def literal_loop(X, y, tau, capacity):
    """Algorithm 1 to the letter in NumPy, a row at a time; generous: weights are computed once, at the end."""
    d = X.shape[1]
    inverse, b, core = np.eye(d) / capacity, np.zeros(d), []
    for t in range(len(X)):
        x = X[t]
        v = inverse @ x
        leverage = x @ v
        if leverage > tau:
            inverse -= np.outer(v, v / (1.0 + leverage))
            b += x if y[t] else -x
            core.append(t)
    return inverse @ b, core


def fit(options):
    """Fit against ridge regression on all rows and against the bare BLAS calls behind it."""
    rows = []
    for name, make, config in (
        ("correlated, 249,215 x 600", correlated, CORRELATED),
        ("Margin, 200,000 x 100", margin, MARGIN),
    ):
        X, y = make()
        target = np.where(y, 1.0, -1.0)
        intercept = config.get("fit_intercept", True)
        report = learn(ErasableClassifier(**config, loss="squared"), X, y)
        contestants = {
            "erasable": lambda X=X, y=y, config=config: ErasableClassifier(**config, loss="squared").fit(X, y).coef_,
            "ridge": lambda X=X, y=y, i=intercept: RidgeClassifier(solver="cholesky", fit_intercept=i).fit(X, y),
            "BLAS": lambda X=X, t=target: cho_solve(cho_factor(X.T @ X + np.eye(X.shape[1])), X.T @ t),
        }
        times = take_turns(contestants, options.rounds, f"fit, {name}")
        medians = {k: float(np.median(v)) for k, v in times.items()}
        d = report.decisions
        rows.append(
            [
                name,
                f"{100 * report.core_rows_added / len(X):.2f}%",
                *(spread(times[k]) for k in contestants),
                f"**{medians['erasable'] / medians['ridge']:.2f}**",
                f"{medians['erasable'] / medians['BLAS']:.2f}",
                f"{d.screened:,} / {d.certified:,} / {d.enclosed} / {d.exact}",
            ]
        )
        del X, y, target, contestants
    head = ["data", "core rows", "erasable, s", "RidgeClassifier(cholesky), s", "X'X and a solve, s"]
    head += ["ratio to ridge", "ratio to BLAS", "rows decided: screened / certified / enclosed / exact"]
    return (
        "## Fit\n\nSeconds: median (fastest to slowest). Contestants take turns, each timed call right after an "
        "untimed one of its own. `fit` includes input checks and the weights.\n\n" + table(head, rows)
    )


def loop(options):
    """Fit against the literal row-by-row loop: all rows, and the early phase in which most rows are selected."""
    X, y = correlated()
    tau = float(len(X)) ** -CORRELATED["kappa"]
    rows = []
    for name, n in (("first 20,000 rows (most are selected)", 20_000), ("all 249,215 rows", len(X))):
        part, labels = X[:n], y[:n]
        clf = ErasableClassifier(CORRELATED["capacity"], threshold=tau, fit_intercept=False, loss="squared")
        contestants = {
            "erasable": lambda p=part, t=labels, c=clf: c.fit(p, t).coef_,
            "loop": lambda p=part, t=labels: literal_loop(p, t, tau, 1.0),
        }
        times = take_turns(contestants, 3 if n < len(X) else 1, f"loop, {n:,} rows")
        medians = {k: float(np.median(v)) for k, v in times.items()}
        ratio = medians["loop"] / medians["erasable"]
        share = f"{100 * clf.n_core_ / n:.1f}%"
        rows.append([name, share, *(spread(times[k]) for k in contestants), f"**{ratio:.1f}**"])
    head = ["rows", "selected", "erasable, s", "NumPy loop, s", "times faster"]
    return "## Fit against the literal loop of Algorithm 1\n\nd = 600, correlated rows, no intercept.\n\n" + table(
        head, rows
    )


def forget(options):
    """Forgetting one core row against one rank-1 update; non-core ids; weights when next read."""
    X, y = correlated(n=60_000)
    clf = ErasableClassifier(**CORRELATED, horizon=249_215, fit_intercept=False, loss="squared").fit(X, y)
    d, core = 600, clf.core_ids_.tolist()
    rng = np.random.default_rng(0)
    rng.shuffle(core)
    A, x = np.asfortranarray(np.eye(d)), rng.standard_normal(d)
    ours, ger, outer, weights, solving = [], [], [], [], []
    for k in track(core[:200], description="forget", console=console, transient=True):
        start = time.perf_counter()
        clf.forget(ids=[k])
        ours.append(time.perf_counter() - start)
        start = time.perf_counter()
        blas.dger(-1e-9, x, x, a=A, overwrite_a=1)
        ger.append(time.perf_counter() - start)
        start = time.perf_counter()
        np.subtract(A, np.outer(x, x), out=A)
        outer.append(time.perf_counter() - start)
        np.add(A, np.outer(x, x), out=A)
    H = np.asfortranarray(X[:5000].T @ X[:5000] + np.eye(d))
    for k in core[200:230]:
        clf.forget(ids=[k])
        start = time.perf_counter()
        _ = clf.coef_
        weights.append(time.perf_counter() - start)
        start = time.perf_counter()
        cho_solve(cho_factor(H, lower=True), x)
        solving.append(time.perf_counter() - start)
    unknown = np.arange(10**6, 10**6 + 80_000)
    batch = [clock(lambda: clf.forget(ids=unknown)) for _ in range(options.rounds)]
    per_id = np.median(batch) / len(unknown) * 1e6
    start = time.perf_counter()
    verify(clf)
    verifying = time.perf_counter() - start
    rows = [
        ["one non-core id, in a batch of 80,000", f"{per_id:.3f} us", "", ""],
        ["one core row, one call", f"{np.median(ours) * 1e6:.0f} us", "`dger` in place", _ratio(ours, ger, 1e6, "us")],
        [
            "one core row, one call",
            f"{np.median(ours) * 1e6:.0f} us",
            "`A -= np.outer(x, x)`",
            _ratio(ours, outer, 1e6, "us"),
        ],
        [
            "weights, when next read",
            f"{np.median(weights) * 1e3:.1f} ms",
            "Cholesky factor and solve",
            _ratio(weights, solving, 1e3, "ms"),
        ],
        [f"`verify`, {clf.n_core_:,} core rows", f"{verifying:.2f} s", "", ""],
    ]
    head = ["what", "erasable", "peer", "peer's time, and our ratio to it"]
    return f"## Forget\n\nd = 600, {clf.n_core_:,} core rows; medians.\n\n" + table(head, rows)


def _ratio(ours, peer, scale, unit):
    return f"{np.median(peer) * scale:.1f} {unit}, **{np.median(ours) / np.median(peer):.2f}**"


def memory(options):
    """Peak memory of fit above the input."""
    rows = []
    for name, make, config in (
        ("correlated, 249,215 x 600", correlated, CORRELATED),
        ("Margin, 200,000 x 100", margin, MARGIN),
        ("correlated, 20,000 x 2,000", lambda: correlated(20_000, 2_000), {"kappa": 0.4, "capacity": 1.0}),
    ):
        X, y = make()
        clf = ErasableClassifier(**config, loss="squared")
        gc.collect()
        tracemalloc.start()
        base = tracemalloc.get_traced_memory()[0]
        clf.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1] - base
        tracemalloc.stop()
        d = X.shape[1] + clf.fit_intercept
        core = clf.n_core_ * d * 2
        square = 4 * d * d * 8
        block = min(32768, max(96, 3 * d // 4, 2**21 // d)) * d * 4
        bound = core + square + block
        rows.append(
            [
                name,
                *(f"{v / 1e6:.1f}" for v in (peak, core, square, block, bound)),
                f"**{peak / bound:.2f}**",
                f"{X.nbytes / 1e6:.0f}",
            ]
        )
        del X, y
    head = [
        "data",
        "peak, MB",
        "core set",
        "4 d x d",
        "one block (float32)",
        "sum of the three",
        "peak / sum",
        "input, MB",
    ]
    return (
        "## Memory\n\nPeak of Python and NumPy allocations during `fit` above the input (tracemalloc), in MB.\n\n"
        + table(head, rows)
    )


def growth(options):
    """Time against n and d."""
    sizes = [50_000, 100_000, 200_000, 400_000, 700_000, 1_000_000]
    X, y = margin(n=sizes[-1])
    contestants = {
        n: lambda X=X[:n], y=y[:n]: ErasableClassifier(**MARGIN, horizon=200_000, loss="squared").fit(X, y)
        for n in sizes
    }
    times = take_turns(contestants, options.rounds, "growth with n")
    medians = [float(np.median(times[n])) for n in sizes]
    slope = np.polyfit(np.log(sizes), np.log(medians), 1)[0]
    report = learn(ErasableClassifier(**MARGIN, horizon=200_000, loss="squared"), X, y)
    text = "## Growth\n\nMargin rows, d = 100, threshold fixed (horizon 200,000).\n\n"
    text += table(["n", *(f"{n:,}" for n in sizes)], [["fit, s", *(f"{m:.3f}" for m in medians)]])
    fallback = f"{report.decisions.enclosed} by enclosure, {report.decisions.exact} in rational arithmetic"
    text += (
        f"\nSlope of log time against log n: **{slope:.3f}**. Of 1,000,000 rows, undecided in float64: {fallback}.\n\n"
    )
    del X, y
    widths = [50, 100, 200, 400, 800]
    data = {d: correlated(n=20_000, d=d) for d in widths}
    contestants = {d: lambda d=d: ErasableClassifier(**CORRELATED, loss="squared").fit(*data[d]) for d in widths}
    times = take_turns(contestants, options.rounds, "growth with d")
    medians = [float(np.median(times[d])) for d in widths]
    slope = np.polyfit(np.log(widths), np.log(medians), 1)[0]
    text += "Correlated rows, n = 20,000.\n\n"
    text += table(["d", *map(str, widths)], [["fit, s", *(f"{m:.3f}" for m in medians)]])
    return text + f"\nSlope of log time against log d: {slope:.2f}.\n"


def accuracy(options):
    """Test accuracy and stored share against ridge regression on all rows."""
    rows = []
    sets = list(small_sets()) + (list(local_sets(options.data)) if options.data else [])
    for name, splits in track(sets, description="accuracy", console=console, transient=True):
        scores, stored = {}, {}
        for X, X_test, y, y_test in splits:
            # Breast cancer's columns differ in size ten-thousandfold; their orders of magnitude are public knowledge.
            scaling = 10.0 ** np.round(np.log10(X.max(axis=0))) if name == "breast cancer" else "row"
            ridge = make_pipeline(StandardScaler(with_mean=isinstance(X, np.ndarray)), RidgeClassifier())
            scores.setdefault("ridge", []).append(ridge.fit(X, y).score(X_test, y_test))
            for setting in ((1.0, 0.2), (1.0, 0.4), (0.1, 0.2), (0.1, 0.4)):
                clf = ErasableClassifier(setting[0], kappa=setting[1], scaling=scaling, loss="squared").fit(X, y)
                scores.setdefault(setting, []).append(clf.score(X_test, y_test))
                stored.setdefault(setting, []).append(clf.n_core_ / X.shape[0])
        size, middle = f"{X.shape[0]:,} x {X.shape[1]}", float(np.median(scores["ridge"]))
        for setting, share in stored.items():
            gap = f"{float(np.median(scores[setting])) - middle:+.3f}"
            kept = f"{100 * np.median(share):.1f}%"
            row = [name, size, len(splits), *setting, kept, spread(scores[setting], digits=3)]
            rows.append([*row, spread(scores["ridge"], digits=3), gap])
    head = ["data", "train rows", "splits", "capacity", "kappa", "rows stored", "accuracy", "ridge on all rows", "gap"]
    text = "## Accuracy\n\nMedian (worst to best) over random splits. Ridge is `RidgeClassifier()` behind a "
    text += "`StandardScaler`, both fitted on all rows, which cannot forget; ours sees rows divided by their own norm "
    text += "(breast cancer: by public column scales first). Small core sets vary much with the order of the rows.\n\n"
    return text + table(head, rows)


def reproduction(options):
    """Tables of runs of ``erasable reproduce``, which take too long to be repeated here."""
    text = (
        "## The paper's experiments\n\nFrom `erasable reproduce`, see docs/reproduction.md; times in seconds. Methods "
    )
    text += "take turns after every stretch of requests: where others use the machine, ratios hold and times do not.\n"
    for path in sorted(options.runs.glob("*/results.json")):
        results = json.loads(path.read_text())
        s = results["settings"]
        chosen = ", ".join(
            f"{k} {s[k]}" for k in ("order", "kappa", "capacity", "random_state", "repeats", "time_limit")
        )
        label = "" if s["delete_label"] is None else f", label {s['delete_label']} deleted"
        for found in (as_in_the_paper(results), in_detail(results)):
            text += f"\n**{found.title}**\n\n{found.markdown()}"
        text += f"\nSettings: {chosen}{label}. Of the requests, {hits(results)} named a core row of ours. "
        text += f"{in_words(results['machine'])}.\n\n"
        text += "".join(f"- {line}\n" for line in speed_ups(results))
    return text


def planning(options):
    """The planner's predictions against what happens."""
    text = (
        "## Planner\n\nPlans made on the training rows; what they predict / what a fit on those rows gives on the test "
    )
    text += "rows, deletions simulated with other seeds.\n\n"
    found = [
        row(*case, random_state=i)
        for i, case in enumerate(track(list(cases(options.data)), "planner", console=console))
    ]
    head = ["data", "deletions", "loss", "plan", "rows stored", "measure", "deletions until that loss", "processor s"]
    return text + table(head, found)


def files(options):
    """A model in a file: what the disk and the arithmetic take."""
    text = (
        "## A model in a file\n\nOn the file system of the temporary folder; medians, one process, a durable forget in "
    )
    text += "turn with the same bytes written, synced, renamed and zeroed without computing anything.\n\n"
    text += table(["what", "wanted", "measured"], measure(options.rounds + 4))
    text += "\nGrowth, every row in the core; memory as multiples of the file, held after `load` and at its peak:\n\n"
    head = ["core rows", "file, MB", "`load`, ms", "durable forget, ms", "held", "peak"]
    text += table(head, file_growth(options.rounds))
    text += "\n`erasable learn` of Parquet files, each in a process of its own (imports included in the peak), one "
    text += "BLAS thread:\n\n"
    return text + table(["rows", "as float32, MB", "peak memory, MB", "processor time, s"], streaming())


def sparse_files(options):
    """Models of sparse rows in files."""
    text = (
        "## Sparse rows in a file\n\nStored rows that are sparse are stored sparse. The file also holds the sums, 1.4 "
        "MB for 600 features and 4.5 MB for 1,061, which no sparsity makes smaller. The training set as CSR: float32 "
        "values, int32 columns and ends. One BLAS thread; each line from a process of its own, medians.\n\n"
    )
    return text + table(SPARSE_HEAD, sparse_file_rows(options.data) if options.data else [])


def engines(options):
    """Engines: memory that does not grow with the rows, workers, the cost model. A GPU has benchmarks/gpu.py."""
    with tempfile.TemporaryDirectory() as folder:
        return as_engines_text(measured_engines(Path(folder), Path("docs/img/scale.png")))


def scanning(options):
    """The forensic scan against looking for one row after the other."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        print_scan_tables()
    return f"## The forensic scan\n\n{printed.getvalue()}"


def schemas(options):
    """Raw tables through a schema against fitted encoders; the tables are among the further data sets."""
    head = "## Raw tables through a schema\n\n"
    if not options.data:
        return head + "Not measured: the tables are in the folder that `--data` names.\n"
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        print_schema_tables(options.data)
    return head + printed.getvalue()


def hits(results):
    share = results["methods"].get("erasable", {}).get("requests_in_core")
    return "an unknown share" if share is None else f"{100 * share:.2f}%"


SECTIONS = {
    "fit": fit,
    "loop": loop,
    "order": lambda options: order(options, {"correlated": CORRELATED, "margin": MARGIN}),
    "sparse": sparse,
    "forget": forget,
    "memory": memory,
    "growth": growth,
    "accuracy": accuracy,
    "defaults": defaults,
    "comparison": comparison,
    "alternatives": alternatives,
    "models": models,
    "learners": learners,
    "kernel": kernel,
    "logistic": logistic,
    "regression": regression,
    "files": files,
    "sparse_files": sparse_files,
    "engines": engines,
    "gpu": gpu,
    "service": service,
    "scan": scanning,
    "schema": schemas,
    "drafts": drafts,
    "orders": orders,
    "planning": planning,
    "worst_case": worst_case,
    "independent": independent,
    "independent_deletions": independent_deletions,
    "independent_speed": independent_speed,
    "poison": poison,
    "reproduction": reproduction,
}


def sections_of(text):
    """Sections of an earlier file by name."""
    parts = re.split(r"<!-- section: (\w+) -->\n", text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, help="sections to run; the others stay as they are")
    parser.add_argument("--rounds", type=int, default=5, help="rounds per comparison (default 5)")
    parser.add_argument("--data", help="folder with further data sets, for the sections that can use them")
    parser.add_argument("--gpu", type=Path, help="what benchmarks/gpu.py wrote where there is a GPU")
    parser.add_argument("--runs", type=Path, default=Path("reproduction"), help="folder of `erasable reproduce` runs")
    parser.add_argument("--out", default=Path(__file__).with_name("RESULTS.md"), type=Path)
    options = parser.parse_args()
    parts = sections_of(options.out.read_text()) if options.only and options.out.exists() else {}
    for name in options.only or SECTIONS:
        parts[name] = SECTIONS[name](options).strip() + "\n\n"
        print("\n" + parts[name], flush=True)
    made = 'make bench ARGS="--data DIR"' if options.data else "make bench"
    text = f"# Results\n\nMade by `{made}`, sections on their own with `--only`. {in_words(machine())}.\n\n"
    text += "".join(f"<!-- section: {name} -->\n{parts[name]}" for name in SECTIONS if name in parts)
    options.out.write_text(text.rstrip() + "\n")
    console.print(f"written: {options.out}")


if __name__ == "__main__":
    main()
