"""Names in several spellings: where a schema declares normalisation, learning and forgetting know them as one."""

from __future__ import annotations

import hashlib
import json
import unicodedata
import uuid
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable import ErasableClassifier, ModelFile, Schema, load, verify
from erasable.audit.keys import new_key
from erasable.audit.receipts import check_receipt
from erasable.cli.app import run
from erasable.core.names import STEPS, normalise
from erasable.engines import Local
from erasable.errors import ConfigurationError, InputError
from erasable.models.passes import learn_rows
from erasable.operations.learn import Columns, LearnOptions, learn_table
from erasable.operations.scan import scan_for
from erasable.service.service import ErasureService
from erasable.service.settings import Settings
from erasable.tables import stream_table

TEXT = """version = 1

[identity]
id = ["casefold"]
subject = ["trim", "nfc", "casefold"]

[columns.x]
kind = "number"
range = [-3, 3]

[columns.town]
kind = "category"
values = ["Bern", "Oslo"]

[columns.name]
role = "subject"

[columns.row]
role = "id"

[columns.label]
role = "label"
"""
SCHEMA = Schema.parse(TEXT)
NAMES = ["\u00c9va Lund", "ole@ex.org", "Stra\u00dfe", "\u1e9e\u0345x", "9-A"]
N = 20
KEY = new_key()


def respelt(name):
    """Other spellings of a name."""
    forms = [name, name.upper(), name.casefold(), f" {name}\t", unicodedata.normalize("NFD", name)]
    found = {*forms, unicodedata.normalize("NFD", f"\u00a0{name.upper()}")}
    return sorted(spelling for spelling in found if normalise(spelling, STEPS) == normalise(name, STEPS))


def frame(spell=lambda name: name, names=NAMES):
    rows = pd.DataFrame(
        {
            "x": np.random.default_rng(5).uniform(-3, 3, N),
            "town": ["Bern", "Oslo", "Rome", None] * (N // 4),
            "name": [NAMES[i % len(NAMES)] for i in range(N)],
            "row": [f"Row-{i}" for i in range(N)],
            "label": ["yes", "no"] * (N // 2),
        }
    )
    rows = rows[rows["name"].isin(names)].reset_index(drop=True)
    return rows.assign(name=[spell(name) for name in rows["name"]])


def fitted(rows):
    clf = ErasableClassifier(threshold=0.0, feature_map=SCHEMA)
    return clf.fit(rows, rows["label"], ids=rows["row"].tolist(), subjects=rows["name"].tolist())


def without(*names):
    return fitted(frame(names=[name for name in NAMES if name not in names])).state_digest()


def test_a_schema_says_it_in_one_text_and_without_it_as_before():
    assert SCHEMA.text == TEXT
    other = Schema(SCHEMA.columns, identity={"subject": ["casefold", "nfc", "trim"], "id": ("casefold",)})
    assert other == SCHEMA
    plain = Schema(SCHEMA.columns, identity={"subject": []})
    assert plain == Schema(SCHEMA.columns) != SCHEMA
    assert "identity" not in plain.text


@given(st.data())
def test_forgetting_any_spelling_is_refitting_without_the_rows(data):
    learnt = fitted(frame(lambda name: data.draw(st.sampled_from(respelt(name)))))
    assert learnt.state_digest() == fitted(frame()).state_digest()
    gone = data.draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    report = learnt.forget(subjects=[data.draw(st.sampled_from(respelt(name))) for name in gone])
    assert (report.not_stored, report.core_rows_removed) == (0, len(gone) * N // len(NAMES))
    assert learnt.state_digest() == without(*gone)
    assert verify(learnt).digest == learnt.state_digest()


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_files_and_commands_know_the_spellings_as_one(tmp_path, monkeypatch, capsys, kind):
    monkeypatch.chdir(tmp_path)
    rows = frame(lambda name: f" {name.upper()}")
    rows.to_csv("rows.csv", index=False) if kind == ".csv" else rows.to_parquet("rows.parquet")
    (tmp_path / "schema.toml").write_text(TEXT, encoding="utf-8")
    options = ["--schema", "schema.toml", "--threshold", "0"]
    assert run(["learn", f"rows{kind}", "-o", "m.erasable", *options]) == 0
    assert load("m.erasable").state_digest() == fitted(frame()).state_digest()
    capsys.readouterr()
    assert run(["inspect", "m.erasable", "--subject", "  OLE@ex.org", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == N // len(NAMES)
    assert run(["keys", "new", "-o", "signer"]) == 0
    signing = ["--receipt", "receipt.json", "--key", "signer.pem"]
    assert run(["forget", "m.erasable", "--subject", "E\u0301va lund ", *signing]) == 0
    assert "not stored" not in capsys.readouterr().err
    assert run(["receipt", "verify", "receipt.json", "--key", "signer.pub.pem", "--state", "m.erasable"]) == 0
    assert "ids are normalised by casefold; subjects are normalised by trim, nfc, casefold" in capsys.readouterr().out
    (tmp_path / "leavers.txt").write_text(" Ole@EX.org \n", encoding="utf-8")
    assert run(["forget", "m.erasable", "--subjects-file", "leavers.txt", "--id", "ROW-2"]) == 0
    left = frame(names=[name for name in NAMES if name not in NAMES[:2]])
    assert load("m.erasable").state_digest() == fitted(left[left["row"] != "Row-2"]).state_digest()


def test_engines_and_blocks_that_are_read_again_and_again_normalise_alike(tmp_path, monkeypatch):
    shouted = frame(str.upper).assign(row=[f"ROW-{i}" for i in range(N)])
    monkeypatch.setattr("erasable.models.row_source._FIRST_BYTES", 100)
    monkeypatch.setattr("erasable.models.row_source._FIRST_ROWS", 0)
    monkeypatch.setitem(stream_table.__kwdefaults__, "block_bytes", 100)
    monkeypatch.setitem(learn_rows.__kwdefaults__, "budget_bytes", 200)
    clf = ErasableClassifier(threshold=0.0, feature_map=SCHEMA, engine=Local(threads=1))
    clf.fit(shouted, shouted["label"], ids=shouted["row"].tolist(), subjects=shouted["name"].tolist())
    assert clf.state_digest() == fitted(frame()).state_digest()
    path = tmp_path / "m.erasable"
    columns, few = Columns(schema=SCHEMA), LearnOptions(budget_bytes=200)
    learn = partial(learn_table, path, columns=columns, parameters={"threshold": 0.0}, options=few)
    learn(write(tmp_path, shouted))
    assert load(path).state_digest() == clf.state_digest()
    path.unlink()
    shouted.loc[N - 1, "row"] = "row-0"
    with pytest.raises(InputError, match="distinct"):
        learn(write(tmp_path, shouted))


def served(folder, models, **settings):
    settings = Settings(identity_types={"name": "subject", "row": "id"}, **settings)
    return ErasureService(models, folder / "ledger", signer=KEY, operator_key=b"o" * 32, settings=settings)


def erased(service, *named):
    """The receipts of a request that names these, each a type, a format and a value."""
    request = str(uuid.uuid4())
    service.accept(request, "erasure", [service.identity(*one) for one in named], request.encode())
    service.worker.commit()
    service.worker.sign()
    return {name: check_receipt(text, KEY.public) for name, text in service.receipts(request).items()}


@pytest.mark.parametrize("format", ["raw", "sha256"])
def test_the_service_knows_the_spellings_as_one(tmp_path, format):
    """Of a model whose schema declares them, and of one that stores names in whatever spelling they came."""
    declared, plain = (tmp_path / f"{name}.erasable" for name in ("declared", "plain"))
    rows = frame(lambda name: respelt(name)[-1])
    fitted(rows).save(declared)
    mixed = [respelt(name)[i % 2] for i, name in enumerate(rows["name"])]
    X, ids = rows[["x"]].to_numpy(), [*range(N)]
    ErasableClassifier(threshold=0.0).fit(X, rows["label"], ids=ids, subjects=mixed).save(plain)
    service = served(tmp_path, {"declared": declared, "plain": plain})
    service.start(threads=False)
    name, value = NAMES[0], f" {NAMES[0].upper()} "
    if format == "sha256":
        value = hashlib.sha256(normalise(name, STEPS).encode()).hexdigest()
    receipts = erased(service, ("name", format, value))
    service.stop()
    assert load(declared).state_digest() == without(name) == receipts["declared"].state_after
    left = [i for i, owner in enumerate(rows["name"]) if normalise(owner, STEPS) != normalise(name, STEPS)]
    again = ErasableClassifier(threshold=0.0)
    again.fit(X[left], rows["label"][left], ids=left, subjects=[mixed[i] for i in left])
    assert load(plain).state_digest() == again.state_digest() == receipts["plain"].state_after
    assert receipts["declared"].normalisation == SCHEMA.identity
    assert receipts["plain"].normalisation == {"subject": STEPS}


def test_a_setting_normalises_and_must_agree_with_the_schemas(tmp_path):
    path = tmp_path / "m.erasable"
    fitted(frame()).save(path)
    for identity in ({"subject": ["trim"]}, {"id": ["nfc"]}):
        with pytest.raises(ConfigurationError, match="the schema of m normalises"):
            served(tmp_path, {"m": path}, identity=identity).start(threads=False)
    path.unlink()
    ErasableClassifier(threshold=0.0).fit([[1.0], [2.0]], [0, 1], subjects=[" lead@ex.org", "Lead@ex.org"]).save(path)
    service = served(tmp_path, {"m": path}, identity={"subject": ["trim"]})
    service.start(threads=False)
    receipt = erased(service, ("name", "raw", "lead@ex.org "))["m"]
    assert (receipt.normalisation, receipt.model) == ({"subject": ("trim",)}, "m")
    assert load(path).model_.core.subjects() == ["Lead@ex.org"]
    service.stop()


def test_a_model_whose_schema_declares_spellings_may_come_while_the_service_runs(tmp_path):
    path, rows = tmp_path / "m.erasable", frame()
    plain = ErasableClassifier(threshold=0.0).fit(rows[["x"]].to_numpy(), rows["label"], subjects=rows["name"].tolist())
    plain.save(path)
    for identity, steps in (({}, STEPS), ({"subject": ["trim"]}, None)):
        service = served(tmp_path, {"m": path}, identity=identity)
        service.start(threads=False)
        assert service.identity("name", "raw", "Ann").steps == tuple(identity.get("subject", ()))
        fitted(rows).save(path, overwrite=True)
        service._comparing.once()
        assert service.health().ready == (steps is not None)
        if steps is None:
            with pytest.raises(ConfigurationError, match="the schema of m normalises"):
                service.identity("name", "raw", "Ann")
        else:  # so the suppression list holds the name as that model compares it
            assert service.identity("name", "raw", "Ann").steps == steps
        service.stop()
        plain.save(path, overwrite=True)


def test_without_a_declaration_the_service_compares_characters_and_refuses_doubtful_names(tmp_path):
    path = tmp_path / "m.erasable"
    people = [" lead@ex.org", "lead@ex.org", "Lead@ex.org"]
    ErasableClassifier(threshold=0.0).fit([[1.0], [2.0], [3.0]], [0, 1, 1], subjects=people).save(path)
    service = served(tmp_path, {"m": path})
    service.start(threads=False)
    for value, found in ((" lead@ex.org", "a space"), ("", "1 to"), ("a\nb", "a line break"), ("\ud800", "UTF-8")):
        with pytest.raises(InputError, match=found) as caught:
            service.identity("name", "raw", value)
        assert "lead" not in str(caught.value)
    receipt = erased(service, ("name", "raw", "LEAD@ex.org"))["m"]
    assert (receipt.normalisation, str(receipt.asked)) == (
        {},
        "1 identity (raw), 9 to 16 characters: small letters, capitals, other characters",
    )
    assert {*load(path).model_.core.subjects()} == {*people}
    erased(service, ("name", "sha256", hashlib.sha256(b" lead@ex.org").hexdigest()))
    assert {*load(path).model_.core.subjects()} == {*people[1:]}
    service.stop()


def test_a_request_is_carried_out_by_the_normalisation_it_was_accepted_with(tmp_path):
    path = tmp_path / "m.erasable"
    ErasableClassifier(threshold=0.0).fit([[1.0], [2.0]], [0, 1], subjects=["Ann", "bob"]).save(path)
    service = served(tmp_path, {"m": path}, identity={"subject": ["casefold"]})
    service.start(threads=False)
    request = str(uuid.uuid4())
    service.accept(request, "erasure", [service.identity("name", "raw", "ANN")], b"body")
    service._ledger.close()  # as after a kill
    again = served(tmp_path, {"m": path})
    again.start(threads=False)
    again.worker.commit()
    again.worker.sign()
    receipt = check_receipt(again.receipts(request)["m"], KEY.public)
    assert (receipt.normalisation, load(path).model_.core.subjects()) == ({"subject": ("casefold",)}, ["bob"])
    again.stop()


def test_rows_sent_again_and_names_on_a_list_are_known_in_any_spelling(tmp_path):
    path = tmp_path / "m.erasable"
    parameters = {"threshold": 0.0}
    learn_table(path, write(tmp_path, frame()), Columns(schema=SCHEMA), parameters=parameters)
    again = frame().assign(row=[f"ROW-{i}" for i in range(N)])
    assert learn_table(path, write(tmp_path, again), options=LearnOptions(skip_known=True)).report.rows_known == N
    assert learn_table(path, write(tmp_path, again), options=LearnOptions(replace=True)).report.rows_replaced == N
    assert load(path).state_digest() == fitted(frame()).state_digest()
    path.unlink()
    asked = []

    def on_the_list(ids, subjects):
        asked.append((ids, subjects))
        return [name == "ole@ex.org" for name in subjects]

    shouted = write(tmp_path, frame(str.upper))
    options = LearnOptions(suppressed=on_the_list)
    learn_table(path, shouted, Columns(schema=SCHEMA), parameters=parameters, options=options)
    assert load(path).state_digest() == without("ole@ex.org")
    assert asked[0][0][0] == "row-0"


def test_a_scan_finds_the_names_as_the_model_stores_them(tmp_path):
    (tmp_path / "models").mkdir()
    clf = fitted(frame())
    clf.save(tmp_path / "models" / "m.erasable")
    gone = write(tmp_path, frame(lambda name: f" {name.upper()}", NAMES[1:2]))
    scanned = {"label": "label", "id": "row", "subject": "name", "schema": SCHEMA}
    found = scan_for(tmp_path / "models", gone, **scanned)
    assert sum(remain.what == "subject" for remain in found.remains) == N // len(NAMES)
    clf.forget(subjects=[NAMES[1].upper()])
    clf.save(tmp_path / "models" / "m.erasable")
    assert scan_for(tmp_path / "models", gone, **scanned).clean


def write(tmp_path, rows):
    rows.to_csv(tmp_path / "rows.csv", index=False)
    return tmp_path / "rows.csv"


def test_ids_that_become_one_are_refused_and_nothing_changes():
    rows = frame()
    rows.loc[3, "row"] = "ROW-0"
    with pytest.raises(InputError, match="distinct"):
        fitted(rows)
    clf = fitted(frame())
    before = clf.state_digest()
    with pytest.raises(InputError, match="already present"):
        clf.partial_fit(rows[3:4], rows["label"][3:4], ids=["ROW-0"], subjects=["x"])
    assert clf.state_digest() == before


def test_subjects_of_one_row_that_become_one_count_once():
    rows = frame()
    clf = ErasableClassifier(threshold=0.0, feature_map=SCHEMA)
    clf.fit(rows, rows["label"], ids=rows["row"].tolist(), subjects=[[n, n.upper(), f"{n} "] for n in rows["name"]])
    assert clf.state_digest() == fitted(rows).state_digest()


def test_without_a_declaration_spelling_counts(tmp_path):
    clf = ErasableClassifier(threshold=0.0).fit([[1.0], [2.0]], ["a", "b"], subjects=["Ann", "ann "])
    assert clf.forget(subjects=["ann", " Ann", "ANN"]).not_stored == 3
    clf.save(tmp_path / "m.erasable")
    file = ModelFile(tmp_path / "m.erasable")
    assert file.spelling() == {}
    assert file.forget(subjects=["ann "]).core_rows_removed == 1
