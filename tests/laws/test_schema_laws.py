"""Raw tables through a schema: one digest from every container, and forgetting is refitting."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from erasable import ErasableClassifier, ModelFile, load, verify
from erasable.operations.learn import learn_table
from tests.schemas.raw import columns, draft, frames, table, write

PARAMETERS = {"loss": "logistic", "threshold": 0.2}


def learnt(tmp_path, source, schema, name="m.erasable", **options):
    path = tmp_path / name
    path.unlink(missing_ok=True)
    learn_table(path, source, schema=schema, parameters=PARAMETERS, **options)
    return load(path)


def in_memory(frame, schema):
    clf = ErasableClassifier(**PARAMETERS, feature_map=schema)
    named = columns()
    return clf.fit(frame, named["outcome"], ids=named["row_id"], subjects=named["person"])


def test_one_digest_from_every_container(tmp_path):
    found, schema = table(), draft()
    digest = in_memory(found, schema).state_digest()
    for form in ("raw.csv", "raw.csv.gz", "raw.parquet", "raw.arrow"):
        path = write(found, str(tmp_path / form))
        source = io.BytesIO(Path(path).read_bytes()) if form == "raw.arrow" else path
        model = learnt(tmp_path, source, schema)
        assert model.state_digest() == digest, form
        assert verify(model).digest == digest
        assert 0 < model.n_core_ < 240
    for name, frame in frames(found):
        assert in_memory(frame, schema).state_digest() == digest, name


def test_the_budget_and_the_rounds_change_nothing(tmp_path, monkeypatch):
    """Held to a few rows at a time, the file is read again and again, and each block encoded anew."""
    monkeypatch.setattr("erasable.models.blocks._FIRST_BYTES", 2_000)
    monkeypatch.setattr("erasable.models.blocks._FIRST_ROWS", 0)
    monkeypatch.setattr("erasable.tables.stream.BLOCK_BYTES", 4_000)
    found, schema = table(), draft()
    path = write(found, str(tmp_path / "raw.csv"))
    assert learnt(tmp_path, path, schema, budget_bytes=3_000).state_digest() == in_memory(found, schema).state_digest()


@pytest.mark.parametrize("form", ["raw.csv", "raw.parquet"])
def test_learning_and_forgetting_is_learning_the_rest(tmp_path, form):
    found, schema = table(), draft()
    path = write(found, str(tmp_path / form))
    model = learnt(tmp_path, path, schema)
    gone = sorted(set(model.model_.core.subjects()))[::3]
    file = ModelFile(tmp_path / "m.erasable")
    assert file.forget(subjects=gone).core_rows_removed >= len(gone) > 0
    left = set(load(tmp_path / "m.erasable").core_ids_.tolist())
    mask = [i in left for i in columns()["row_id"]]
    again = learnt(tmp_path, write(found.filter(mask), str(tmp_path / f"left.{form[4:]}")), schema, "again.erasable")
    assert (tmp_path / "m.erasable").read_bytes() == (tmp_path / "again.erasable").read_bytes()
    assert verify(again).core_rows == len(left)


def test_learning_more_takes_the_schema_of_the_file(tmp_path):
    found, schema = table(), draft()
    first, rest = write(found.slice(0, 100), str(tmp_path / "a.csv")), write(found.slice(100), str(tmp_path / "b.csv"))
    learn_table(tmp_path / "m.erasable", first, schema=schema, parameters=PARAMETERS)
    learn_table(tmp_path / "m.erasable", rest)
    clf = ErasableClassifier(**PARAMETERS, feature_map=schema)
    for part in (found.slice(0, 100), found.slice(100)):
        clf.partial_fit(part, part["outcome"].to_pylist(), part["row_id"].to_pylist(), part["person"].to_pylist())
    assert load(tmp_path / "m.erasable").state_digest() == clf.state_digest()


def test_a_stream_of_dataframes_is_learnt_in_blocks(tmp_path):
    found, schema = table(), draft()
    named = columns()

    class Part:
        def __init__(self, low):
            cut = slice(low, low + 60)
            self.X, self.y = found.slice(low, 60), named["outcome"][cut]
            self.ids, self.subjects = named["row_id"][cut], named["person"][cut]

    new = ErasableClassifier(**PARAMETERS, feature_map=schema)
    ModelFile(tmp_path / "m.erasable").learn([Part(low) for low in range(0, 240, 60)], new=new)
    assert load(tmp_path / "m.erasable").state_digest() == in_memory(found, schema).state_digest()


def test_text_that_was_read_from_a_pipe(tmp_path):
    found, schema = table(), draft()
    text = io.BytesIO(Path(write(found, str(tmp_path / "raw.csv"))).read_bytes())
    assert learnt(tmp_path, text, schema).state_digest() == in_memory(found, schema).state_digest()
