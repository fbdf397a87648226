"""No buffer, table or pickle of the estimator holds a forgotten row."""

import gc
import pickle
from contextlib import nullcontext

import numpy as np
import pytest

from erasable import load, verify
from erasable.models.files import checksum_at
from tests.estimators.cases import N, classifier, make_classes, make_rows

X, Y = make_rows(d=6)
IDS = [f"secret-row-{i:03d}" for i in range(N)]
OWNERS = [f"secret-owner-{i:03d}" for i in range(N)]


def fitted(**parameters):
    return classifier(**{"threshold": 0.01, **parameters}).fit(X, Y, ids=IDS, subjects=OWNERS)


def grid_rows(clf):
    """Copies of the core rows on the grid, by id."""
    state = clf._model.snapshot()
    return dict(zip(state.ids, state.rows.copy(), strict=True))


def reachable(*roots):
    """Every object that can be reached from these, each once."""
    seen, waiting = {}, list(roots)
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, type) or callable(thing):
            continue
        seen[id(thing)] = thing
        if isinstance(thing, np.ndarray) and thing.base is not None:
            waiting.append(thing.base)
        waiting += gc.get_referents(thing)
    return list(seen.values())


def load_again(clf):
    """Another estimator with the same state."""
    return pickle.loads(pickle.dumps(clf))


def strings(clf):
    """Every string that can be reached from the estimator."""
    return {thing for thing in reachable(clf) if isinstance(thing, str)}


def holders(row, things):
    """Arrays and byte strings that hold these grid integers, in any type a computation could have used."""
    forms = [row.astype(t).tobytes() for t in (np.int16, np.int32, np.int64, np.float32, np.float64)]
    found = []
    for thing in things:
        if isinstance(thing, np.ndarray) and thing.dtype != object:
            text = np.ascontiguousarray(thing).tobytes() + np.asfortranarray(thing).tobytes(order="F")
        elif isinstance(thing, bytes | bytearray):
            text = bytes(thing)
        else:
            continue
        if any(form in text for form in forms):
            found.append(thing)
    return found


@pytest.mark.parametrize("share", [1, 3, N // 3, N])
def test_rows_are_overwritten_where_they_stood(share):
    clf = fitted()
    core = clf._model.core
    rows, pieces = grid_rows(clf), {row.id: row.numbers for row in core.find(core.ids())}
    gone = clf.core_ids_[1 : 1 + share].tolist()
    assert all(holders(rows[key], [pieces[key]]) for key in gone)
    clf.forget(ids=gone)
    assert not any(any(pieces[key]) for key in gone)
    assert all(row.numbers is pieces[row.id] for row in core.find(core.ids()))  # the others stay where they are


def test_sums_and_weights_are_changed_in_place():
    clf = fitted()
    memory = clf._model
    H, weights, sums = memory.sums.H, memory.weights(), dict(memory.sums.by_label)
    clf.forget(ids=[key for key, label in zip(IDS, Y, strict=True) if label == 1])
    assert memory.sums.H is H
    assert memory.sums.by_label[0] is sums[0]
    assert not sums[1].any()  # the class has gone, and so has its sum
    assert not weights.any()
    clf.forget(ids=IDS)
    assert not sums[0].any()
    np.testing.assert_array_equal(H, memory.configuration.units * np.eye(7))


def test_weighted_sums_are_changed_in_place():
    clf = classifier(threshold=0.01, loss="squared").fit(
        X, Y, ids=IDS, sample_weight=np.where(np.arange(N) % 3, 1.0, 2.0)
    )
    weighted = clf._model.sums.weighted
    H, sums = weighted.H, dict(weighted.by_label)
    clf.forget(ids=[key for key, label in zip(IDS, Y, strict=True) if label == 1])
    assert clf._model.sums.weighted is weighted
    assert weighted.H is H
    assert weighted.by_label[0] is sums[0]
    assert not sums[1].any()


def test_learning_more_leaves_no_older_sums_behind():
    clf = classifier(threshold=0.0, loss="squared").fit(X[:50], Y[:50], ids=IDS[:50], sample_weight=np.full(50, 2.0))
    model = clf._model
    H, sums, weighted = model.sums.H, dict(model.sums.by_label), dict(model.sums.weighted.by_label)
    clf.partial_fit(X[50:], Y[50:], ids=IDS[50:])
    assert not H.any()
    assert all(model.sums.by_label[label] is total for label, total in sums.items())
    assert all(model.sums.weighted.by_label[label] is total for label, total in weighted.items())


def test_fit_overwrites_what_it_replaces():
    clf = fitted()
    memory = clf._model
    arrays = [memory.sums.H, memory.weights(), *memory.sums.by_label.values()]
    arrays += [np.frombuffer(row.numbers, dtype=np.uint8) for row in memory.core.find(memory.core.ids())]
    assert all(array.any() for array in arrays)
    clf.fit(X[:50], Y[:50])
    assert not any(array.any() for array in arrays)
    assert clf.n_core_ > 0


@pytest.mark.parametrize("by", ["ids", "subjects"])
@pytest.mark.parametrize("count", [1, 40])
def test_nothing_reachable_from_the_estimator_holds_a_forgotten_row(by, count):
    clf = fitted()
    rows = grid_rows(clf)
    gone = clf.core_ids_[:: clf.n_core_ // count][:count].tolist()
    names = {*gone, *(key.replace("row", "owner") for key in gone)}
    assert all(holders(rows[key], reachable(clf)) for key in gone)
    assert names <= strings(clf)
    clf.forget(**{by: gone if by == "ids" else [key.replace("row", "owner") for key in gone]})
    things = reachable(clf)
    for key in gone:
        assert not holders(rows[key], things)
    assert not names & strings(clf)


@pytest.mark.parametrize("loaded", [False, True])
def test_nothing_that_depends_on_the_bytes_of_a_file_is_reachable_once_rows_are_forgotten(loaded, tmp_path):
    """A checksum of the state with a row would tell which of some candidates that row was."""
    clf, path = fitted(), tmp_path / "model.erasable"
    clf.save(path)
    digest, checksum = clf.state_digest(), checksum_at(path)
    clf = load(path) if loaded else clf
    clf.forget(ids=clf.core_ids_[:1])
    assert not {digest, checksum} & strings(clf)


@pytest.mark.filterwarnings(
    "ignore"
)  # other packages, which other tests imported, warn when their objects are looked at
def test_no_array_in_the_process_holds_a_forgotten_row():
    clf = fitted()
    key = clf.core_ids_[5].item()
    row = grid_rows(clf)[key]

    def arrays():
        everything = {id(r): r for thing in gc.get_objects() for r in gc.get_referents(thing)}
        held = [a for a in everything.values() if isinstance(a, np.ndarray | bytearray) and a is not row]
        return [a for a in held if getattr(a, "size", 0) < 10**6]

    assert holders(row, arrays())
    clf.predict(X[:3])
    clf.forget(ids=key)
    gc.collect()
    assert not holders(row, arrays())


def everywhere():
    """The bytes of every array of the process that is not huge."""
    gc.collect()
    everything = {id(r): r for thing in gc.get_objects() for r in gc.get_referents(thing)}
    held = [a for a in everything.values() if isinstance(a, np.ndarray) and a.dtype != object and a.size < 10**6]
    return [np.ascontiguousarray(a).tobytes() for a in held]


@pytest.mark.filterwarnings("ignore")  # as above
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("failing", [None, MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize("scaling", ["flat", "spread"])
def test_weights_that_a_forget_begins_with_are_in_no_array_of_the_process_afterwards(
    classes, failing, scaling, monkeypatch
):
    clf = classifier(threshold=0.01, head_scaling=scaling).fit(X, make_classes(classes, N), ids=IDS)
    old = clf._model.weights()
    clf.predict(X[:3])
    forms = [w.astype(t).tobytes() for t in (np.float32, np.float64) for w in old]
    if scaling == "spread":  # in the coordinates in which they are solved for, too
        head, c = clf._model.head, clf._model.configuration
        of_columns = head.exponents(c, clf._model.core.rows(), None, clf._model.sums) - c.grid.bits
        forms += [np.ldexp(w.astype(np.float64), of_columns).tobytes() for w in old]
    assert sum(form in text for text in everywhere() for form in forms[:classes]) >= 1
    if failing is not None:

        def fail(*_):
            raise failing

        monkeypatch.setattr("erasable.core.logistic._certify", fail)
    gone = clf.core_ids_[5].item()
    with pytest.raises(KeyboardInterrupt) if failing is KeyboardInterrupt else nullcontext():
        clf.forget(ids=gone)
    assert gone not in clf.core_ids_
    assert ("ahead" in clf._model.cache) == (failing is None)
    assert not old.any()
    assert not any(form in text for text in everywhere() for form in forms)
    monkeypatch.undo()
    fresh = load_again(clf)
    fresh._model.drop_caches()
    np.testing.assert_array_equal(clf._model.weights(), fresh._model.weights())
    verify(clf)


def test_rows_that_were_not_selected_leave_no_trace():
    clf = fitted(threshold=0.05)
    core = set(clf.core_ids_.tolist())
    assert 20 < len(core) < N - 20
    things = reachable(clf)
    names = {name for name in strings(clf) if name.startswith("secret")}
    assert names == core | {key.replace("row", "owner") for key in core}
    everything = grid_rows(fitted(threshold=0.0))
    for key in set(IDS) - core:
        assert not holders(everything[key], things)


def test_the_number_of_rows_seen_is_not_kept():
    """A model that saw more rows and dropped them is the same model, down to its pickle."""
    clf = classifier().fit(X, Y, ids=IDS)
    kept = [IDS.index(key) for key in clf.core_ids_]
    fewer = classifier().fit(X[kept], Y[kept], ids=[IDS[i] for i in kept])
    assert pickle.dumps(clf) == pickle.dumps(fewer)
