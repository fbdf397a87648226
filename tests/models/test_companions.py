"""The fitted learner next to a file: taken for the same file alone, and erased before a request is acknowledged."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import shutil
import stat
from importlib.metadata import version

import numpy as np
import pytest
from lightgbm import LGBMClassifier

from erasable import ErasableClassifier, ModelFile, load, verify
from erasable.errors import BusyError, StoreError, VerificationError
from erasable.models import companions
from erasable.models.companions import companion_of, orphans, user_secret
from erasable.models.files import keep_learner, read_model
from erasable.operations.verify import verify_file

RNG = np.random.default_rng(0)
X = np.round(RNG.normal(size=(80, 3)), 2)
Y = np.where(X[:, 0] * X[:, 1] > 0, "a", "b")
IDS = np.arange(80)


@pytest.fixture(autouse=True)
def short_trainings_are_kept(monkeypatch):
    monkeypatch.setattr(companions, "LEAST_SECONDS", 0.0)


@pytest.fixture
def path(tmp_path):
    return saved(tmp_path / "m.erasable")


def saved(path):
    learner = LGBMClassifier(n_estimators=5, min_child_samples=3)
    ErasableClassifier(learner=learner, selection="independent", rate=0.9).fit(X, Y, ids=IDS).save(path)
    return path


def kept(path):
    """Train the learner of a file and keep it."""
    model, checksum = read_model(path)
    model.predict(X)
    assert keep_learner(path, model, checksum)
    return model


def is_taken(path):
    return "learner" in read_model(path)[0].cache


def left(folder):
    """All that is left of companions in a folder."""
    return [p.name for p in folder.iterdir() if "learner" in p.name]


def some_id(path):
    return int(load(path).core_ids_[0])


def test_a_kept_learner_predicts_the_same_without_training(path, monkeypatch):
    expected = kept(path).predict_proba(X)
    assert companion_of(path).stat().st_mode & 0o777 == 0o600
    assert left(path.parent) == [companion_of(path).name]
    monkeypatch.setattr("erasable.estimators.trained._train", lambda *_: pytest.fail("it was trained"))
    assert (load(path).predict_proba(X) == expected).all()
    with pytest.raises(pytest.fail.Exception):
        read_model(path, cached=False)[0].predict(X)


def test_what_is_trained_quickly_is_not_kept(path, monkeypatch):
    monkeypatch.setattr(companions, "LEAST_SECONDS", 1.0)
    model, checksum = read_model(path)
    model.predict(X)
    assert not keep_learner(path, model, checksum)
    model.cache["learner"].seconds = 1.0
    assert keep_learner(path, model, checksum)


def test_pickles_do_not_tell_how_long_training_took(path):
    model, _ = read_model(path)
    model.predict(X)
    fitted = model.cache["learner"]
    assert fitted.seconds > 0
    assert "seconds" not in fitted.__getstate__()


def test_verify_trains_again_and_compares(path):
    kept(path)
    assert verify(load(path)).learner.compared
    other = ErasableClassifier(learner=LGBMClassifier(n_estimators=5), selection="independent", rate=0.9)
    other.fit(X, Y, ids=IDS).predict(X)
    model, checksum = read_model(path)
    model.cache["learner"] = other.model_.cache["learner"]
    assert keep_learner(path, model, checksum)
    with pytest.raises(VerificationError, match="not what training lightgbm"):
        verify(load(path))


@pytest.mark.parametrize("change", ["forget", "learn", "save", "unchanged"])
def test_every_change_of_the_file_erases_it(path, change):
    kept(path)
    file = ModelFile(path, rewrite_unchanged=change == "unchanged")
    if change == "forget":
        file.forget(ids=[some_id(path)])
    elif change == "unchanged":
        file.forget(ids=[10**6])
    elif change == "learn":
        file.learn([type("Block", (), {"X": X[:1], "y": Y[:1], "ids": [500], "subjects": None})()])
    else:
        model = load(path)
        model.forget(ids=model.core_ids_[:1])
        model.save(path)
    assert left(path.parent) == []


def test_it_is_erased_before_the_file_is_replaced(path, monkeypatch):
    """After a crash between the two the old model is there, and nothing of it elsewhere."""
    kept(path)
    seen = []

    def replace(writer, *arguments, **options):
        seen.append(companion_of(path).exists())
        raise StoreError("no space")

    monkeypatch.setattr("erasable.store._writing.Writer.replace", replace)
    with pytest.raises(StoreError):
        ModelFile(path).forget(ids=[some_id(path)])
    assert seen == [False]


def test_it_is_overwritten_before_its_name_goes(path, monkeypatch):
    kept(path)
    size, contents, unlink = companion_of(path).stat().st_size, [], os.unlink

    def unlinked(name, **options):
        if name == str(companion_of(path)):
            contents.append(companion_of(path).read_bytes())
        unlink(name, **options)

    monkeypatch.setattr(os, "unlink", unlinked)
    ModelFile(path).forget(ids=[some_id(path)])
    assert contents == [bytes(size)]


def test_a_learner_of_an_older_state_is_neither_kept_nor_taken(path):
    """Another process may have trained on rows that are forgotten meanwhile."""
    model, checksum = read_model(path)
    model.predict(X)
    ModelFile(path).forget(ids=[some_id(path)])
    assert not keep_learner(path, model, checksum)
    assert not companion_of(path).exists()
    kept(path)
    stale = companion_of(path).read_bytes()
    ModelFile(path).forget(ids=[some_id(path)])
    companion_of(path).write_bytes(stale)
    assert not is_taken(path)


# -- what belongs to no file -------------------------------------------------------------------------------------------


def version_1(path):
    """A companion as it was before companions were sealed."""
    fitted = read_model(path)[0]
    fitted.predict(X)
    learner = fitted.cache["learner"]
    content = {"format": "erasable-learner", "version": 1, "state": "0", "learner": learner.facts.as_json()}
    companion_of(path).write_text(json.dumps({**content, "text": learner.text}))


def restored(path):
    shutil.copy2(path, path.with_name("backup"))
    ModelFile(path).forget(ids=[some_id(path)])
    kept(path)
    os.replace(path.with_name("backup"), path)


def linked(path):
    path.rename(path.with_name("n.erasable"))
    path.symlink_to("n.erasable")


LEAVING = {
    "renamed": lambda path: path.rename(path.with_name("n.erasable")),
    "removed": lambda path: path.unlink(),
    "replaced": lambda path: os.replace(saved(path.with_name("other.erasable")), path),
    "linked": linked,
    "restored": restored,
    "version 1": version_1,
}


@pytest.mark.parametrize("how", LEAVING)
def test_a_companion_of_no_file_is_named_and_erased_by_the_next_writer(path, how):
    kept(path)
    sibling = saved(path.with_name("sibling.erasable"))
    assert verify_file(sibling).left_behind == ()
    LEAVING[how](path)
    assert verify_file(sibling).left_behind == (".m.erasable.learner",)
    assert left(path.parent) == [".m.erasable.learner"]  # verifying changes nothing
    ModelFile(sibling).forget(ids=[10**6])  # nobody's: the file itself is not written
    assert left(path.parent) == []
    assert verify_file(sibling).left_behind == ()


def test_every_way_of_changing_a_model_erases_it(path, tmp_path):
    for change in (
        lambda file: ModelFile(file).learn([type("B", (), {"X": X[:1], "y": Y[:1], "ids": [500], "subjects": None})()]),
        lambda file: ModelFile(file).forget_together([{"ids": [1]}]),
        lambda file: load(file).save(file),
        lambda file: saved(tmp_path / "new.erasable"),
        kept,
    ):
        other = saved(tmp_path / "o.erasable")
        kept(other)
        other.rename(tmp_path / "gone.erasable")
        (tmp_path / "gone.erasable").unlink()
        assert orphans(tmp_path) == [".o.erasable.learner"]
        change(path)
        assert orphans(tmp_path) == []


def test_what_an_interrupted_change_left_of_a_renamed_model_is_named(path):
    """It holds all rows; the store erases it when the old name is opened, which nobody does any more."""
    folder = path.parent
    for half in (".m.erasable.old", ".m.erasable.new", ".n.csv.new"):
        shutil.copy(path, folder / half)
    (folder / ".n.csv.new").write_text("id,prediction\n")
    (folder / "n.erasable").write_bytes(path.read_bytes())
    assert verify_file(folder / "n.erasable").left_behind == ()  # the change may be under way
    path.unlink()
    shutil.copy(folder / "n.erasable", os.fsencode(folder) + b"/.\xff\n.old")
    assert verify_file(folder / "n.erasable").left_behind[-1] == ".\\xff\n.old"
    os.unlink(os.fsencode(folder) + b"/.\xff\n.old")
    report = verify_file(folder / "n.erasable")
    assert report.left_behind == (".m.erasable.new", ".m.erasable.old")
    assert "'.m.erasable.old' in the same folder holds rows" in str(report)
    assert (folder / ".m.erasable.old").exists()


def test_a_valid_one_of_a_neighbour_stays(path):
    expected = kept(path).predict_proba(X)
    neighbour = saved(path.with_name("n.erasable"))
    ModelFile(neighbour).forget(ids=[some_id(neighbour)])
    kept(neighbour)
    assert is_taken(path)
    assert is_taken(neighbour)
    assert (load(path).predict_proba(X) == expected).all()


def test_a_copy_is_bound_to_nothing(path):
    """Of a model and its companion under another name, or in another folder."""
    kept(path)
    folder = path.parent / "copies"
    folder.mkdir()
    for source in (path, companion_of(path)):
        shutil.copy2(source, folder / source.name)
    copied = folder / path.name
    assert not is_taken(copied)
    assert orphans(folder) == [companion_of(copied).name]
    kept(copied)  # which replaces it
    assert is_taken(copied)
    assert is_taken(path)


def test_what_is_not_ours_is_left_alone(path, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    kept(path)
    genuine = companion_of(path).read_bytes()
    precious = elsewhere / "precious"
    precious.write_bytes(genuine)
    (tmp_path / ".text.learner").write_text("notes of a student")
    (tmp_path / ".empty.learner").touch()
    (tmp_path / ".folder.learner").mkdir()
    (tmp_path / ".link.learner").symlink_to(precious)
    os.link(precious, tmp_path / ".hard.learner")
    os.mkfifo(tmp_path / ".pipe.learner")
    (tmp_path / ".learner").write_bytes(genuine)
    names = {p.name for p in tmp_path.iterdir()}
    ModelFile(path).forget(ids=[10**6])
    assert {p.name for p in tmp_path.iterdir()} == names
    assert precious.read_bytes() == genuine
    assert orphans(tmp_path) == [".hard.learner"]  # named: only a person can say which name should go


@pytest.mark.parametrize("what", ["text", "folder", "link", "pipe"])
def test_something_else_at_its_own_name_is_left_alone(path, what):
    place, precious = companion_of(path), path.with_name("precious")
    precious.write_text("precious")
    make = {
        "text": lambda: place.write_text("notes of a student"),
        "folder": place.mkdir,
        "link": lambda: place.symlink_to(precious),
        "pipe": lambda: os.mkfifo(place),
    }
    make[what]()
    before = stat.S_IFMT(os.lstat(place).st_mode)
    ModelFile(path).forget(ids=[some_id(path)])
    model, checksum = read_model(path)
    model.predict(X)
    assert not keep_learner(path, model, checksum)
    assert stat.S_IFMT(os.lstat(place).st_mode) == before
    assert precious.read_text() == "precious"


def test_one_with_a_second_name_stops_the_change(path):
    """The other name would keep what is to be forgotten."""
    kept(path)
    os.link(companion_of(path), path.with_name("second"))
    before = path.read_bytes()
    with pytest.raises(StoreError, match="has another name"):
        ModelFile(path).forget(ids=[some_id(path)])
    assert path.read_bytes() == before


@pytest.mark.parametrize("rest", [b"", bytes(100)])
def test_one_that_a_crash_left_empty_is_written_again(path, rest):
    companion_of(path).write_bytes(rest)
    kept(path)
    assert is_taken(path)


def test_one_that_another_process_is_erasing_is_not_waited_for_long(path, monkeypatch):
    monkeypatch.setattr(companions, "_PATIENCE", 0.02)
    kept(path)
    sibling = saved(path.with_name("n.erasable"))
    with companion_of(path).open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(BusyError, match="is being erased by another process"):
            ModelFile(path).forget(ids=[some_id(path)])
        path.unlink()
        ModelFile(sibling).forget(ids=[10**6])
        assert companion_of(path).exists()
    ModelFile(sibling).forget(ids=[10**6])
    assert not companion_of(path).exists()


def test_a_new_one_is_not_erased_for_the_old_one_of_its_name(path, monkeypatch):
    """Another process judged the old one, and erases late: the name has a valid one by then."""
    kept(path)
    place, sibling = companion_of(path), saved(path.with_name("n.erasable"))
    look = companions.orphans

    def looked(folder):
        os.utime(path)  # so that the old one is bound to nothing
        found = look(folder)
        kept_by_another(path)
        return found

    def kept_by_another(path):
        monkeypatch.setattr(companions, "orphans", look)
        kept(path)

    monkeypatch.setattr(companions, "orphans", looked)
    ModelFile(sibling).forget(ids=[10**6])
    assert place.exists()
    assert is_taken(path)


# -- the seal ----------------------------------------------------------------------------------------------------------


def refused(path):
    """Whether a companion is passed over before anything of it is parsed; training goes on as without it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("erasable.estimators.trained.from_text", lambda *_: pytest.fail("it was parsed"))
        return not is_taken(path)


def test_nothing_of_the_rows_can_be_read_in_it(path):
    model = kept(path)
    content = companion_of(path).read_bytes()
    learner = model.cache["learner"]
    assert b"feature_infos" not in content
    assert learner.facts.digest.encode() not in content
    checksum = read_model(path)[1]
    assert checksum.encode() not in content
    assert load(path).state_digest().encode() not in content
    again = kept(path)  # the same model twice: the streams differ
    assert again.cache["learner"].text == learner.text
    assert companion_of(path).read_bytes()[200:] != content[200:]


@pytest.mark.parametrize("damage", [b"", b"{}", b"[1]", b'{"format": "erasable-learner"}', b"\xff", b"[" * 100_000])
def test_a_damaged_one_is_passed_over(path, damage):
    kept(path)
    companion_of(path).write_bytes(damage)
    assert refused(path)
    assert len(load(path).predict(X)) == len(X)


def test_altered_ones_are_passed_over(path):
    """Bit flips everywhere, cuts, additions, and other numbers in the header; none is parsed."""
    kept(path)
    genuine, rng = companion_of(path).read_bytes(), np.random.default_rng(1)
    end = genuine.index(b"\n") + 1
    altered = [genuine[:n] for n in (*range(0, end + 40, 17), len(genuine) - 1)]
    altered += [genuine + b"\0", genuine[:-32] + bytes(32), genuine[:end] + genuine[end + 32 :]]
    altered += [genuine.replace(b'"version": 2', b'"version": %d' % n) for n in (1, 3, 10**15)]
    for place in (*range(0, end, 3), *rng.integers(end, len(genuine), 60), len(genuine) - 1):
        flipped = bytearray(genuine)
        flipped[place] ^= 1 << int(rng.integers(8))
        altered.append(bytes(flipped))
    for content in altered:
        companion_of(path).write_bytes(content)
        assert refused(path)
    companion_of(path).write_bytes(genuine)
    assert is_taken(path)


def test_one_that_somebody_else_made_for_this_very_file_is_passed_over(path):
    """Everything but the secret is known to its maker, who may read the model and write next to it."""
    facts, head = os.lstat(path), path.read_bytes()
    text = "tree\nnum_class=99999999999\nmax_feature_idx=-7\ntree_sizes=" + "9" * 5000
    learner = {"name": "lightgbm", "library": "lightgbm", "version": version("lightgbm")}
    learner["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    content = json.dumps({"learner": learner, "text": text}).encode()
    for secret in (b"", bytes(32), hashlib.sha256(head).digest(), hmac.digest(b"", head, "sha256")):
        companion_of(path).write_bytes(companions._sealed(content, facts, secret, head))
        assert refused(path)
    companion_of(path).write_bytes(companions._sealed(content, facts, user_secret(create=True), head))
    with pytest.raises(pytest.fail.Exception):  # so it was the secret
        refused(path)


def test_one_of_another_model_or_place_is_passed_over(path):
    kept(path)
    other = path.with_name("n.erasable")
    shutil.copy(path, other)
    ModelFile(other).forget(ids=[some_id(path)])
    kept(other)
    facts, content = os.lstat(path), companion_of(other).read_bytes()
    end = content.index(b"\n")
    forged = companions._MARK + f'"version": 2, "inode": {facts.st_ino}, "written": {facts.st_mtime_ns}'.encode()
    companion_of(path).write_bytes(forged + content[content.index(b', "nonce"') : end] + content[end:])
    assert companions._is_bound(companion_of(path), companion_of(path).read_bytes())
    assert refused(path)


def test_one_of_other_bytes_in_the_same_file_is_passed_over(path):
    """A backup written over the file, with its time: inode and time are those of the file that was trained on."""
    other = path.with_name("n.erasable")
    shutil.copy(path, other)
    ModelFile(other).forget(ids=[some_id(path)])
    kept(path)
    written = os.stat(path).st_mtime_ns
    path.write_bytes(other.read_bytes())
    os.utime(path, ns=(written, written))
    assert companions._is_bound(companion_of(path), companion_of(path).read_bytes())
    assert refused(path)


@pytest.mark.parametrize("harm", ["lost", "short", "open to others", "a link", "no folder"])
def test_without_a_secret_of_this_user_alone_none_is_taken_or_written(path, harm, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    kept(path)
    secret = tmp_path / "caches" / "erasable" / "companions.key"
    assert secret.stat().st_mode & 0o777 == 0o600
    assert secret.parent.stat().st_mode & 0o077 == 0
    match harm:
        case "lost":
            secret.unlink()
        case "short":
            secret.write_bytes(b"1")
        case "open to others":
            secret.chmod(0o644)
        case "a link":
            secret.rename(tmp_path / "secret")
            secret.symlink_to(tmp_path / "secret")
        case "no folder":
            shutil.rmtree(tmp_path / "caches")
            (tmp_path / "caches").touch()
    assert not is_taken(path)
    model, checksum = read_model(path)
    model.predict(X)
    assert keep_learner(path, model, checksum) is (harm == "lost")  # a new one is made


def test_no_secret_is_made_in_the_home_of_somebody_else(path, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert user_secret(create=True) is None
    assert not (tmp_path / "caches").exists()


def test_one_that_is_too_large_to_be_read_is_not_written(path, monkeypatch):
    kept(path)
    monkeypatch.setattr(companions, "LARGEST_COMPANION", 1000)
    assert not is_taken(path)
    model, checksum = read_model(path)
    model.predict(X)
    assert not keep_learner(path, model, checksum)


def test_a_relative_cache_folder_is_not_used(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", "caches")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert len(user_secret(create=True)) == 32
    assert (tmp_path / ".cache" / "erasable" / "companions.key").exists()
    assert not (tmp_path / "caches").exists()


def test_another_version_of_the_library_trains_again(path, monkeypatch):
    kept(path)
    monkeypatch.setattr("erasable.estimators.trained.version", lambda _: "99.0")
    report = verify(load(path))
    assert not report.learner.compared
    assert "trained with lightgbm" in str(report)
    assert "state and rows are the same" in str(report)
    model = load(path)
    model.predict(X)
    assert model.model_.cache["learner"].facts.version == "99.0"


def test_other_learners_and_other_models_have_none(tmp_path):
    path = tmp_path / "f.erasable"
    ErasableClassifier(learner="random_forest").fit(X, Y).save(path)
    model, checksum = read_model(path)
    model.predict(X)
    assert not keep_learner(path, model, checksum)
    assert left(tmp_path) == []
