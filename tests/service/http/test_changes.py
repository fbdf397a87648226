"""What others do to the files of a running service: backups, lists, other commands, another service."""

from __future__ import annotations

import shutil
import uuid
from types import SimpleNamespace

import httpx
import pytest

from erasable import ErasableClassifier, ModelFile, load
from erasable.cli.app import run
from erasable.errors import StoreError
from erasable.service.http.app import create_app
from erasable.service.http.configuration import Configuration
from erasable.service.http.server import made_of
from erasable.service.settings import Settings
from erasable.service.tokens import SCOPES, make_token
from erasable.store import side_files
from tests.service.http.conftest import IDS, PEOPLE, TYPES, X, Y, inference, serving
from tests.waiting import PATIENCE, until


@pytest.fixture(scope="module")
def own(tmp_path_factory, rsa_files):
    """A service of its own, with child processes and a suppression list, for all tests of this file."""
    tmp_path = tmp_path_factory.mktemp("own")
    ErasableClassifier(threshold=0.05, feature_map=None).fit(X, Y, ids=IDS, subjects=PEOPLE).save(
        tmp_path / "credit.erasable"
    )
    configuration = Configuration(
        (tmp_path / "credit.erasable",),
        tmp_path / "service",
        opendsr_certificate=rsa_files[0],
        opendsr_key=rsa_files[1],
        processor_domain="erasable.example",
        suppression_list=tmp_path / "suppressed.list",
        deadline=PATIENCE,
        service=Settings(identity_types=TYPES, tick=0.02),
    )
    service, tokens, signer = made_of(configuration)
    token = make_token(tmp_path / "service" / "tokens.json", "all", SCOPES)
    app = create_app(service, tokens, configuration, signer)
    with service, serving(app) as base, httpx.Client(base_url=base, timeout=PATIENCE) as http:
        http.headers["Authorization"] = f"Bearer {token}"
        yield SimpleNamespace(http=http, path=tmp_path, configuration=configuration)


def stored(path):
    return {str(subject) for subject in load(path)._model.core.subjects()}


def erased(http, person):
    body = {
        "subject_request_id": str(uuid.uuid4()),
        "subject_request_type": "erasure",
        "submitted_time": "2026-01-02T15:00:00Z",
        "subject_identities": [{"identity_type": "email", "identity_value": person, "identity_format": "raw"}],
    }
    assert http.post("/v2/requests", json=body).status_code == 201
    where = f"/v2/requests/{body['subject_request_id']}"
    until(lambda: http.get(where).json()["request_status"] == "completed")


def test_who_was_erased_is_not_learnt_again_and_goes_again_after_a_restore(own):
    model, backup = own.path / "credit.erasable", own.path / "backup.erasable"
    person = sorted(stored(model))[0]
    shutil.copy(model, backup)
    erased(own.http, person)
    assert person not in stored(model)
    rows = f"f0,f1,f2,f3,label,id,who\n1,2,3,4,yes,new-1,{person}\n9,-9,9,9,no,new-2,somebody@example.org\n"
    learnt = own.http.post("/v1/learn?id=id&subject=who", content=rows, headers={"Content-Type": "text/csv"}).json()
    assert (learnt["rows"], learnt["rows_suppressed"]) == (1, 1)
    assert person not in stored(model)
    assert person in stored(backup)
    key = own.path / "service" / "operator.key"
    assert run(["replay", str(backup), "--list", str(own.path / "suppressed.list"), "--key", str(key)]) == 0
    assert person not in stored(backup)


@pytest.mark.parametrize("damage", ["gone", "garbage"])
def test_a_model_that_is_taken_away_is_said_and_goes_on_when_it_is_back(own, damage):
    model, away = own.path / "credit.erasable", own.path / "away"
    person = sorted(stored(model))[0]
    model.rename(away)
    if damage == "garbage":
        model.write_bytes(b"canary" * 100)
    until(lambda: own.http.get("/v2/health/ready").status_code == 503)
    assert own.http.get("/v1/health").json()["problem"]
    assert own.http.post("/v2/models/credit/infer", json=inference(X[:1])).status_code == 200
    state = own.http.get("/v1/state")
    assert state.status_code == 503
    assert state.headers["Retry-After"] == "1"
    assert str(own.path) not in state.text
    away.replace(model)
    until(lambda: own.http.get("/v2/health/ready").status_code == 200)
    erased(own.http, person)
    assert person not in stored(model)


def test_what_other_commands_change_is_noticed(own):
    """The last test: the service replays its list on the file meanwhile."""
    before = own.http.get("/v2/models/credit").json()["versions"]
    person = sorted(stored(own.path / "credit.erasable"))[0]
    with pytest.raises(StoreError, match="managed by erasable serve"):
        ModelFile(own.path / "credit.erasable").forget(subjects=[person])
    side_files(own.path / "credit.erasable").mark.unlink()
    ModelFile(own.path / "credit.erasable").forget(subjects=[person])
    until(lambda: own.http.get("/v2/models/credit").json()["versions"] != before)
    assert own.http.get("/v1/state").json()[0]["rows_stored"] == load(own.path / "credit.erasable").n_core_
