"""Speed, memory and growth of `fit` and `forget` on dense rows."""

from __future__ import annotations

import time

import numpy as np
from scipy.linalg import blas, cho_factor, cho_solve
from sklearn.linear_model import RidgeClassifier

from benchmarks.datasets import correlated, margin
from benchmarks.tools import goal, peak_of, spread, table, take_turns, where_time_goes
from erasable import ErasableClassifier, learn, verify
from erasable.core import deciding, selector
from erasable.core.selector import RawRows
from erasable.research.measuring import clock

CORRELATED = {"kappa": 0.295, "capacity": 1.0}
MARGIN = {"kappa": 0.2, "capacity": 1.0, "fit_intercept": False}
BLAS = "X'X and a solve"


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
    rows, lines, parts = [], "", ""
    for name, make, config, goals in (
        ("correlated, 249,215 x 600", correlated, CORRELATED, {"hashed": 1.2, "given": 1.1}),
        ("Margin, 200,000 x 100", margin, MARGIN, {"hashed": 1.2, "given": None}),
    ):
        X, y = make()
        target = np.where(y, 1.0, -1.0)
        report = learn(ErasableClassifier(**config, loss="squared", feature_map=None), X, y)

        def ours(X=X, y=y, config=config, **more):
            return lambda: ErasableClassifier(**config, **more, loss="squared", feature_map=None).fit(X, y).coef_

        intercept = config.get("fit_intercept", True)
        contestants = {
            "hashed": ours(),
            "given": ours(order="given"),
            "local": ours(engine="local"),
            "default": lambda X=X, y=y: ErasableClassifier().fit(X, y).coef_,
            "ridge": lambda X=X, y=y, i=intercept: RidgeClassifier(solver="cholesky", fit_intercept=i).fit(X, y),
            "BLAS": lambda X=X, t=target: cho_solve(cho_factor(X.T @ X + np.eye(X.shape[1])), X.T @ t),
        }
        times = take_turns(contestants, options.rounds, f"fit, {name}")
        peaks = {who: peak_of(work) for who, work in contestants.items()}
        medians = {who: float(np.median(found)) for who, found in times.items()}
        for order, most in goals.items():
            what = f"fit, {name}, {order} order"
            lines += goal(what, times[order], (BLAS, times["BLAS"]), most, peak=peaks[order])
        what = f'fit, {name}, `engine="local"`'
        lines += goal(what, times["local"], ("no engine", times["hashed"]), peak=peaks["local"])
        for order in ("hashed", "given"):
            parts += where_time_goes(f"{name}, {order} order", contestants[order], STAGES)
        d = report.decisions
        counts = f"{d.screened:,} / {d.certified:,} / {d.enclosed} / {d.exact}"
        share = f"{100 * report.core_rows_added / len(X):.2f}%"
        for who, words in FITTED.items():
            compared = [f"{medians[who] / medians[peer]:.2f}" for peer in ("ridge", "BLAS")]
            rows.append([name, words, spread(times[who]), *compared, f"{peaks[who]:.0f}"])
            rows[-1] += [share, counts] if who == "hashed" else ["", ""]
        del X, y, target, contestants
    head = ["data", "what", "seconds", "ratio to ridge", "ratio to BLAS", "peak, MB", "core rows"]
    head += ["rows decided: screened / certified / enclosed / exact"]
    return (
        "## Fit\n\nSeconds: median (fastest to slowest). Contestants take turns, each timed call right after an "
        "untimed one of its own. `fit` includes input checks and the weights. Rows are decided in the order of a keyed "
        'hash of their ids; `order="given"` takes them as they come. The peak is that of Python and NumPy above the '
        f"input, in a further call.\n\n{table(head, rows)}\nWhere the time goes, in one more call, seconds. Those of "
        f"functions are added up over all threads:\n\n{parts}{lines}"
    )


STAGES = {
    "gathering and converting rows": (RawRows, "approximate"),
    "screening them": (deciding, "survivors"),
    "putting candidates on the grid": (selector, "to_grid"),
    "factors": (deciding, "factor"),
    "inverses of factors": (deciding, "screen"),
    "substitution": (deciding, "whiten"),
    "Gram matrices": (deciding, "gram_of_rows"),
    "pivots": (deciding, "pivots_of"),
    "adding selected rows": (deciding, "add_gram"),
}


FITTED = {
    "hashed": "`fit`",
    "given": '`fit`, `order="given"`',
    "local": '`fit`, `engine="local"`',
    "default": "`ErasableClassifier().fit`: the log map and the logistic head",
    "ridge": '`RidgeClassifier(solver="cholesky")`',
    "BLAS": BLAS,
}


def loop(options):
    """Fit against the literal row-by-row loop: many rows, and the early phase in which most rows are selected."""
    X, y = correlated(100_000)
    tau = 249_215.0 ** -CORRELATED["kappa"]
    rows = []
    for name, n in (("first 20,000 rows (most are selected)", 20_000), ("first 100,000 rows", 100_000)):
        part, labels = X[:n], y[:n]
        clf = ErasableClassifier(
            CORRELATED["capacity"], threshold=tau, fit_intercept=False, loss="squared", feature_map=None
        )
        contestants = {
            "erasable": lambda p=part, t=labels, c=clf: c.fit(p, t).coef_,
            "loop": lambda p=part, t=labels: literal_loop(p, t, tau, 1.0),
        }
        times = take_turns(contestants, 1, f"loop, {n:,} rows")
        medians = {k: float(np.median(v)) for k, v in times.items()}
        ratio = medians["loop"] / medians["erasable"]
        share = f"{100 * clf.n_core_ / n:.1f}%"
        rows.append([name, share, *(spread(times[k]) for k in contestants), f"**{ratio:.1f}**"])
    head = ["rows", "selected", "erasable, s", "NumPy loop, s", "times faster"]
    text = "## Fit against the literal loop of Algorithm 1\n\nd = 600, correlated rows, no intercept, the threshold "
    return text + "for 249,215 rows.\n\n" + table(head, rows)


def forget(options):
    """Forgetting one core row against one rank-1 update; non-core ids; weights when next read."""
    X, y = correlated(n=60_000)
    clf = ErasableClassifier(**CORRELATED, horizon=249_215, fit_intercept=False, loss="squared", feature_map=None).fit(
        X, y
    )
    d, core = 600, clf.core_ids_.tolist()
    rng = np.random.default_rng(0)
    rng.shuffle(core)
    A, x = np.asfortranarray(np.eye(d)), rng.standard_normal(d)
    left, weights, solving = iter(core), [], []
    contestants = {
        "ours": lambda: clf.forget(ids=[next(left)]),
        "dger": lambda: blas.dger(-1e-9, x, x, a=A, overwrite_a=1),
        "outer": lambda: np.subtract(A, np.outer(x, x), out=A),
    }
    rested = take_turns(contestants, options.rounds, "forget, after a pause")
    times = {who: [] for who in contestants}
    for _ in range(10 * options.rounds):  # without a bar, whose thread would disturb so short calls
        for who, work in contestants.items():
            work()
            for _ in range(10):
                start = time.perf_counter()
                work()
                times[who].append(time.perf_counter() - start)
    ours = times["ours"]
    H = np.asfortranarray(X[:5000].T @ X[:5000] + np.eye(d))
    for _ in range(30):
        clf.forget(ids=[next(left)])
        start = time.perf_counter()
        _ = clf.coef_
        weights.append(time.perf_counter() - start)
        start = time.perf_counter()
        cho_solve(cho_factor(H, lower=True), x)
        solving.append(time.perf_counter() - start)
    peak = peak_of(contestants["ours"])
    unknown = np.arange(10**6, 10**6 + 80_000)
    batch = [clock(lambda: clf.forget(ids=unknown)) for _ in range(options.rounds)]
    per_id = np.median(batch) / len(unknown) * 1e6
    start = time.perf_counter()
    verify(clf)
    verifying = time.perf_counter() - start
    peers = {"dger": "`dger` in place", "outer": "`A -= np.outer(x, x)`"}
    rows = [
        ["one non-core id, in a batch of 80,000", f"{per_id:.3f} us", "", ""],
        *(
            [what, f"{np.median(found['ours']) * 1e6:.0f} us", words, _ratio(found["ours"], found[who], 1e6, "us")]
            for what, found in (("one core row, call after call", times), ("the same after a pause", rested))
            for who, words in peers.items()
        ),
        [
            "weights, when next read",
            f"{np.median(weights) * 1e3:.1f} ms",
            "Cholesky factor and solve",
            _ratio(weights, solving, 1e3, "ms"),
        ],
        [f"`verify`, {clf.n_core_:,} core rows", f"{verifying:.2f} s", "", ""],
    ]
    head = ["what", "erasable", "peer", "peer's time, and our ratio to it"]
    lines = ""
    for (who, words), most in zip(peers.items(), (1.0, None), strict=True):
        lines += goal("forget one core row, 600 columns", ours, (words, times[who]), most, peak=peak)
    text = f"## Forget\n\nd = 600, {clf.n_core_:,} core rows; medians. Contestants take turns of ten calls, or of one "
    text += "after a pause of 0.1 seconds, when caches are cold and threads of BLAS asleep. Ours takes a row out "
    text += (
        "of the sums by one BLAS thread: two are some 20 us faster where nothing else runs, and wait for each other "
    )
    text += f"for milliseconds where a processor is busy. One more call has a peak of {peak:.2f} MB.\n\n"
    return text + table(head, rows) + lines


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
        clf = ErasableClassifier(**config, loss="squared", feature_map=None)
        peak = 1e6 * peak_of(lambda clf=clf, X=X, y=y: clf.fit(X, y))
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
        n: lambda X=X[:n], y=y[:n]: ErasableClassifier(**MARGIN, horizon=200_000, loss="squared", feature_map=None).fit(
            X, y
        )
        for n in sizes
    }
    times = take_turns(contestants, options.rounds, "growth with n")
    medians = [float(np.median(times[n])) for n in sizes]
    slope = np.polyfit(np.log(sizes), np.log(medians), 1)[0]
    report = learn(ErasableClassifier(**MARGIN, horizon=200_000, loss="squared", feature_map=None), X, y)
    text = "## Growth\n\nMargin rows, d = 100, threshold fixed (horizon 200,000).\n\n"
    text += table(["n", *(f"{n:,}" for n in sizes)], [["fit, s", *(f"{m:.3f}" for m in medians)]])
    fallback = f"{report.decisions.enclosed} by enclosure, {report.decisions.exact} in rational arithmetic"
    text += (
        f"\nSlope of log time against log n: **{slope:.3f}**. Of 1,000,000 rows, undecided in float64: {fallback}.\n\n"
    )
    del X, y
    widths = [50, 100, 200, 400, 800]
    data = {d: correlated(n=20_000, d=d) for d in widths}
    contestants = {
        d: lambda d=d: ErasableClassifier(**CORRELATED, loss="squared", feature_map=None).fit(*data[d]) for d in widths
    }
    times = take_turns(contestants, options.rounds, "growth with d")
    medians = [float(np.median(times[d])) for d in widths]
    slope = np.polyfit(np.log(widths), np.log(medians), 1)[0]
    text += "Correlated rows, n = 20,000.\n\n"
    text += table(["d", *map(str, widths)], [["fit, s", *(f"{m:.3f}" for m in medians)]])
    return text + f"\nSlope of log time against log d: {slope:.2f}.\n"
