"""``Predictions`` and ``write_records``: the model's own answers, in any size of block, whole files or none."""

from __future__ import annotations

import csv
import functools
import io
import json

import numpy as np
import pyarrow as pa
import pytest
from sklearn.datasets import dump_svmlight_file

from erasable import ErasableClassifier, ErasableKernelClassifier
from erasable.errors import ConfigurationError, InputError, NoRowsError
from erasable.operations.predict import Predictions, write_records
from erasable.tables import stream_table
from tests.formats.models import rows

N = 50
X = rows(N)


def text(columns):
    """A pipe of CSV text."""
    out = io.StringIO()
    table = csv.writer(out)
    table.writerow(columns)
    table.writerows(zip(*columns.values(), strict=True))
    return io.BytesIO(out.getvalue().encode())


def columns(**more):
    return {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], **more}


@pytest.fixture(scope="module")
def model():
    y = np.array(["x", "y", "z"])[(X[:, 0] > 0).astype(int) + (X[:, 1] > 1)]
    return ErasableClassifier(threshold=0.05, feature_names=["a", "b", "c"], feature_map=None).fit(X, y)


def test_records_are_the_answers_of_the_model(model):
    ids = [f"r{i}" for i in range(N)]
    found = list(Predictions(model, text(columns(key=ids)), id="key", probabilities=True))
    assert [r["id"] for r in found] == ids
    assert [r["prediction"] for r in found] == model.predict(X).tolist()
    P = np.array([[r[f"probability {c}"] for c in "xyz"] for r in found])
    assert P.tobytes() == model.predict_proba(X).tobytes()
    assert list(found[0]) == ["id", "prediction", "probability x", "probability y", "probability z"]
    assert all(type(v) in (str, float) for r in found for v in r.values())


def test_columns_are_found_by_name_and_others_left_alone(model):
    mixed = {"note": ["?"] * N, "c": X[:, 2], "a": X[:, 0], "z": [1] * N, "b": X[:, 1]}
    assert [r["prediction"] for r in Predictions(model, text(mixed))] == model.predict(X).tolist()


def test_without_names_the_columns_are_those_of_the_table(model):
    plain = ErasableClassifier(threshold=0.05, feature_map=None).fit(X, X[:, 0] > 0)
    found = list(Predictions(plain, text(columns())))
    assert [r["prediction"] for r in found] == plain.predict(X).tolist()
    assert type(found[0]["prediction"]) is bool
    with pytest.raises(InputError, match="4 columns of features and the model was made with 3"):
        list(Predictions(plain, text(columns(more=[1] * N))))


def test_blocks_of_any_size_give_the_same(model, monkeypatch):
    right = list(Predictions(model, text(columns())))
    for size in (1, 100, 1000):
        monkeypatch.setitem(stream_table.__kwdefaults__, "block_bytes", size)
        seen = []
        watch = functools.partial(note, seen)
        assert list(Predictions(model, text(columns()), progress=watch)) == right
        assert seen[-1] == N
        assert seen == sorted(seen)


def note(seen, done, total):
    seen.append(done)


def test_files_whose_columns_have_no_names_are_taken_in_order(model, tmp_path):
    np.savez(tmp_path / "d.npz", X=X, ids=np.arange(N))
    dump_svmlight_file(np.where(np.arange(3) == 2, 0.0, X), np.zeros(N), str(tmp_path / "d.svmlight"))
    found = list(Predictions(model, tmp_path / "d.npz"))
    assert [r["prediction"] for r in found] == model.predict(X).tolist()
    assert [r["id"] for r in found] == list(range(N))
    short = list(Predictions(model, str(tmp_path / "d.svmlight")))
    assert [r["prediction"] for r in short] == model.predict(np.where(np.arange(3) == 2, 0.0, X)).tolist()


def test_known_labels_stand_beside_predictions(model):
    kinds = model.predict(X)
    found = list(Predictions(model, text(columns(kind=kinds)), label="kind"))
    assert all(r["known"] == r["prediction"] for r in found)
    digits = ErasableClassifier(threshold=0.05, feature_names=["a", "b", "c"], feature_map=None).fit(
        X, np.where(X[:, 0] > 0, "1", "0")
    )
    found = list(Predictions(digits, text(columns(kind=digits.predict(X).astype(int))), label="kind"))
    assert all(r["known"] == r["prediction"] for r in found)  # texts, as the model's classes are
    typed = pa.table({**dict(zip("abc", X.T, strict=True)), "kind": digits.predict(X).astype(int)})
    scored = Predictions(digits, typed, label="kind")
    assert all(r["known"] == r["prediction"] for r in scored)  # the model may have learnt them from a CSV
    assert scored.scores().accuracy == 1


def test_a_kernel_model_predicts():
    kernel = ErasableKernelClassifier(gamma=0.1, feature_names=["a", "b", "c"]).fit(X, np.arange(N) % 2)
    assert [r["prediction"] for r in Predictions(kernel, text(columns()))] == kernel.predict(X).tolist()


def test_a_model_without_rows_and_a_table_without_columns(model):
    empty = ErasableClassifier(threshold=0.05, feature_names=["a", "b", "c"], feature_map=None).fit(X, np.arange(N) % 2)
    empty.forget(ids=range(N))
    with pytest.raises(NoRowsError):
        list(Predictions(empty, text(columns())))
    with pytest.raises(InputError):
        list(Predictions(model, text({"a": X[:, 0], "b": X[:, 1]})))


# -- writing -----------------------------------------------------------------------------------------------------

RECORDS = [{"id": 'a,"b"', "prediction": "é\n", "p": 0.1}, {"id": "", "prediction": "=1+1", "p": 1e-300}]


def test_csv_and_json_lines_hold_what_was_written(tmp_path):
    for name in ("p.csv", "P.CSV"):
        assert write_records(iter(RECORDS), tmp_path / name) == 2
        with open(tmp_path / name, newline="", encoding="utf-8") as file:
            found = list(csv.DictReader(file))
        assert [{**r, "p": float(r["p"])} for r in found] == RECORDS
    for name in ("p.jsonl", "p.json"):
        assert write_records(iter(RECORDS), str(tmp_path / name)) == 2
        lines = (tmp_path / name).read_text(encoding="utf-8").splitlines()
        assert [json.loads(line) for line in lines] == RECORDS


@pytest.mark.parametrize("out", [None, "-"])
def test_standard_output_gets_csv(out, capsys):
    assert write_records(RECORDS[1:], out) == 1
    assert capsys.readouterr().out == "id,prediction,p\n,=1+1,1e-300\n"


def test_a_failure_half_way_leaves_what_was_there(tmp_path):
    def broken():
        yield from RECORDS
        raise InputError("row three")

    (tmp_path / "p.csv").write_text("old")
    for name in ("p.csv", "q.jsonl"):
        with pytest.raises(InputError):
            write_records(broken(), tmp_path / name)
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"p.csv": "old"}


def test_an_ending_that_is_not_known_is_refused_before_anything_is_read(tmp_path):
    def never():
        raise AssertionError
        yield {}

    with pytest.raises(ConfigurationError, match=r"\.csv, \.jsonl"):
        write_records(never(), tmp_path / "p.xlsx")


def test_not_a_number_is_not_written_as_json(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write_records([{"p": float("nan")}], tmp_path / "p.jsonl")
    assert not list(tmp_path.iterdir())
