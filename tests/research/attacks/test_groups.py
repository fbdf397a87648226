"""The share kept by group."""

from __future__ import annotations

import json

import pytest

from erasable.cli.app import run
from erasable.errors import InputError
from erasable.research.attacks.groups import OTHERS, kept_by_group
from tests.research.attacks.cases import make_pool


def test_small_groups_are_taken_together():
    groups = ["a"] * 40 + ["b"] * 30 + ["c"] * 5 + ["d"] * 4
    found = {kept.group: (kept.offered, kept.stored) for kept in kept_by_group(range(35, 79), range(79), groups)}
    assert found == {"a": (40, 5), "b": (30, 30), OTHERS: (9, 9)}


def test_the_share_comes_with_its_interval():
    (one,) = kept_by_group(range(25), range(100), ["all"] * 100)
    assert one.share.value == 0.25
    assert one.share.low < 0.25 < one.share.high
    assert one.share.high - one.share.low < 0.25


def test_another_table_is_refused():
    with pytest.raises(InputError, match="none of these ids"):
        kept_by_group(["x"], range(30), ["a"] * 30)
    with pytest.raises(InputError, match="2 ids and 3 groups"):
        kept_by_group([1], [1, 2], "abc")


@pytest.mark.parametrize("named", ["r{}", "{}"], ids=["text ids", "integer ids"])
def test_the_command_counts_what_a_model_file_stores(tmp_path, monkeypatch, capsys, named):
    monkeypatch.chdir(tmp_path)
    X, y = make_pool(100, 3)
    lines = ["id,kind,a,b,c,label"]
    lines += [
        ",".join(map(str, (named.format(i), "even" if i % 2 else "", *x, s)))
        for i, (x, s) in enumerate(zip(X, y, strict=True))
    ]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert run(["learn", "rows.csv", "--id", "id", "--ignore", "kind", "-o", "m.erasable"]) == 0
    capsys.readouterr()
    asked = ["audit", "m.erasable", "--data", "rows.csv", "--group", "kind"]
    assert run([*asked, "--id", "id", "--json"]) == 0
    groups = json.loads(capsys.readouterr().out)["groups"]
    assert {g["group"]: g["offered"] for g in groups} == {"even": 50, "": 50}
    assert run(["inspect", "m.erasable", "--json"]) == 0
    assert sum(g["stored"] for g in groups) == json.loads(capsys.readouterr().out)["core_rows"]
    assert run([*asked, "--id", "id"]) == 0
    assert "Who is stored" in capsys.readouterr().out
    assert run(asked) == 2
    assert run([*asked, "--id", "nowhere"]) == 2
