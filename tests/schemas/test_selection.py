"""Public moments and class shares that a schema states: read, written, refused, and used by independent selection."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from erasable import ErasableClassifier, ErasableRegressor, load, verify
from erasable.cli.app import run
from erasable.errors import ConfigurationError, InputError
from erasable.schemas import Schema
from tests.schemas.raw import columns, draft, table, write

ENCODING = """version = 2

[columns.age]
kind = "number"
range = [0, 100]

[columns.town]
kind = "category"
values = ["Bern", "Oslo"]

[columns.member]
kind = "yes/no"

[columns.y]
role = "label"
classes = ["no", "yes"]

[[crosses]]
columns = ["town", "member"]
hashed = 2
"""
STATED = """
[selection.moments]
age = [-1, -3]
town = -2
member = [-1, -4]
"town×member" = [-6, -5]

[selection.class_shares]
no = 0.75
yes = 0.25
"""
PLAIN, SCHEMA = Schema.parse(ENCODING), Schema.parse(ENCODING + STATED)


def test_the_table_is_canonical_and_outside_of_what_a_state_holds():
    assert PLAIN.text == PLAIN.encoding_text == ENCODING
    assert SCHEMA.text == ENCODING + STATED
    assert Schema.parse(SCHEMA.text).text == SCHEMA.text
    assert SCHEMA == PLAIN
    assert SCHEMA.describe() == PLAIN.describe() == {"map": "schema", "text": ENCODING}
    assert SCHEMA.second_moments.tolist() == [2.0**e for e in (-1, -3, -2, -2, -2, -2, -1, -4, -6, -5)]
    assert len(SCHEMA.second_moments) == SCHEMA.n_features_out
    assert PLAIN.second_moments is PLAIN.shares_of(None) is None
    assert SCHEMA.shares_of(["yes", "no"]) == SCHEMA.shares_of(None) == {"no": 0.75, "yes": 0.25}
    rated = Schema.parse(ENCODING + "\n[selection]\nrate = 0.25\n" + STATED)
    assert rated.rate == 0.25
    assert rated == SCHEMA
    assert Schema.parse(rated.text).text == rated.text == ENCODING + "\n[selection]\nrate = 0.25\n" + STATED
    every = STATED.replace("town = -2", "town = [-2, -2, -2, -2]").replace("0.25", "2.5e-1")
    assert Schema.parse(ENCODING + every).text == SCHEMA.text
    assert Schema.parse(ENCODING + "[selection]\n").text == ENCODING
    least = Schema.parse(ENCODING + STATED.replace("town = -2\n", ""))
    assert least.text == SCHEMA.text.replace("town = -2", "town = -6")
    numbers = Schema.parse(ENCODING.replace('"no", "yes"', "0, 1") + '[selection.class_shares]\n"0" = 0.5\n"1" = 0.5\n')
    assert numbers.shares_of([0, 1]) == {0: 0.5, 1: 0.5}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[-1, -3]", "[-1, -3, -4]", "'age' has 3 exponents for 2 features"),
        ("[-1, -3]", "[]", "'age' has 0 exponents for 2 features"),
        ("[-1, -3]", "[-1, 0.5]", "every exponent of two must be an integer"),
        ("[-1, -3]", "[-1, true]", "every exponent of two must be an integer"),
        ("[-1, -3]", "-101", "between -100 and 20"),
        ("[-1, -3]", "21", "between -100 and 20"),
        ("[-1, -3]", '"a"', "every exponent of two must be an integer"),
        ("town = -2\n", "town = -2\ny = -2\n", "moments names 'y', which makes no features: delete"),
        ("no = 0.75", "no = 0", "every class share must be"),
        ("no = 0.75", "no = -0.5", "every class share must be"),
        ("no = 0.75", "no = 1.5", "every class share must be"),
        ("no = 0.75", 'no = "a"', "every class share must be"),
        ("no = 0.75", "maybe = 0.75", "class_shares names 2 classes that are not the 2 of the label"),
        ("no = 0.75\n", "", "two classes or more"),
        ("yes = 0.25", "yes = 0.25\nmaybe = 0.1", "class_shares names 3 classes that are not the 2"),
        ("[selection.moments]", "[selection]\nrate = 0\n[selection.moments]", "rate in .selection. must be"),
        ("[selection.class_shares]", "[selection.shares]", "has no parameter 'shares'"),
    ],
)
def test_what_cannot_be_is_refused(old, new, message):
    assert STATED.count(old) == 1
    with pytest.raises(ConfigurationError, match=message):
        Schema.parse(ENCODING + STATED.replace(old, new))


def test_shares_need_a_label_and_selection_is_a_table():
    target = ENCODING.replace('role = "label"\nclasses = ["no", "yes"]', 'role = "target"')
    with pytest.raises(ConfigurationError, match="class_shares are for a label"):
        Schema.parse(target + STATED)
    with pytest.raises(ConfigurationError, match="moments must be a table"):
        Schema.parse(ENCODING + "[selection]\nmoments = -3\n")
    with pytest.raises(ConfigurationError, match="class_shares must be a table"):
        Schema.parse(ENCODING + "[selection]\nclass_shares = [0.5, 0.5]\n")
    with pytest.raises(ConfigurationError, match="selection must be a table"):
        Schema.parse(ENCODING.replace("version = 2\n", "version = 2\nselection = 3\n"))


# -- models ------------------------------------------------------------------------------------------------------------

TABLE, CELLS = table(), columns()
Y, IDS, PEOPLE = CELLS["outcome"], CELLS["row_id"], CELLS["person"]
DRAFT = replace(draft(), moments={}, class_shares={}, rate=None)
RNG = np.random.default_rng(2)
MOMENTS = {c.name: tuple((-6 - RNG.integers(0, 4, size=c.width)).tolist()) for c in DRAFT.features}
PUBLIC = replace(DRAFT, moments=MOMENTS, class_shares={"no": 0.75, "yes": 0.25})
KINDS = {
    "moments": ErasableClassifier(feature_map=PUBLIC, selection="independent", rate=0.3, balance=0.0),
    "balanced": ErasableClassifier(
        feature_map=PUBLIC, selection="independent", rate=0.3, balance=0.5, loss="logistic", alpha=0.1
    ),
    "regression": ErasableRegressor((-9.0, 9.0), feature_map=PUBLIC, selection="independent", rate=0.3),
}


def fitted(model, rows):
    model = clone(model)
    y = [Y[i] for i in rows] if isinstance(model, ErasableClassifier) else [len(Y[i]) for i in rows]
    return model.fit(TABLE.take(list(rows)), y, ids=[IDS[i] for i in rows], subjects=[PEOPLE[i] for i in rows])


@pytest.mark.parametrize("kind", KINDS)
def test_forgetting_through_a_schema_with_moments_is_learning_all_survivors(kind, tmp_path):
    model, everything = fitted(KINDS[kind], range(len(Y))), range(len(Y))
    assert 10 < model.n_core_ < 200
    gone = {PEOPLE[i] for i in everything[::7]} & set(model.model_.core.subjects())
    model.forget(subjects=sorted(gone))
    fresh = fitted(KINDS[kind], [i for i in everything if PEOPLE[i] not in gone])
    assert model.state_digest() == fresh.state_digest()
    assert verify(model).core_rows == model.n_core_
    model.save(tmp_path / "m")
    assert load(tmp_path / "m").state_digest() == model.state_digest()
    assert load(tmp_path / "m", like=clone(model)).state_digest() == model.state_digest()


@pytest.mark.parametrize("kind", KINDS)
def test_stated_moments_and_shares_are_those_of_the_parameters(kind):
    stated = fitted(KINDS[kind], range(len(Y)))
    given = {"feature_map": DRAFT, "moments": PUBLIC.second_moments}
    given |= {"class_shares": PUBLIC.class_shares} if kind == "balanced" else {}
    assert stated.state_digest() == fitted(clone(KINDS[kind]).set_params(**given), range(len(Y))).state_digest()
    selection = stated.model_.configuration.selection
    assert selection.rarity.exponents == tuple(e for found in MOMENTS.values() for e in found)
    assert (selection.class_shares is not None) == (kind == "balanced")
    other = {"moments": np.ones(DRAFT.n_features_out)}
    own = fitted(clone(KINDS[kind]).set_params(**other), range(len(Y)))
    assert own.state_digest() != stated.state_digest()
    assert set(own.model_.configuration.selection.rarity.exponents) == {0}


def test_leverage_and_a_schema_without_the_table_keep_their_digests():
    everything = range(len(Y))
    named = ErasableClassifier(feature_map=PUBLIC, selection="leverage")
    by_threshold = ErasableClassifier(feature_map=PUBLIC, threshold=0.06)
    found = [
        fitted(clf, everything).state_digest() for clf in (ErasableClassifier(feature_map=DRAFT), named, by_threshold)
    ]
    assert found[0] == found[1] == found[2]
    uniform = fitted(clone(KINDS["moments"]).set_params(feature_map=DRAFT), everything)
    assert uniform.model_.configuration.selection.rarity.uniform


def test_a_schema_that_states_moments_makes_independent_selection_the_default():
    everything = range(len(Y))
    for stated, rate, balance in (
        (PUBLIC, 0.1, 0.5),
        (replace(PUBLIC, rate=0.5), 0.5, 0.5),
        (replace(PUBLIC, rate=1), 1, 0),
    ):
        found = fitted(ErasableClassifier(feature_map=stated), everything)
        named = {"selection": "independent", "rate": rate, "balance": balance, "loss": "logistic", "alpha": 0.1}
        assert (
            found.state_digest() == fitted(ErasableClassifier(feature_map=PUBLIC, **named), everything).state_digest()
        )
        assert "all surviving rows" in str(ErasableClassifier(feature_map=stated).guarantee)
    regression = fitted(ErasableRegressor((-9.0, 9.0), feature_map=PUBLIC), everything)
    assert regression.model_.configuration.selection.NAME == "independent"
    weighted = fitted(ErasableClassifier(feature_map=PUBLIC, class_weight="balanced"), everything)
    assert weighted.model_.configuration.selection.balance == 0.0
    for options in ({"threshold": 0.1}, {"kappa": 0.3}, {"sample_rate": 0.1}, {"order": "given"}):
        chosen = fitted(ErasableClassifier(feature_map=PUBLIC, **options), everything)
        assert chosen.model_.configuration.selection.NAME == "leverage"
    with pytest.raises(ConfigurationError, match="threshold cannot be set"):
        fitted(ErasableClassifier(feature_map=PUBLIC, threshold=0.1, rate=0.1), everything)


def test_shares_are_left_alone_where_labels_are_encoded_otherwise():
    truths = np.array([label == "yes" for label in Y])
    model = ErasableClassifier(feature_map=PUBLIC).partial_fit(TABLE.slice(0, 200), truths[:200], ids=IDS[:200])
    assert model.model_.configuration.selection.class_shares is None
    model.partial_fit(TABLE.slice(200), truths[200:], ids=IDS[200:])
    whole = ErasableClassifier(feature_map=PUBLIC).fit(TABLE, truths, ids=IDS)
    assert model.state_digest() == whole.state_digest() == verify(model).digest
    with pytest.raises(InputError):
        ErasableClassifier(feature_map=PUBLIC).fit(TABLE, ["perhaps", *Y[1:]], ids=IDS)


def test_the_spelling_of_classes_does_not_come_from_rows():
    """Forgetting all rows of a class equals learning the others; whatever spelling the forgotten rows had."""
    spelt = np.where(np.array(Y) == "yes", "True", "False")
    roles = [replace(c, classes=None) if c.name == "outcome" else c for c in DRAFT.columns]
    schema = replace(PUBLIC, columns=roles, class_shares={"true": 0.25, "false": 0.75})
    with pytest.raises(InputError, match="fix all classes"):
        ErasableClassifier(feature_map=schema, rate=0.5).fit(TABLE, spelt, ids=IDS)
    unfitted = ErasableClassifier(feature_map=schema, rate=0.5, classes=["False", "True"])
    model = clone(unfitted).fit(TABLE, spelt, ids=IDS)
    assert dict(model.model_.configuration.selection.class_shares) == {"False": 0.75, "True": 0.25}
    left = np.flatnonzero(spelt == "True")
    model.forget(ids=[IDS[i] for i in np.flatnonzero(spelt == "False")])
    fresh = clone(unfitted).fit(TABLE.take(left), spelt[left], ids=[IDS[i] for i in left])
    assert model.state_digest() == fresh.state_digest()


def test_labels_of_the_first_batch_do_not_decide_whether_shares_count():
    model = ErasableClassifier(feature_map=PUBLIC, rate=0.5)
    with pytest.raises(InputError, match="not among"):
        model.partial_fit(TABLE.slice(0, 50), ["other"] * 50, ids=IDS[:50])
    assert not hasattr(model, "classes_")
    model.partial_fit(TABLE.slice(50), Y[50:], ids=IDS[50:])
    assert model.model_.configuration.selection.balance == 0.5


def test_a_learner_that_weighs_classes_gets_no_balance_by_default():
    learner = {"learner": "hist_gradient_boosting", "class_weight": "balanced"}
    model = ErasableClassifier(feature_map=PUBLIC, rate=0.5, learner=learner).fit(TABLE, Y, ids=IDS)
    assert model.model_.configuration.selection.balance == 0.0
    with pytest.raises(ConfigurationError, match="class_weight"):
        clone(model).set_params(balance=0.5).fit(TABLE, Y, ids=IDS)


def test_other_moments_are_another_model_and_change_nothing():
    model = fitted(KINDS["moments"], range(len(Y)))
    before = model.state_digest()
    model.set_params(feature_map=replace(PUBLIC, moments=dict.fromkeys(MOMENTS, -3)))
    with pytest.raises(ConfigurationError, match="moments"):
        model.partial_fit(TABLE.take([0]), [Y[0]], ids=["new"], subjects=[PEOPLE[0]])
    assert model.state_digest() == before
    unshared = clone(KINDS["balanced"]).set_params(feature_map=replace(PUBLIC, class_shares={}))
    with pytest.raises(ConfigurationError, match="needs class_shares"):
        fitted(unshared, range(len(Y)))


def test_shares_take_the_type_of_the_classes_that_are_fixed():
    by_number = [int(label == "yes") for label in Y]
    roles = [replace(c, classes=("0", "1")) if c.name == "outcome" else c for c in DRAFT.columns]
    schema = replace(PUBLIC, columns=roles, class_shares={"0": 0.75, "1": 0.25})
    model = clone(KINDS["balanced"]).set_params(feature_map=schema, classes=[0, 1])
    model.fit(TABLE, by_number, ids=IDS, subjects=PEOPLE)
    assert model.model_.configuration.selection.class_shares == ((0, 0.75), (1, 0.25))
    free = clone(model).set_params(classes=None).fit(TABLE, by_number, ids=IDS, subjects=PEOPLE)
    assert free.state_digest() == model.state_digest()
    alone = clone(free).partial_fit(TABLE.take([0]), by_number[:1], ids=IDS[:1], subjects=PEOPLE[:1])
    assert alone.model_.configuration == model.model_.configuration  # also where the first call lacks a class


def test_the_commands_learn_with_what_the_schema_states(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    PUBLIC.save("schema.toml")
    learn = ["--schema", "schema.toml", "--selection", "independent", "--rate", "0.3", "--balance", "0.5", "-o"]
    assert run(["learn", write(TABLE, "raw.csv"), *learn, "m.erasable", "--loss", "logistic", "--alpha", "0.1"]) == 0
    same = fitted(KINDS["balanced"], range(len(Y)))
    assert load("m.erasable").state_digest() == same.state_digest()
    gone = sorted(same.model_.core.subjects())[::5]
    assert run(["forget", "m.erasable", *(w for name in gone for w in ("--subject", str(name)))]) == 0
    left = TABLE.filter([person not in gone for person in PEOPLE])
    options = [*learn, "rest.erasable", "--loss", "logistic", "--alpha", "0.1"]
    assert run(["learn", write(left.slice(0, 90), "a.parquet"), *options]) == 0
    assert run(["learn", write(left.slice(90), "b.parquet"), *options]) == 0
    assert Path("m.erasable").read_bytes() == Path("rest.erasable").read_bytes()
    capsys.readouterr()
    assert run(["inspect", "m.erasable", "--schema"]) == 0
    assert "[selection" not in capsys.readouterr().out
    bad = PUBLIC.text.replace("no = 0.75", "no = 0")
    Path("schema.toml").write_text(bad, encoding="utf-8")
    assert run(["learn", "raw.csv", *learn, "new.erasable"]) == 2
    assert not Path("new.erasable").exists()
