"""The marks of a service at its models: commands refuse and name the request; a second service does not start."""

from __future__ import annotations

import errno

import pytest

from erasable.cli.app import run
from erasable.errors import BusyError, StoreError
from erasable.operations.model_file import ModelFile
from erasable.service.service import ErasureService
from erasable.store import Disk, side_files
from tests.service.conftest import KEY, OPERATOR, committed

AT = "https://erase.example"


def marks(models):
    return [path for path in models.values() if side_files(path).mark.exists()]


@pytest.mark.parametrize("processes", [False, True])
def test_commands_refuse_to_change_a_served_model_and_it_stays_ready(opened, models, capsys, processes):
    service = opened(managed_at=AT, processes=processes)
    before = models["left"].read_bytes()
    assert run(["forget", str(models["left"]), "--subject", "person-3"]) == 5
    assert f"erasable request --url {AT} --token-file TOKEN --file LIST" in " ".join(capsys.readouterr().err.split())
    assert models["left"].read_bytes() == before
    committed(service, "person-3")  # the service itself goes on changing them
    assert models["left"].read_bytes() != before
    service.worker.compare()
    assert service.health().ready
    service.stop()
    assert marks(models) == []
    ModelFile(models["left"]).forget(subjects=["person-4"])


def test_a_second_service_on_a_model_does_not_start_and_leaves_no_mark(opened, models, tmp_path, monkeypatch):
    monkeypatch.setattr("erasable.store._marks._PATIENCE", 0.05)
    service = opened(managed_at=AT)
    own = tmp_path / "own.erasable"
    own.write_bytes(models["left"].read_bytes())
    served = {"own": own, "right": models["right"]}
    second = ErasureService(
        served, tmp_path / "second", signer=KEY, operator_key=OPERATOR, managed_at="https://b.example"
    )
    with pytest.raises(BusyError, match=f"right.erasable is managed by erasable serve .{AT}. already"):
        second.start(threads=False)
    assert marks({"own": own, **models}) == [*models.values()]
    service.stop()
    second.start(threads=False)
    second.stop()
    assert marks({"own": own, **models}) == []


def test_a_start_that_fails_leaves_no_mark_and_a_mark_of_a_killed_service_is_taken_over(opened, models, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("erasable.service.service.Ledger", lambda *_, **__: (_ for _ in ()).throw(StoreError("canary")))
        with pytest.raises(StoreError, match="canary"):
            opened(managed_at=AT)
    assert marks(models) == []
    left = side_files(models["left"]).mark
    left.write_text('{"by": "erasable serve", "ask": "https://old.example", "id": "x"}')
    opened(managed_at=AT)
    assert AT in left.read_text()


def test_on_a_full_disk_it_starts_and_marks_its_models_once_there_is_room(opened, models, monkeypatch):
    opened(managed_at=AT)  # whose ledger exists from now on
    with monkeypatch.context() as full:
        full.setattr(Disk, "write", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
        service = opened(managed_at=AT)
        assert not service.health().ready
        assert marks(models) == []
    service._probe()
    assert service.health().ready
    assert marks(models) == [*models.values()]
    committed(service, "person-3")
    service.stop()
    assert marks(models) == []


def test_a_service_without_an_address_sets_no_mark(service, models):
    assert marks(models) == []
