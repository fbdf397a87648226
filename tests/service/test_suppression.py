"""Nobody who was erased is learnt again, and a model from a backup forgets those who were erased since."""

from __future__ import annotations

import csv
import hashlib
import hmac
import itertools
import json
import pickle
from datetime import UTC, datetime

import numpy as np
import pytest

from erasable import ErasableClassifier, ModelFile, verify
from erasable.cli.app import run
from erasable.errors import ConfigurationError, InputError, StoreError, VerificationError
from erasable.models.files import read_model
from erasable.operations.inspect import inspect
from erasable.service.requests import FORMATS, Identity, in_format, keys_in
from erasable.service.settings import Settings
from erasable.service.suppression import SuppressionList, read_key, read_list, replay
from tests.service.conftest import asked, committed, saved
from tests.service.test_ledger import old_line

KEY, NOW = b"k" * 32, datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def listed(tmp_path):
    return SuppressionList(tmp_path / "suppressed.list", KEY)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("key", ["ann", 17, b"\x01\x02", "é"])
def test_whoever_was_named_in_any_format_is_held_in_their_role(listed, format, key):
    listed.add([Identity("subject", format, in_format(key, format))], NOW)
    assert listed.holds("subject", key)
    assert not listed.holds("id", key)
    assert not listed.holds("subject", "bob")
    if isinstance(key, int):
        assert listed.holds("subject", str(key))  # as an identity it is written so


def test_a_normalised_name_is_held_in_all_its_spellings_and_no_other_one_is(listed, tmp_path):
    steps = ("trim", "casefold")
    listed.add([Identity("subject", "raw", "Bob")], NOW)  # as before there was a normalisation
    listed.add([Identity("subject", "raw", " Ann@ex.org", steps)], NOW)
    listed.add([Identity("subject", "sha256", in_format("eve", "sha256"), steps)], NOW)
    lasting = SuppressionList(tmp_path / "suppressed.list", KEY)
    for one in (listed, lasting, pickle.loads(pickle.dumps(lasting, 5))):
        assert [one.holds("subject", name) for name in ("ANN@ex.org", "ann@ex.org ", "Eve", "Bob")] == [True] * 4
        assert [one.holds("subject", name) for name in ("bob", " Bob", "ann")] == [False] * 3
        assert not one.holds("id", "ann@ex.org")


@pytest.mark.parametrize("steps", [(), ("trim",), ("trim", "nfc", "casefold")])
@pytest.mark.parametrize(
    "stored", [["Ann-1", "ann-1", "ABCD", "abcd", "17"], [b"\xab\xcd", b"\x17", b"ABCD"], [17, 18]]
)
def test_the_list_holds_whom_a_request_names_and_nobody_else(tmp_path, stored, steps):
    saved(tmp_path / "model", people=(stored * 60)[:60])
    model, _ = read_model(tmp_path / "model")
    for format, given in itertools.product(FORMATS, ["Ann-1", "ABCD", "AbCd", "abcd", "17"]):
        listed = SuppressionList(tmp_path / f"{format}-{given}", KEY)
        who = Identity("subject", format, in_format(given, format), steps)
        listed.add([who], NOW)
        assert set(listed.stored_in(model)[1]) == set(keys_in(model, [who])[1])
        if format == "raw" and isinstance(stored[0], bytes) and given.lower() == "abcd":
            assert listed.stored_in(model)[1] == [b"\xab\xcd"]  # digits of bytes may be capitals


def test_the_list_lasts_holds_no_names_and_needs_its_key(listed, tmp_path):
    listed.add([Identity("subject", "raw", "canary-ann"), Identity("id", "raw", "canary-row")], NOW)
    listed.add([Identity("subject", "raw", "canary-ann")], NOW)
    data = (tmp_path / "suppressed.list").read_bytes()
    assert b"canary" not in data
    assert hashlib.sha256(b"canary-ann").hexdigest().encode() not in data
    assert data.count(b"2026-01-02T00:00:00") == len(listed) == 2
    again = SuppressionList(tmp_path / "suppressed.list", KEY)
    assert again.holds("subject", "canary-ann")
    with pytest.raises(InputError, match="another key"):
        SuppressionList(tmp_path / "suppressed.list", b"x" * 32)


def crossed(listed):
    """The list as another process gets it, and how much of it went by itself."""
    apart = []
    head = pickle.dumps(listed, 5, buffer_callback=apart.append)
    return pickle.loads(head, buffers=apart), len(head), [len(part.raw()) for part in apart]


def test_it_crosses_to_another_process_in_one_piece_as_it_is_then(listed):
    for count in (0, 1, 1000):
        listed.add([Identity("subject", "raw", f"person-{i}") for i in range(count)], datetime.now(UTC))
        found, head, apart = crossed(listed)
        assert len(found) == len(listed) >= count
        assert all(found.holds("subject", f"person-{i}") for i in range(count))
        assert not found.holds("subject", "person-1000")
        assert head < 1000
        assert len(apart) == 1
        assert len(pickle.loads(pickle.dumps(found, 5))) == len(listed)  # in a message with the rest, and once more


def test_rows_are_those_of_ids_or_of_any_subject(listed):
    listed.add([Identity("subject", "raw", "ann"), Identity("id", "raw", "3")], NOW)
    assert listed.rows_of(np.arange(5), None) == [False, False, False, True, False]
    assert listed.rows_of(None, ["ann", None, ["bob", "ann"]]) == [True, False, True]
    assert listed.rows_of([1, 3], ["ann", "bob"]) == [True, True]
    assert listed.rows_of(None, None) == []


class Block:
    def __init__(self, X, ids, subjects):
        self.X, self.y, self.ids, self.subjects, self.weights = X, X[:, 0] > 0, ids, subjects, None


@pytest.mark.parametrize("skip_known", [False, True])
def test_a_model_that_passes_over_rows_is_that_of_the_others(listed, tmp_path, skip_known):
    X = np.random.default_rng(1).standard_normal((80, 3))
    ids, people = [f"row-{i}" for i in range(80)], [f"person-{i % 20}" for i in range(80)]
    gone = [i for i in range(80) if i % 20 == 3 or i == 50]
    kept = [i for i in range(80) if i not in gone]
    listed.add([Identity("subject", "raw", "person-3"), Identity("id", "raw", "row-50")], NOW)
    new, path = ErasableClassifier(threshold=0.02, feature_map=None), tmp_path / "m.erasable"
    file = ModelFile(path)
    report = file.learn([Block(X[:40], ids[:40], people[:40])], new=new, suppressed=listed.rows_of)
    assert (report.rows, report.rows_suppressed) == (38, 2)
    second = [Block(X[20:], ids[20:], people[20:])] if skip_known else [Block(X[40:], ids[40:], people[40:])]
    report = file.learn(second, skip_known=skip_known, suppressed=listed.rows_of)
    assert report.rows_suppressed == (4 if skip_known else 3)
    plain = ErasableClassifier(threshold=0.02, feature_map=None)
    for part in ([i for i in kept if i < 40], [i for i in kept if i >= 40]):
        plain.partial_fit(X[part], X[part, 0] > 0, ids=[ids[i] for i in part], subjects=[people[i] for i in part])
    stored = {row["id"] for row in inspect(path, rows=True).rows}
    assert not stored & {ids[i] for i in gone}
    if not skip_known:  # rows that were offered before and not kept are decided again
        assert inspect(path).digest == plain.state_digest()
    verify(file.model)


def test_a_table_of_none_but_listed_people_changes_nothing(listed, tmp_path):
    saved(tmp_path / "m")
    before = inspect(tmp_path / "m").digest
    listed.add([Identity("subject", "raw", "person-99")], NOW)
    X = np.zeros((2, 3)) + 1.0
    block = Block(X, ["new-1", "new-2"], ["person-99"] * 2)
    report = ModelFile(tmp_path / "m").learn([block], suppressed=listed.rows_of)
    assert (report.rows, report.rows_suppressed, report.core_rows) == (0, 2, 60)
    assert inspect(tmp_path / "m").digest == before
    with pytest.raises(ConfigurationError, match="no rows came"):
        ModelFile(tmp_path / "n").learn([block], new=ErasableClassifier(feature_map=None), suppressed=listed.rows_of)


def test_a_backup_forgets_who_is_on_the_list_and_nobody_else(listed, tmp_path):
    saved(tmp_path / "m")
    listed.add(
        [
            Identity("subject", "sha1", hashlib.sha1(b"person-3").hexdigest()),
            Identity("id", "raw", "row-50"),
            Identity("subject", "raw", "row-51"),
            Identity("subject", "raw", "never seen"),
        ],
        NOW,
    )
    report = replay(tmp_path / "m", listed)
    assert report.core_rows_removed == 4
    left = {row["id"] for row in inspect(tmp_path / "m", rows=True).rows}
    assert left == {f"row-{i}" for i in range(60) if i % 20 != 3 and i != 50}
    again = replay(tmp_path / "m", listed)
    assert (again.core_rows_removed, again.digest) == (0, report.digest)


def test_the_service_fills_the_list_and_learns_by_it(opened, tmp_path):
    listed = SuppressionList(tmp_path / "suppressed.list", KEY)
    service = opened(suppression=listed)
    asked(service, "person-3")
    asked(service, hashlib.sha256(b"a stranger").hexdigest(), format="sha256")
    cancelled = asked(service, "person-4")
    service.ledger.cancel(cancelled)
    service.worker.commit()
    assert len(listed) == 2
    X = np.random.default_rng(2).standard_normal((3, 3))
    block = Block(X, ["new-1", "new-2", "new-3"], ["person-3", "a stranger", "person-4"])
    assert service.learn("left", [block]).rows_suppressed == 2
    assert {"new-3"} == {row["id"] for row in inspect(tmp_path / "left.erasable", rows=True).rows if "new" in row["id"]}


def test_after_a_restore_a_start_replays_the_list_before_anything_is_signed(opened, tmp_path):
    listed = SuppressionList(tmp_path / "suppressed.list", KEY)
    service, model = opened(suppression=listed), tmp_path / "left.erasable"
    backup = model.read_bytes()
    name = committed(service, "person-3")
    model.write_bytes(backup)
    service = opened(suppression=listed)
    assert service.health().ready
    assert "person-3" not in {row["subject"] for row in inspect(model, rows=True).rows}
    service.worker.sign()
    assert service.receipts(name).keys() == {"left", "right"}
    model.write_bytes(backup)  # while it runs
    later = committed(service, "person-4")
    service.worker.sign()
    service.worker.compare()
    assert not {"person-3", "person-4"} & {row["subject"] for row in inspect(model, rows=True).rows}
    assert service.receipts(later).keys() == {"left", "right"}
    listed.add([Identity("subject", "raw", "person-5")], NOW)
    (tmp_path / "suppressed.list").unlink()
    for given in (listed, SuppressionList(tmp_path / "suppressed.list", KEY)):
        with pytest.raises(StoreError, match="not the one that the ledger knows"):
            opened(suppression=given)
    with pytest.raises(ConfigurationError, match="none is given"):
        opened()


@pytest.mark.parametrize("later", ["a new list", "no list", "one that has somebody else"])
def test_a_list_that_came_later_proves_nothing_of_those_erased_before(opened, tmp_path, later):
    service, model = opened(), tmp_path / "left.erasable"
    backup = model.read_bytes()
    name = committed(service, "person-3")
    service._threads = []  # it ends before anybody has signed
    model.write_bytes(backup)
    listed = None if later == "no list" else SuppressionList(tmp_path / "suppressed.list", KEY)
    if later == "one that has somebody else":
        listed.add([Identity("subject", "raw", "person-4")], NOW)
    service = opened(suppression=listed)
    assert not service.health().ready
    assert "left is not the file that the service left" in service.health().problem
    with pytest.raises(VerificationError, match="not the file that was last committed"):
        service.worker.sign()
    assert service.ledger.entry(name).receipts == {"right"}
    people = {row["subject"] for row in inspect(model, rows=True).rows}
    assert ("person-3" in people, "person-4" in people) == (True, later != "one that has somebody else")
    ModelFile(model).forget(subjects=["person-3"])
    service = opened(suppression=listed, settings=Settings(vouch=True))
    assert service.health().ready
    service.worker.sign()
    assert service.receipts(name).keys() == {"left", "right"}
    assert opened(suppression=listed).health().ready


def test_what_the_service_learns_is_its_own_and_what_others_learn_is_not(opened, tmp_path):
    service, model = opened(), tmp_path / "left.erasable"
    block = Block(np.ones((1, 3)), ["new"], ["person-21"])
    ModelFile(model).learn([block])  # nobody was erased so far: no matter who learns
    committed(service, "person-3")
    service.worker.sign()
    erased = model.read_bytes()
    for i in range(3):
        service.learn("left", [Block(-np.ones((1, 3)), [f"newer-{i}"], ["person-22"])])
    assert len(service._ledger.files.marks("left")) == 2  # the last file and the one before, however often it learns
    assert opened().health().ready
    learnt = model.read_bytes()
    model.write_bytes(erased)
    assert not opened().health().ready
    model.write_bytes(learnt)
    assert opened().health().ready
    ModelFile(model).learn([Block(np.ones((1, 3)), ["back"], ["person-3"])])
    assert not opened().health().ready


def test_a_ledger_and_models_that_are_older_than_the_list_are_replayed(opened, tmp_path):
    listed = SuppressionList(tmp_path / "suppressed.list", KEY)
    service = opened(suppression=listed)
    committed(service, "person-3")
    service.stop()
    backup = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".list"}
    service = opened(suppression=listed)
    committed(service, "person-4")
    service.stop()
    for path, data in backup.items():
        path.write_bytes(data)
    service = opened(suppression=SuppressionList(tmp_path / "suppressed.list", KEY))
    assert service.health().ready
    for name in ("left", "right"):
        assert not {"person-3", "person-4"} & {
            row["subject"] for row in inspect(tmp_path / f"{name}.erasable", rows=True).rows
        }


def test_a_list_from_before_it_was_chained_is_read_and_written_anew(tmp_path):
    path, key_mark = tmp_path / "list", hmac.new(KEY, b"the key of a suppression list", hashlib.sha256).hexdigest()
    mark = hmac.new(KEY, b"subject\nraw\nann", hashlib.sha256).hexdigest()
    data = old_line({"key": key_mark}) + old_line({"hmac": mark, "time": "2025-01-01"})
    path.write_bytes(data)
    listed = SuppressionList(path, KEY)
    assert listed.holds("subject", "ann")
    for key in (b"x" * 32, KEY):
        path.write_bytes(data if key != KEY else old_line({"hmac": mark}))
        with pytest.raises(InputError, match="another"):
            SuppressionList(path, key)
    path.write_bytes(data.replace(b'"hmac"', b'"hnac"'))
    with pytest.raises(StoreError, match="damaged"):
        SuppressionList(path, KEY)
    path.write_bytes(data)
    listed.add([Identity("subject", "raw", "bob")], NOW)
    again = SuppressionList(path, KEY)
    assert again.holds("subject", "ann")
    assert again.holds("subject", "bob")
    assert path.read_bytes().startswith(b"\x1e")


@pytest.fixture
def files(tmp_path, monkeypatch, listed):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "operator.key").touch(0o600)
    (tmp_path / "operator.key").write_bytes(KEY + b"\n")
    saved(tmp_path / "m.erasable")
    listed.add([Identity("subject", "raw", "person-3"), Identity("id", "raw", "new-1")], NOW)
    with open("rows.csv", "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["f0", "f1", "f2", "id", "who", "label"])
        values = np.random.default_rng(4).standard_normal((8, 3)).round(3).tolist()
        out.writerows([*v, f"new-{i}", f"person-{i % 4}", ("no", "yes")[i % 2]] for i, v in enumerate(values))
    return tmp_path


def test_the_commands_replay_and_learn_by_the_list(files, capsys):
    command = ["replay", "m.erasable", "--list", "suppressed.list", "--key", "operator.key"]
    assert run([*command, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["listed"], said["core_rows_removed"], said["core_rows"]) == (2, 3, 57)
    assert run(command) == 0
    assert "2 on the list; 0 core rows forgotten, 57 left" in capsys.readouterr().out
    learn = ["learn", "rows.csv", "--id", "id", "--subject", "who", "-o", "new.erasable"]
    by_list = ["--suppressed", "suppressed.list", "--key", "operator.key"]
    assert run([*learn, *by_list, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["rows"], said["rows_suppressed"]) == (5, 3)
    assert run([*learn, *by_list, "--skip-known"]) == 0
    assert "3 more rows were passed over: they are those of people on the list." in capsys.readouterr().out


def test_a_damaged_list_is_replayed_by_no_command_and_changes_nothing(files):
    command = ["replay", "m.erasable", "--list", "suppressed.list", "--key", "operator.key"]
    learn = ["learn", "rows.csv", "-o", "n.erasable", "--suppressed", "suppressed.list", "--key", "operator.key"]
    whole, model = (files / "suppressed.list").read_bytes(), (files / "m.erasable").read_bytes()
    flipped = (whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(0, len(whole) - 1, 29))
    for data in (b"", b"\n", whole[:40], *flipped):
        (files / "suppressed.list").write_bytes(data)
        assert run(command) in (2, 5)
        assert run(learn) in (2, 5)
    assert (files / "m.erasable").read_bytes() == model
    assert not (files / "n.erasable").exists()


def test_the_commands_say_what_is_missing(files, capsys):
    assert run(["learn", "rows.csv", "-o", "n.erasable", "--suppressed", "suppressed.list"]) == 2
    assert "--suppressed and --key go together" in capsys.readouterr().err
    assert run(["replay", "m.erasable", "--list", "none", "--key", "operator.key"]) == 5
    (files / "short.key").write_text("short")
    assert run(["replay", "m.erasable", "--list", "suppressed.list", "--key", "short.key"]) == 2
    (files / "another.key").write_bytes(b"x" * 32)
    assert run(["replay", "m.erasable", "--list", "suppressed.list", "--key", "another.key"]) == 5
    assert "chmod 600" in capsys.readouterr().err
    (files / "another.key").chmod(0o600)
    assert run(["replay", "m.erasable", "--list", "suppressed.list", "--key", "another.key"]) == 2
    with pytest.raises(StoreError):
        read_key(files / "none")
    with pytest.raises(StoreError):
        read_list(files / "none", files / "operator.key")
    with pytest.raises(InputError):
        read_key(files / "short.key")
