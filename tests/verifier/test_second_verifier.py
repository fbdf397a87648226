"""The second verifier: independent of the package, and of one mind with ``verify`` about every model."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import erasable
from erasable import ErasableClassifier, ErasableRegressor, load
from erasable.models import files as shards
from tests.formats.make import LIMITS
from tests.formats.models import CASES
from tests.formats.tampering import altered
from tests.verifier.pair import any_model, bytes_of, first, second
from verifier import erasable_verify

FILE = Path(erasable_verify.__file__)
KEPT = Path(__file__).parents[1] / "formats"


def test_it_imports_the_standard_library_and_nothing_else():
    nodes = list(ast.walk(ast.parse(FILE.read_text())))
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "." for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= set(sys.stdlib_module_names)


def test_no_three_lines_of_it_stand_in_the_package():
    """Written from the pages: what the two have in common is single lines of plain Python."""

    def threes(text):
        lines = [line.strip() for line in text.splitlines()]
        lines = [line for line in lines if len(line) > 12 and not line.startswith(("#", "import ", "from "))]
        return set(zip(lines, lines[1:], lines[2:], strict=False))

    own = threes(FILE.read_text())
    package = Path(erasable.__file__).parent
    assert [path.name for path in package.rglob("*.py") if own & threes(path.read_text())] == []


@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_file_is_what_the_pages_say(name, tmp_path):
    model = CASES[name].fitted()
    code, found = second(bytes_of(model), tmp_path)
    assert code == (8 if CASES[name].needed else 0)
    assert found["verified"] is not CASES[name].needed
    if not CASES[name].needed:
        assert found["digest"] == model.state_digest()
        assert found["core_rows"] == len(model.core_ids_)


@pytest.mark.parametrize("name", CASES)
def test_it_reads_the_same_names(name):
    model = CASES[name].fitted()
    meta, tensors = erasable_verify.read_container(bytes_of(model))
    ids, subjects = erasable_verify.read_names(meta, tensors, len(model.core_ids_))
    assert ids == model.core_ids_.tolist()
    said = [
        owners if isinstance(owners, tuple) else () if owners is None else (owners,)
        for owners in model.model_.snapshot().subjects
    ]
    assert subjects == said


@pytest.mark.parametrize("path", sorted(KEPT.glob("*.erasable")), ids=lambda path: path.stem)
def test_kept_files_hold(path, monkeypatch):
    if "sharded" in path.stem:
        for name, value in LIMITS.items():
            monkeypatch.setattr(erasable_verify, name, value)
    needed = path.stem.startswith(("general", "staged", "core-set", "kernel-function", "learner", "trees", "log-trees"))
    assert erasable_verify.main([str(path)]) == (8 if needed else 0)


@pytest.mark.parametrize("tens", range(24))
def test_it_agrees_about_hundreds_of_models(tens, tmp_path):
    for seed in range(10 * tens, 10 * tens + 10):
        model = any_model(seed)
        code, found = second(bytes_of(model), tmp_path)
        assert code == 0, (seed, found)
        assert found["digest"] == model.state_digest()
        assert first(bytes_of(model))


@pytest.mark.parametrize("options", [{"threshold": 0.1}, {"selection": "independent", "moments": np.eye(3) / 3}])
def test_nothing_left_holds(options, tmp_path):
    clf = ErasableClassifier(**options, feature_map=None).fit(np.eye(3), [0, 1, 0])
    clf.forget(ids=[0, 1, 2])
    code, found = second(bytes_of(clf), tmp_path)
    assert (code, found["core_rows"]) == (0, 0)


@pytest.mark.parametrize("made", ["sparse", "dense", "regression", "independent", "spread"])
@pytest.mark.parametrize("kind", ["int", "str", "bytes"])
def test_shards_are_what_the_page_says(kind, made, tmp_path, monkeypatch):
    """In the sparse state some rows are dense, so that some shards are."""
    limits = {"LARGEST_FILE": 300, "LARGEST_SHARD": 90}
    for name, value in limits.items():
        monkeypatch.setattr(shards, name, value)
        monkeypatch.setattr(erasable_verify, name, value)
    rng = np.random.default_rng(2)
    n, d = (60, 24) if made == "sparse" else (80, 4)
    X = rng.standard_normal((n, d))
    if made == "sparse":
        X *= rng.random((n, d)) < 0.08
        X[::7] = 1.0
    ids = [{"int": i - 30, "str": f"é{i}", "bytes": b"\0%d" % i}[kind] for i in range(n)]
    owners = [[None, f"o{i}", ["all", f"o{i}"]][i % 3] for i in range(n)]
    weights = np.where(np.arange(n) < n // 2, 1.0, 0.5)
    if made == "regression":
        model = ErasableRegressor((-9, 9), threshold=1e-9, feature_map=None).fit(
            X, X[:, 0], ids=ids, subjects=owners, allow_no_subject=True, sample_weight=weights
        )
    else:
        options = {"threshold": 1e-9}
        if made == "independent":
            options = {"selection": "independent", "rate": 0.9, "moments": np.eye(d) / d, "random_state": 1}
        if made == "spread":
            options["head_scaling"] = "spread"
        model = ErasableClassifier(**options, feature_map=None).fit(
            X, np.arange(n) % 3, ids, owners, allow_no_subject=True
        )
    model.forget(ids=ids[::9])
    path = tmp_path / "m.erasable"
    model.save(path)
    code, found = verdict_of(path)
    assert (code, found["digest"]) == (0, model.state_digest())
    assert found["format"] == {
        "independent": "erasable-model",
        "spread": "erasable-model",
        "regression": "erasable-regression-sharded",
    }.get(made, "erasable-linear-sharded")
    parts = sorted((tmp_path / ".m.erasable.parts").iterdir())
    assert len(parts) > 2
    layouts = {"rows" in erasable_verify.read_container(part.read_bytes())[1] for part in parts}
    assert layouts == ({True, False} if made == "sparse" else {True})
    monkeypatch.setattr(erasable_verify, "LARGEST_SHARD", 10**9)
    assert verdict_of(path)[1]["part"] == "shards"
    monkeypatch.setattr(erasable_verify, "LARGEST_SHARD", 90)
    monkeypatch.setattr(erasable_verify, "LARGEST_FILE", 10**9)
    assert verdict_of(path)[1]["part"] == "shards"
    monkeypatch.setattr(erasable_verify, "LARGEST_FILE", 300)
    parts[0].write_bytes(parts[1].read_bytes())
    assert verdict_of(path)[1]["part"] == "shards"
    parts[0].unlink()
    assert verdict_of(path)[0] == 5


def verdict_of(path):
    return erasable_verify.verdict(path, lambda line: None, lambda done, total: None, False)


# -- exact arithmetic: what the tests above may not reach ----------------------------------------------------------


def test_ties_are_decided_without_guesses(monkeypatch):
    """With guesses that are worth nothing, determinants decide, and decide the same."""
    H, g = [[6, 2], [2, 5]], [3, 1]
    exact = erasable_verify.Fraction(3 * (5 * 3 - 2 * 1) + 1 * (-2 * 3 + 6 * 1), 26)
    for P in ([[0.0, 0.0], [0.0, 0.0]], erasable_verify.float_inverse(H)):
        for move, sign in ((-1, 1), (0, 0), (1, -1)):
            limit = exact + erasable_verify.Fraction(move, 2**400)
            monkeypatch.setattr(erasable_verify, "float_inverse", lambda H, P=P: P)
            assert erasable_verify.compared(H, P, g, limit, erasable_verify.Fraction(1)) == sign


def test_a_weight_halfway_between_two_float32_is_rounded_to_even():
    one = erasable_verify.Fraction(1)
    H = [[2**25, 0], [0, 2**25]]
    found = erasable_verify.rounded_solution(H, [[0.0] * 2] * 2, [2**25 + 2, 2**25 + 6], one)
    assert found == [int(np.float32(b).view(np.int32)) for b in (1.0, 1.0 + 2**-22)]


@pytest.mark.parametrize("seed", range(3))
def test_rounding_to_float32_is_that_of_numpy(seed):
    rng = np.random.default_rng(seed)
    values = np.ldexp(rng.standard_normal(300), rng.integers(-152, 129, 300)).tolist()
    with np.errstate(over="ignore"):
        wanted = [int((np.float32(v) + np.float32(0)).view(np.uint32)) for v in values]
    assert [erasable_verify.float32_bits(erasable_verify.Fraction(v)) for v in values] == wanted


def test_a_guess_from_elsewhere_gives_the_same_logistic_weights():
    """Weights in the file are where Newton's method starts, and decide nothing."""
    model = CASES["logistic"].fitted()
    meta, tensors = erasable_verify.read_container(bytes_of(model))
    rows = erasable_verify.read_rows(meta, tensors)
    weights = tensors["weights"]
    stored = erasable_verify.take(tensors, "weights", weights.dtype, weights.shape)
    for guess in ([0] * len(stored), [0x7FC00000] * len(stored), [0x42C80000] * len(stored)):
        found = erasable_verify.logistic_weights(meta, rows, guess)
        assert [b for line in found for b in line] == list(stored)


# -- the command line ----------------------------------------------------------------------------------------------


def run(*arguments, **options):
    """In a process of its own, without this environment: nothing of ours can be imported."""
    return subprocess.run(
        [sys.executable, "-I", "-S", str(FILE), *map(str, arguments)], capture_output=True, text=True, **options
    )


def test_the_command_line_says_how_long_and_what_holds(tmp_path):
    path = tmp_path / "m.erasable"
    shutil.copy(KEPT / "linear-v1.erasable", path)
    said = run(path)
    assert said.returncode == 0
    lines = said.stdout.splitlines()
    assert "This takes about 0:00:01" in lines[1]
    assert [line.split()[0] for line in lines[2:6]] == ["layout", "decisions", "sums", "weights"]
    assert load(path).state_digest() in lines[6]
    assert lines[8].startswith("Proved: ")
    assert any(line.startswith("Not proved, ") for line in lines)
    found = json.loads(run("--json", path).stdout)
    assert (found["verified"], found["exit"]) == (True, 0)
    assert found["holds"] == ["layout", "decisions", "sums", "weights"]
    found = json.loads(run("--json", "--estimate", path).stdout)
    assert (found["verified"], found["holds"]) == (None, [])
    assert found["estimated_seconds"] > 0


def test_what_it_does_not_know_is_refused_by_name(tmp_path):
    raw = (KEPT / "linear-v1.erasable").read_bytes()
    for name, value, said in (
        ("version", 2, "version 2 of erasable-linear"),
        ("format", "erasable-tree", "'erasable-tree'"),
    ):
        code, found = second(altered(raw, lambda header, meta, n=name, v=value: meta.update({n: v})), tmp_path)
        assert code == 4
        assert said in found["reason"]
    for kept, said in (("general-v1", "erasable-general"), ("kernel-function-v1", "function of the caller's")):
        code, found = second((KEPT / f"{kept}.erasable").read_bytes(), tmp_path)
        assert (code, found["verified"]) == (8, False)
        assert said in found["reason"]


def test_every_end_has_its_exit_code(tmp_path):
    path = tmp_path / "m.erasable"
    path.write_bytes((KEPT / "linear-v1.erasable").read_bytes()[:-1] + b"\x7f")
    assert run(path).returncode == 4
    assert "It does not hold" in run(path).stdout
    assert run(tmp_path / "none.erasable").returncode == 5
    assert run(tmp_path).returncode == 5
    assert run().returncode == 2
    assert run(KEPT / "general-v1.erasable").returncode == 8
    helped = run("--help").stdout
    assert all(f"{code} " in helped for code in (0, 2, 4, 5, 8))
