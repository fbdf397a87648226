"""Every member of the metadata of every kind of file, as it never is: no reader accepts what another one refuses."""

from __future__ import annotations

import itertools
import json
import math
import shutil
from pathlib import Path

import pytest
from sklearn.base import clone

from erasable.cli.app import run
from erasable.errors import ConfigurationError, StateFormatError, VerificationError
from erasable.estimators.files import code_of, estimator_of
from erasable.models import files as shards
from erasable.models.files import read_model
from tests.formats.make import LIMITS, MODELS
from tests.formats.tampering import closed, opened
from tests.formats.test_kept_files import KEPT, NEEDED
from verifier import erasable_verify

HERE = Path(__file__).parents[1] / "formats"
LARGE = 60_000  # bytes: such files have kinds of columns that smaller ones lack, and no further members
# Of another type, negative, zero, huge, fractional, no number, empty, spelt otherwise, or the name of something else.
VALUES = [
    *(None, True, False, 0, 1, -1, 5, 2**53, 1.5, "", "0", "-1", "007", "+5", str(2**52), str(2**128)),
    *("nan", "inf", "0x1.0p+0", "0x1.0000000000000p-1", "-0x1.0000000000000p+0", "-0x0.0p+0"),
    *("0x1.0000000000000p+1000", "row", "matrix", "balanced", "int", "nobody-knows-this", "independent"),
    *("named-learner", "lightgbm", "erasable-linear", [], [None], ["a"], ["0x1.0000000000000p+0"], {}, {"a": 1}),
]
# What the second verifier does not look into where it exits with 8, having stated that it did not check.
NOT_LOOKED_INTO = {
    "learner_parameters": "which parameters a learner has",
    "n_features": "how many columns a schema makes, where rows are stored as they were read",
    "raw_columns": "how many numbers a schema reads",
    **dict.fromkeys(["sampler", "core_set", "learner"], "what describes code of the caller's"),
}


def near(value):
    """Values that differ from a right one by little, or are another way to write it."""
    if isinstance(value, bool) or value is None:
        return []
    if isinstance(value, int):
        return [value - 1, value + 1, -value, str(value), float(value)]
    if isinstance(value, list):
        return (
            [
                value[::-1],
                value[:-1],
                value + value[-1:],
                [None] * len(value),
                *([v, *value[1:]] for v in near(value[0])[:3] if value),
            ]
            if value
            else []
        )
    if isinstance(value, dict):
        changed = [{**value, name: other} for name in value for other in (*near(value[name])[:3], None, [], 10**30)]
        return [*changed, {**value, "more": 1}, *({k: v for k, v in value.items() if k != name} for name in value)]
    if value.lstrip("-").isdigit():
        return [str(int(value) - 1), str(int(value) + 1), f"{value}.0", f" {value}"]
    if "0x" in value and "{" not in value:
        number = float.fromhex(value)
        return [
            math.nextafter(number, math.inf).hex(),
            math.nextafter(number, -1.0).hex(),
            value.upper(),
            (2 * number).hex(),
            number,
        ]
    return [f"{value}x", value.upper(), value.replace(":", ": ", 1)]


def kind_of(meta):
    """What tells one kind of file from another: files of one kind have the same rules."""
    if "shards" in meta:
        return "shards", meta["version"]
    moments = meta.get("moments")
    names = (meta.get(name) for name in ("format", "selection", "head", "loss", "kernel"))
    return *names, type(moments), moments == "matrix", bool(meta.get("class_shares")), log_map(meta) is not None


def log_map(meta):
    """The description of the log map, where rows went through it."""
    described = json.loads(meta.get("feature_map") or "{}").get("map", {})
    return described if described.get("map") == "log" else None


def chosen():
    """The smallest kept file of every kind."""
    found = {}
    for name in KEPT:
        raw = (HERE / f"{name}.erasable").read_bytes()
        if len(raw) < LARGE:
            kind = kind_of(opened(raw)[1])
            found.setdefault(kind, (len(raw), name))
            found[kind] = min(found[kind], (len(raw), name))
    return sorted(name for _, name in found.values())


def alterations(meta):
    """Which member is altered, and the metadata with it: every value, missing, swapped, or one member more."""
    names = sorted(set(meta) - {"checksum"})
    for name in names:
        for other in (*VALUES, *near(meta[name])):
            if repr(other) != repr(meta[name]):
                yield name, {**meta, name: other}
        yield name, {k: v for k, v in meta.items() if k != name}
    for name, other in itertools.pairwise(names):
        yield name, {**meta, name: meta[other], other: meta[name]}
    for name in ("unknown", "threshold", "shards", "kernel", "loss"):
        if name not in meta:
            yield name, {**meta, name: None}
    log = log_map(meta)
    for _, other in () if log is None else alterations(log):
        columns = other.get("n_features", log["n_features"])
        text = json.dumps({"map": other, "n_features": columns}, sort_keys=True, separators=(",", ":"))
        yield "feature_map", {**meta, "feature_map": text}


def read(path, like):
    """What ``load`` and ``verify`` make of a file; any other error than theirs is raised.

    Whether load accepts it, None where that depends on the code of the caller; and whether verify does.
    """
    try:
        model, _ = read_model(path, code_of(like))
    except StateFormatError:
        return False, False
    except ConfigurationError:
        return None, False
    verifies = True
    try:
        model.verify()
    except VerificationError:
        verifies = False
    try:
        estimator_of(model, like)
    except StateFormatError:
        return False, verifies
    return True, verifies


@pytest.fixture
def kept(request, tmp_path, monkeypatch):
    """The name of a kept file, and a copy of it."""
    name = request.param
    monkeypatch.setattr(erasable_verify, "estimate", lambda state: 0.0)  # which measures this machine
    if "sharded" in name:
        for limit, value in LIMITS.items():
            monkeypatch.setattr(shards, limit, value)
            monkeypatch.setattr(erasable_verify, limit, value)
        shutil.copytree(HERE / f".{name}.erasable.parts", tmp_path / f".{name}.erasable.parts")
    return name, Path(shutil.copy(HERE / f"{name}.erasable", tmp_path))


@pytest.mark.parametrize("kept", chosen(), indirect=True)
def test_no_reader_accepts_what_another_refuses(kept):
    name, path = kept
    header, meta, body = opened(path.read_bytes())
    like = clone(MODELS[name]()) if name in NEEDED and not name.startswith("mapped") else None
    for member, other in alterations(meta):
        path.write_bytes(closed(header, other, body))
        loads, verifies = read(path, like)
        code, found = erasable_verify.verdict(path, lambda line: None, lambda done, total: None, False)
        what = (member, other.get(member), found.get("reason"))
        assert loads or loads is None or not verifies, what
        if code == 8:
            assert loads is not False or member in NOT_LOOKED_INTO, what
        else:
            assert (code, loads is None) in ((0, False), (4, False), (4, True)), what
            assert verifies is (code == 0), what


@pytest.mark.parametrize("member", ["format", "selection", "head", "learner"])
@pytest.mark.parametrize("kept", ["learner-leverage-v2", "trees-schema-v2"], indirect=True)
def test_unknown_names_are_refused_by_all_with_code_4(kept, member, capsys):
    _, path = kept
    header, meta, body = opened(path.read_bytes())
    path.write_bytes(closed(header, {**meta, member: "nobody-knows-this"}, body))
    assert run(["verify", str(path)]) == 4
    assert "Traceback" not in capsys.readouterr().err
    assert erasable_verify.main(["--json", str(path)]) == 4
    assert json.loads(capsys.readouterr().out)["verified"] is False


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("kept", ["independent-balanced-v2"], indirect=True)
def test_commands_end_with_their_exit_codes(kept, value, capsys):
    """One kind of file: that a raw error is never shown follows from the types of errors above."""
    _, path = kept
    header, meta, body = opened(path.read_bytes())
    for member in ("mean_rarity", "scaling"):
        path.write_bytes(closed(header, {**meta, member: value}, body))
        code = run(["verify", str(path)])
        assert code in (0, 4)
        assert erasable_verify.main([str(path)]) == code
        assert "Traceback" not in capsys.readouterr().err
