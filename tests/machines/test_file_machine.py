"""A model file lives through learning, forgetting and crashes; at every step it is the file of its surviving rows."""

from __future__ import annotations

import csv
import itertools
import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from erasable import ErasableClassifier, ModelFile, load, verify
from erasable.audit.scan import scan
from erasable.cli.app import run
from erasable.errors import ErasableError
from erasable.models import files as shards
from erasable.models.state import State
from erasable.operations.requests import Request
from erasable.store import side_files
from tests.machines.mortal import Killed, killed_at

D, THRESHOLD, RATE = 12, 0.02, 0.2
NAMES = [f"f{j}" for j in range(D)]
POOL = np.random.default_rng(7).standard_normal((60, D)).round(6)
for number, row in enumerate(
    POOL
):  # three rows of four have three entries: by which are there, files are sparse or not
    row[[j for j in range(D) if number % 4 and j % 4 != number % 3]] = 0.0
POOL[40:] = POOL[:20]  # twins: other ids, the same features


class Row:
    """A row of the plain model: everything follows from its number."""

    def __init__(self, number: int, call: int = 0) -> None:
        self.number, self.x = number, POOL[number % len(POOL)]
        self.call = call  # with which command it was learnt
        self.id = f"row-{number:04d}"
        self.people = {number % 9, number * 4 % 9} if number % 3 else {number % 9}  # some rows are those of two
        self.subjects = [f"subject-{p}" for p in sorted(self.people, reverse=bool(number % 2))]
        self.label = ("no", "yes", "perhaps")[number % 5 % 3]
        self.weight = (1.0, 1.0, 1.0, 2.5, 0.5)[number % 5]


def plain(rows: list[Row]) -> ErasableClassifier:
    """These rows and no others, learnt in the calls that they came in."""
    clf = ErasableClassifier(threshold=THRESHOLD, feature_names=NAMES, sample_rate=RATE, class_weight="balanced")
    for _, together in itertools.groupby(rows, key=lambda row: row.call):
        part = list(together)
        X, labels = np.array([r.x for r in part]), [r.label for r in part]
        names = {"ids": [r.id for r in part], "subjects": [r.subjects for r in part]}
        clf.partial_fit(X, labels, **names, sample_weight=[r.weight for r in part])
    return clf


def files_of(rows: list[Row]) -> dict[str, bytes]:
    """The files that learning these rows from nothing gives, by name."""
    if rows:
        files = shards.files_of(plain(rows)._model.snapshot())
    else:
        c = plain([Row(0)])._model.configuration
        files = shards.files_of(State.learnt(c, (), (), (), np.empty((0, D + 1), dtype=np.int16))[0])
    return {"": b"".join(files.head), **{name: b"".join(pieces) for name, pieces in files.parts.items()}}


class ModelFileMachine(RuleBasedStateMachine):
    """The commands, the library and a dying disk on one side; on the other a list of rows that is learnt anew."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.home = Path(self.folder.name, "home")
        self.home.mkdir()
        self.path = self.home / "m.erasable"
        self.scratch = Path(self.folder.name, "scratch")  # for tables and lists of ids, which are no part of the model
        self.scratch.mkdir()
        self.rows: list[Row] | None = None  # those that the file holds; None: there is no file
        self.gone: dict[int, Row] = {}  # acknowledged as forgotten, and not learnt again since
        self.next = self.calls = 0
        self.handle = ModelFile(self.path)

    def teardown(self) -> None:
        self.folder.cleanup()

    # -- what the commands are given -----------------------------------------------------------------------------

    def fresh_rows(self, data) -> list[Row]:
        held = {r.number for r in self.rows or ()}
        again = [n for n in sorted(self.gone) if n not in held]
        rows = []
        self.calls += 1
        fewest = 2 if self.rows is None else 1  # a new model needs two classes, and neighbours are of two
        for _ in range(data.draw(st.integers(fewest, 7))):
            if again and data.draw(st.booleans()):
                rows.append(Row(again.pop(0), self.calls))
            else:
                rows.append(Row(self.next, self.calls))
                self.next += 1
        return rows

    def table(self, rows: list[Row]) -> str:
        path = self.scratch / "rows.csv"
        with open(path, "w", newline="") as file:
            out = csv.writer(file)
            out.writerow([*NAMES, "id", "who", "kin", "label", "much"])
            out.writerows([*map(repr, r.x.tolist()), r.id, *[*r.subjects, ""][:2], r.label, r.weight] for r in rows)
        return str(path)

    def learning(self, rows: list[Row]) -> tuple[list[str], list[Row]]:
        """The command, and the rows that the file then holds."""
        command = [
            "learn",
            self.table(rows),
            "-o",
            str(self.path),
            "--id",
            "id",
            "--subject",
            "who",
            "--subject",
            "kin",
        ]
        all_rows = {r.id: r for r in [*(self.rows or ()), *rows]}
        kept = plain([*(self.rows or ()), *rows]).core_ids_.tolist()
        how = ["--weight", "much", "--threshold", str(THRESHOLD), "--sample-rate", str(RATE)]
        return [*command, *how, "--class-weight", "balanced"], [all_rows[key] for key in kept]

    def forgetting(self, data) -> tuple[list[str], list[Row]]:
        known = [r.number for r in self.rows or ()]
        numbers = data.draw(st.lists(st.sampled_from([*known, 9_998]), max_size=4))
        subjects = data.draw(st.lists(st.integers(0, 9), min_size=0 if numbers else 1, max_size=1 if numbers else 2))
        command = ["forget", str(self.path)]
        command += [part for n in numbers[:1] for part in ("--id", Row(n).id)]
        command += [part for s in subjects for part in ("--subject", f"subject-{s}")]
        if numbers[1:]:
            listed = self.scratch / "ids.txt"
            listed.write_text("".join(f"{Row(n).id}\n" for n in numbers[1:]))
            command += ["--ids-file", str(listed)]
        left = [r for r in self.rows or () if r.number not in numbers and r.people.isdisjoint(subjects)]
        return command, left

    def now_holds(self, rows: list[Row]) -> None:
        """Acknowledged: the file holds these rows."""
        left = {r.number for r in rows}
        self.gone |= {r.number: r for r in self.rows or () if r.number not in left}
        self.gone = {n: r for n, r in self.gone.items() if n not in left}
        self.rows = rows

    # -- changes -------------------------------------------------------------------------------------------------

    @rule(data=st.data())
    def learn(self, data):
        command, expected = self.learning(self.fresh_rows(data))
        assert run(command) == 0
        self.now_holds(expected)

    @precondition(lambda self: self.rows is not None)
    @rule(data=st.data())
    def forget(self, data):
        command, expected = self.forgetting(data)
        assert run(command) == 0
        self.now_holds(expected)

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def forget_through_a_handle_that_stays(self, data):
        """It has to see what the commands did meanwhile."""
        known = [r.number for r in self.rows]
        numbers = data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=3))
        reports = self.handle.forget_together([Request(ids=[Row(n).id]) for n in numbers])
        assert sum(r.core_rows_removed for r in reports) == len(set(numbers))
        self.now_holds([r for r in self.rows if r.number not in numbers])

    @rule(data=st.data(), step=st.integers(0, 45), torn=st.booleans())
    def a_crash(self, data, step, torn):
        if self.rows is None or data.draw(st.booleans()):
            command, after = self.learning(self.fresh_rows(data))
        else:
            command, after = self.forgetting(data)
        before = self.rows
        try:
            with killed_at(step, torn=torn):
                assert run(command) == 0
        except Killed:
            self.reopened_after_a_crash(before, after)
        else:
            self.now_holds(after)

    def reopened_after_a_crash(self, before, after):
        """Wholly before or wholly after, and nothing half done beside it once somebody has opened it."""
        if not self.path.exists():
            assert before is None
        if self.path.exists():
            load(self.path)
        with pytest.raises(ErasableError):  # a writer that changes nothing: it erases what the crash left
            self.handle.learn([])
        found = self.path.read_bytes() if self.path.exists() else None
        options = [rows for rows in (before, after) if found == (None if rows is None else files_of(rows)[""])]
        assert options, "neither the file from before nor that from after"
        if options[0] is not None:
            self.now_holds(options[0])

    @precondition(lambda self: self.rows is None)
    @rule()
    def refuse_a_new_model_of_one_class(self):
        assert run(self.learning([Row(self.next)])[0]) == 2
        assert not self.path.exists()

    @precondition(lambda self: self.rows)
    @rule()
    def refuse(self):
        """Bad input changes nothing."""
        held = self.rows[0]
        assert (
            run(
                [
                    "learn",
                    self.table([held]),
                    "-o",
                    str(self.path),
                    "--id",
                    "id",
                    "--subject",
                    "who",
                    "--weight",
                    "much",
                ]
            )
            == 2
        )
        assert run(["forget", str(self.path), "--ids-file", str(self.scratch / "none.txt")]) != 0
        assert (
            run(
                [
                    "learn",
                    self.table([Row(self.next)]),
                    "-o",
                    str(self.path),
                    "--id",
                    "id",
                    "--weight",
                    "much",
                    "--kappa",
                    "0.9",
                ]
            )
            == 2
        )

    # -- what always holds ---------------------------------------------------------------------------------------

    @invariant()
    def the_files_are_those_of_the_surviving_rows(self):
        expected = {} if self.rows is None else files_of(self.rows)
        parts = side_files(self.path).parts
        found = {p.name: p.read_bytes() for p in parts.iterdir()} if parts.exists() else {}
        if self.path.exists():
            found[""] = self.path.read_bytes()
        assert found == expected
        assert {p.name for p in self.home.iterdir()} <= {self.path.name, ".m.erasable.lock", ".m.erasable.parts"}

    @invariant()
    def the_file_verifies(self):
        if self.rows is not None:
            model = load(self.path)
            assert model.core_ids_.tolist() == [r.id for r in self.rows]
            assert verify(model).digest == model.state_digest()

    @invariant()
    def nothing_is_left_of_forgotten_rows(self):
        if self.gone:
            rows = list(self.gone.values())
            report = scan(self.home, np.array([r.x for r in rows]), ids=[r.id for r in rows])
            assert report.clean, json.dumps(report.as_json())
            everything = b"".join(p.read_bytes() for p in self.home.rglob("*") if p.is_file())
            assert not any(r.id.encode() in everything for r in rows)


TestModelFile = ModelFileMachine.TestCase
TestModelFile.settings = settings(max_examples=12, stateful_step_count=12, deadline=None)
