"""Raw tables through a schema: one digest from every container, and forgetting is refitting."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from erasable import ErasableClassifier, ErasableRegressor, ModelFile, TableEncoder, load, verify
from erasable.errors import ConfigurationError, InputError
from erasable.operations.learn import Columns, LearnOptions, learn_table
from erasable.schemas import draft_schema
from erasable.tables import stream_table
from tests.schemas.raw import columns, draft, frames, table, write

PARAMETERS = {"loss": "logistic", "threshold": 0.2}


def learnt(tmp_path, source, schema, name="m.erasable", **options):
    path = tmp_path / name
    path.unlink(missing_ok=True)
    learn_table(path, source, Columns(schema=schema), parameters=PARAMETERS, **options)
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
    monkeypatch.setattr("erasable.models.row_source._FIRST_BYTES", 2_000)
    monkeypatch.setattr("erasable.models.row_source._FIRST_ROWS", 0)
    monkeypatch.setitem(stream_table.__kwdefaults__, "block_bytes", 4_000)
    found, schema = table(), draft()
    path = write(found, str(tmp_path / "raw.csv"))
    assert (
        learnt(tmp_path, path, schema, options=LearnOptions(budget_bytes=3_000)).state_digest()
        == in_memory(found, schema).state_digest()
    )


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
    learn_table(tmp_path / "m.erasable", first, Columns(schema=schema), parameters=PARAMETERS)
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


def priced():
    """The table with a number to predict, and its schema."""
    found = table(price=[10.0 * (age or 40) for age in columns()["age"]])
    roles = {"target": "price", "id": "row_id", "subject": "person", "ignore": ["outcome"]}
    return found, draft_schema(found, **roles, k=5).schema


@pytest.mark.parametrize("form", ["raw.csv", "raw.parquet", "raw.csv.gz"])
def test_so_it_is_for_numbers_to_predict(tmp_path, form):
    found, schema = priced()
    path, whole = write(found, str(tmp_path / form)), tmp_path / "m.erasable"
    learn_table(whole, path, Columns(schema=schema), parameters={"threshold": 0.2})
    gone = sorted(set(load(whole).model_.core.subjects()))[::3]
    assert ModelFile(whole).forget(subjects=gone).core_rows_removed >= len(gone) > 0
    left = set(load(whole).core_ids_.tolist())
    rest = write(found.filter([i in left for i in columns()["row_id"]]), str(tmp_path / f"left.{form[4:]}"))
    learn_table(tmp_path / "again.erasable", rest, Columns(schema=schema), parameters={"threshold": 0.2})
    assert whole.read_bytes() == (tmp_path / "again.erasable").read_bytes()
    assert verify(load(whole)).core_rows == len(left)


def test_a_regressor_takes_dataframes_and_the_range_of_the_schema():
    found, schema = priced()
    ends = schema.target_range[0]
    y = np.clip(found["price"].to_numpy(), *ends)
    digests = set()
    for _, frame in frames(found):
        reg = ErasableRegressor(feature_map=TableEncoder(schema), threshold=0.2)
        reg.fit(frame, y, ids=columns()["row_id"], subjects=columns()["person"])
        assert np.abs(reg.predict(frame) - y).max() < 100
        digests.add(reg.state_digest())
    assert len(digests) == 1
    named = ErasableRegressor(ends, feature_map=schema, threshold=0.2)
    named.fit(found, y, ids=columns()["row_id"], subjects=columns()["person"])
    assert named.state_digest() in digests
    with pytest.raises(InputError, match="outside"):
        ErasableRegressor(feature_map=schema).fit(found, np.append(y[1:], ends[1] + 1))
    with pytest.raises(ConfigurationError, match="differs from what the schema declares"):
        ErasableRegressor((0, 1), feature_map=schema).fit(found, y)
    with pytest.raises(ConfigurationError, match="target_range"):
        ErasableRegressor(feature_map=schema).fit(found, np.stack([y, y], axis=1))
