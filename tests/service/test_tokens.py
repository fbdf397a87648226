"""Tokens are shown once, kept as hashes, and good for what they were made for until they expire or are revoked."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta

import pytest

from erasable.cli.app import run
from erasable.errors import ConfigurationError, StateFormatError, StoreError
from erasable.service.tokens import SCOPES, TokenFile, _parsed, list_tokens, make_token, revoke_token


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tokens.json"


def scopes(known, text):
    token = known.of(text)
    return frozenset() if token is None else frozenset(token.scopes)


def test_a_token_allows_what_it_was_made_for_and_the_file_does_not_hold_it(path):
    known = TokenFile(path)
    assert scopes(known, "erasable_whatever") == frozenset()
    one, two = make_token(path, "desk", ["audit", "erase"]), make_token(path, "app", ["predict"])
    assert scopes(known, one) == {"erase", "audit"}
    assert scopes(known, two) == {"predict"}
    assert known.of(one).name == "desk"
    assert scopes(known, one + "x") == scopes(known, "") == scopes(known, "\ud800") == frozenset()
    assert len(one) > 50
    data = path.read_text()
    assert one not in data
    assert one.removeprefix("erasable_") not in data
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert [(token.name, token.scopes) for token in list_tokens(path)] == [
        ("desk", ("erase", "audit")),
        ("app", ("predict",)),
    ]


def test_a_revoked_token_is_none_at_once(path):
    known, one, two = TokenFile(path), make_token(path, "a", SCOPES), make_token(path, "b", SCOPES)
    assert scopes(known, one) == set(SCOPES)
    revoke_token(path, "a")
    assert scopes(known, one) == frozenset()
    assert scopes(known, two) == set(SCOPES)
    with pytest.raises(ConfigurationError, match="no token of this name"):
        revoke_token(path, "a")
    make_token(path, "a", ["predict"])
    path.unlink()
    assert scopes(known, two) == frozenset()


def test_a_token_expires(path):
    now = datetime(2026, 1, 1, tzinfo=UTC)
    times = [now]
    known = TokenFile(path, lambda: times[0])
    token = make_token(path, "a", ["predict"], expires=now + timedelta(days=1))
    assert scopes(known, token) == {"predict"}
    times[0] = now + timedelta(days=1)
    assert scopes(known, token) == frozenset()


def test_a_clock_that_is_set_back_makes_no_token_last_longer(path):
    now = datetime(2026, 1, 1, tzinfo=UTC)
    times, passed = [now], [0.0]
    known = TokenFile(path, lambda: times[0], lambda: passed[0])
    token = make_token(path, "a", ["predict"], expires=now + timedelta(days=1))
    assert scopes(known, token) == {"predict"}
    times[0] = now - timedelta(days=40)
    passed[0] = 86_399.0
    assert scopes(known, token) == {"predict"}
    passed[0] = 86_400.0
    assert scopes(known, token) == frozenset()
    make_token(path, "b", ["predict"], expires=times[0] + timedelta(days=1))  # the clock is right from now on
    assert scopes(known, token) == {"predict"}


@pytest.mark.parametrize(
    ("name", "scopes"),
    [("", ["predict"]), ("a b", ["predict"]), ("a", []), ("a", ["predict", "root"]), ("x" * 65, ["audit"])],
)
def test_names_and_scopes_that_cannot_be_are_refused(path, name, scopes):
    with pytest.raises(ConfigurationError):
        make_token(path, name, scopes)
    assert not path.exists()


def test_names_are_taken_once_and_times_say_their_zone(path):
    make_token(path, "a", ["predict"])
    with pytest.raises(ConfigurationError, match="already"):
        make_token(path, "a", ["audit"])
    with pytest.raises(ConfigurationError, match="time zone"):
        make_token(path, "b", ["audit"], expires=datetime(2026, 1, 1))


@pytest.mark.parametrize("text", ["", "{}", '{"tokens": [{}]}', '{"tokens": 3}', "[1]"])
def test_another_file_is_no_file_of_tokens(path, text):
    path.write_text(text)
    with pytest.raises(StateFormatError, match="no file of tokens"):
        list_tokens(path)
    with pytest.raises(StateFormatError):
        scopes(TokenFile(path), "x")


def test_a_file_of_tokens_with_any_byte_damaged_is_refused(path):
    make_token(path, "desk", ["erase", "audit"], expires=datetime(2030, 1, 1, tzinfo=UTC))
    make_token(path, "app", ["predict"])
    whole = path.read_bytes()
    cut = [whole[:n] for n in range(len(whole))]
    changed = [
        whole[:i] + bytes([whole[i] ^ bit]) + whole[i + 1 :] for i in range(len(whole)) for bit in (1, 2, 32, 128)
    ]
    lines = whole.splitlines(keepends=True)
    moved = [b"".join(lines[:i] + lines[i + 1 :]) for i in range(len(lines))]
    moved += [b"".join(lines[:i] + 2 * lines[i : i + 1] + lines[i + 1 :]) for i in range(len(lines))]
    for text in [*cut, *changed, *moved, whole + b"\n", whole.replace(b" ", b"")]:
        with pytest.raises(StateFormatError):
            _parsed(text, None)
    assert [token.name for token in _parsed(whole, None)] == ["desk", "app"]


def test_a_file_from_before_there_was_a_checksum_is_read_and_gets_one(path):
    make_token(path, "desk", ["erase"])
    old = json.loads(path.read_text())
    del old["checksum"]
    path.write_bytes(json.dumps(old, indent=1).encode() + b"\n")
    assert [token.name for token in list_tokens(path)] == ["desk"]
    path.write_text(json.dumps(old))
    with pytest.raises(StateFormatError, match="damaged, or was edited"):
        list_tokens(path)
    path.write_bytes(json.dumps(old, indent=1).encode() + b"\n")
    make_token(path, "app", ["predict"])
    assert "checksum" in json.loads(path.read_text())


def test_the_command_makes_lists_and_revokes(path, capsys):
    where = ["--file", str(path)]
    assert run(["token", "make", "desk", "--scope", "erase", "--scope", "audit", "--days", "3", *where]) == 0
    said = capsys.readouterr()
    token = said.out.strip()
    assert scopes(TokenFile(path), token) == {"erase", "audit"}
    assert token not in said.err
    assert run(["token", "make", "app", "--scope", "predict", *where, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["expires"] is None
    assert scopes(TokenFile(path), made["token"]) == {"predict"}
    assert run(["token", "list", *where]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[:2] for line in lines] == [["desk", "erase,audit"], ["app", "predict"]]
    assert run(["token", "list", *where, "--json"]) == 0
    assert [entry["name"] for entry in json.loads(capsys.readouterr().out)] == ["desk", "app"]
    assert run(["token", "revoke", "desk", *where]) == 0
    assert run(["token", "revoke", "app", *where, "--json"]) == 0
    assert list_tokens(path) == []
    assert run(["token", "revoke", "app", *where]) == 2
    assert run(["token", "make", "a", "--scope", "root", *where]) == 2
    assert run(["token", "make", "a", "--scope", "audit", "--days", "0", *where]) == 2
    with pytest.raises(StoreError):
        list_tokens(path.with_name("none"))
