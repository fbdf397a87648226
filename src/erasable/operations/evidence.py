"""Write an evidence pack: one page about a model and its receipts, for the files of a data protection officer."""

from __future__ import annotations

import io
import json
import os
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from erasable.audit.keys import PublicKey
from erasable.audit.receipts import Receipt, check_receipt, read_receipt, read_receipt_text
from erasable.errors import (
    ChangedMeanwhileError,
    ConfigurationError,
    InputError,
    ReceiptError,
    SignatureError,
    StateFormatError,
    VerificationError,
)
from erasable.models.files import read_model
from erasable.models.reports import TrainedLearner, VerifyReport
from erasable.models.selections import Independent
from erasable.operations.forget import receipt_name
from erasable.operations.inspect import inspect
from erasable.operations.verify import code_in
from erasable.pages import render
from erasable.store import NOT_KNOWN, write_text
from erasable.version import VERSION

PAGE = "evidence.html"
COPIES = "receipts"
_KEY = "receipts.pub.pem"
_RANDOM = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")  # a UUID of version 4
_KEYID = re.compile(r"[0-9a-f]{64}|")
_COUNTS = ("rows", "files", "bytes", "found")
_LISTS = ("twins", "not_looked_into", "ids_only", "unreadable", "skipped")
_LONGEST_TEXT = 120  # of the name of an audit, and of its verdict
_LARGEST_JSON = 2**24
_TOO_SHORT = {"ids", "subjects", "rows", "texts", "numbers", "cells"}
_FIGURES = ("advantage", "auc", "tpr_at_1_percent", "tpr_at_0.1_percent")


@dataclass(frozen=True)
class FiledReceipt:
    """One receipt as the page shows it.

    Attributes
    ----------
    request : str or None
        The request id if it may be shown: it is random, or the caller said that it names nobody.
    requested_at, completed_at : datetime
    state_after : str
    signature : {"good", "not checked", "wrong"}
    of_this_state, same_guarantee : bool
        Whether it is about the state of the given model, and names its guarantee.
    names_before : bool
        Whether it holds the digest of the state before.
    model : str or None
        The name of the model in it, if its signature is good.
    """

    request: str | None
    requested_at: datetime
    completed_at: datetime
    state_after: str
    signature: str
    of_this_state: bool
    names_before: bool
    same_guarantee: bool
    model: str | None = None

    @property
    def seconds(self) -> float:
        """How long the request took."""
        return (self.completed_at - self.requested_at).total_seconds()


@dataclass(frozen=True)
class Evidence:
    """The facts of a pack: counts, times and digests, but no id, subject, label, value or path.

    Attributes
    ----------
    made_at, erasable_version
    name : str
        Of the model, if the caller named it.
    kind, core_rows, features, classes, bytes, digest, guarantee
        Of the model. ``classes`` is 0 for a regression.
    selection : str
        How rows were chosen: the name of the selection; of independent selection its rate and balance, too.
    independent : bool
        Whether each row was chosen by itself, so that which rows are stored tells nothing about others.
    verified : bool
        Whether learning the stored rows from nothing gives the stored state.
    sums, weights : int
        How many were compared in that.
    learner : TrainedLearner or None
        What training the learner of the model on the stored rows gave, if it has one.
    limits : str
        What that could not see; empty where the file stores sums or weights.
    receipts : tuple of FiledReceipt
        In the order of their completion.
    no_receipts, copies : int
        Files that are no receipts, and receipts that were copied into the pack.
    keyids : tuple of str
        Of the keys that signatures were checked with.
    scan : dict or None
        Counts of a scan, without names of files.
    audit : tuple of dict, or None
        Name, verdict and figures of each check or attack.
    old_bytes : str
        What is known of overwritten bytes of the model's file on the medium: why they may stay, or that nothing is.
    audit_holds : bool or None
        False if the audit says that forgetting left a trace; None if it does not say.
    """

    made_at: datetime
    erasable_version: str
    kind: str
    core_rows: int
    features: int
    classes: int
    bytes: int
    digest: str
    guarantee: str
    selection: str
    independent: bool
    verified: bool
    sums: int
    weights: int
    learner: TrainedLearner | None = None
    limits: str = ""
    receipts: tuple[FiledReceipt, ...] = ()
    no_receipts: int = 0
    keyids: tuple[str, ...] = ()
    scan: dict[str, Any] | None = None
    audit: tuple[dict[str, Any], ...] | None = None
    audit_holds: bool | None = None
    copies: int = 0
    name: str = ""
    old_bytes: str = NOT_KNOWN

    @property
    def wrong_receipts(self) -> int:
        """How many receipts have a wrong signature, or are no receipts."""
        return self.no_receipts + sum(filed.signature == "wrong" for filed in self.receipts)

    @property
    def holds(self) -> bool:
        """Whether none of the checks failed."""
        remains = bool(self.scan and self.scan["found"])
        return self.verified and not self.wrong_receipts and not remains and self.audit_holds is not False

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""

        def plain(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in pairs}

        return {"holds": self.holds, **asdict(self, dict_factory=plain)}


def evidence(
    path: str | os.PathLike[str],
    receipts: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    keys: Sequence[PublicKey] = (),
    scan: str | os.PathLike[str] | None = None,
    audit: str | os.PathLike[str] | None = None,
    request_ids: bool = False,
    like: Any = None,
    now: datetime | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Evidence:
    """Write a self-contained, printable page about a model and its receipts that names nobody.

    Parameters
    ----------
    path : str or path
        The model file. It is verified: its rows are learnt again from nothing.
    receipts : str or path
        A folder, of which every ``.json`` file is read as a receipt, or one receipt.
    out : str or path
        A new or empty folder for ``evidence.html`` and copies of receipts with a good signature that name nobody.
    keys : sequence of PublicKey
        Of the signers. Without any, signatures are not checked, and the page states it.
    scan, audit : str or path, optional
        JSON of ``erasable scan --json`` and of an audit: see ``docs/evidence.md``.
    request_ids : bool, default=False
        Show request ids even if they are not random: the caller knows that they name nobody.
    like, progress, now
        An estimator for models that need code (see ``load``), a function of (rows verified, rows in all), and the time
        that the page says it was made, with a time zone.

    Raises
    ------
    ConfigurationError, InputError, StoreError, OSError
        If the folder is not empty, or a file cannot be read or written. A failed check makes ``holds`` False instead.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from sklearn.datasets import load_iris
    >>> from erasable import ErasableClassifier, ModelFile, evidence
    >>> from erasable.audit.keys import new_key
    >>> folder, key = pathlib.Path(tempfile.mkdtemp()), new_key()
    >>> ErasableClassifier().fit(*load_iris(return_X_y=True)).save(folder / "iris.erasable")
    >>> report = ModelFile(folder / "iris.erasable", key=key).forget(ids=[3])
    >>> _ = (folder / "receipt.json").write_text(report.receipt)
    >>> evidence(folder / "iris.erasable", folder / "receipt.json", folder / "pack", keys=[key.public]).holds
    True
    """
    folder, texts = _new_folder(out), _texts(Path(receipts))
    made_at = (now or datetime.now(UTC)).astimezone(UTC).replace(microsecond=0)
    facts = {"made_at": made_at, "keyids": tuple(key.keyid for key in keys), **_other_checks(scan, audit)}
    found = replace(_checked_model(path, like, progress), **facts)
    found, filed = _with_receipts(found, texts, keys, request_ids)
    copied = {i: text for i, (text, f) in enumerate(filed, 1) if _may_be_copied(text, f)}
    found = replace(found, copies=len(copied))
    _write_pack(folder, found, copied)
    return found


def _other_checks(scan: str | os.PathLike[str] | None, audit: str | os.PathLike[str] | None) -> dict[str, Any]:
    """Return what a scan and an audit found, by the attributes of ``Evidence``."""
    audited = {} if audit is None else _json(audit, "the audit")
    return {
        "scan": None if scan is None else _scan_counts(_json(scan, "the scan")),
        "audit": None if audit is None else _audit_results(audited),
        "audit_holds": audited.get("holds"),
    }


def _new_folder(out: str | os.PathLike[str]) -> Path:
    """Return the path of a folder that does not exist or is empty; ConfigurationError for another one."""
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigurationError(f"{folder} exists and is not empty: give a new folder for the pack.")
    return folder


def _write_pack(folder: Path, found: Evidence, receipts: dict[int, str]) -> None:
    """Write the page, and copies of these receipts under their numbers on it."""
    folder.mkdir(parents=True, exist_ok=True)
    if receipts:
        (folder / COPIES).mkdir()
    for number, text in receipts.items():
        write_text(folder / COPIES / f"{number:04d}.json", text)
    write_text(folder / PAGE, _page(found))


def evidence_page(
    path: str | os.PathLike[str], name: str, receipts: Sequence[str], key: PublicKey, report: VerifyReport
) -> str:
    """Return the page about a model that was verified, with the texts of receipts that this key signed.

    Raises
    ------
    ChangedMeanwhileError
        If the model has changed since it was verified.
    """
    found = replace(_checked_model(path, None, None, report), name=name, keyids=(key.keyid,))
    return _page(_with_receipts(found, receipts, [key], request_ids=False)[0])


def _with_receipts(
    found: Evidence, texts: Sequence[str], keys: Sequence[PublicKey], request_ids: bool
) -> tuple[Evidence, list[tuple[str, FiledReceipt]]]:
    """Return the evidence with receipts, and each receipt with its text, in the order of their completion."""
    read = [(text, *_read(text, keys)) for text in texts]
    filed = [(text, _filed(said, signature, found, request_ids)) for text, said, signature in read if said is not None]
    filed.sort(key=lambda entry: (entry[1].completed_at, entry[1].requested_at, entry[1].of_this_state, entry[0]))
    return replace(found, receipts=tuple(f for _, f in filed), no_receipts=len(read) - len(filed)), filed


def _page(found: Evidence) -> str:
    figures = [name for name in _FIGURES if any(name in result for result in found.audit or ())]
    return render("evidence.html", e=found, figures=figures)


def _checked_model(
    path: str | os.PathLike[str],
    like: object,
    progress: Callable[[int, int], None] | None,
    report: VerifyReport | None = None,
) -> Evidence:
    """Return the facts of the model, verified now or by an earlier ``report``; a file that is no model is an error."""
    about = inspect(path)
    model, _ = read_model(path, code_in(like))
    try:
        report = model.verify(progress) if report is None else report
        verified, sums, weights, learner, limits = True, report.sums, report.weights, report.learner, report.limits
        if report.digest != about.digest:
            raise ChangedMeanwhileError("the model changed while it was being read: make the pack again.")
    except (VerificationError, StateFormatError):  # `verify` reports what differs
        verified, sums, weights, learner, limits = False, 0, 0, None, ""
    names = "kind", "core_rows", "features", "classes", "bytes", "digest", "old_bytes"
    about_model = {name: getattr(about, name) for name in names}
    return Evidence(
        made_at=datetime.now(UTC),
        erasable_version=VERSION,
        guarantee=" ".join(str(model.guarantee).split()),
        selection=_selection_text(model.selection),
        independent=model.selection.independent,
        verified=verified,
        sums=sums,
        weights=weights,
        learner=learner,
        limits=limits,
        **about_model,
    )


def _selection_text(selection: Any) -> str:
    """Return the name of a selection and, where it is independent, the public numbers that the caller chose."""
    if not isinstance(selection, Independent):
        return str(selection.NAME)
    return f"{selection.NAME}, rate {selection.rate:g}, balance {selection.balance:g}"


def _texts(path: Path) -> list[str]:
    """Return the texts of all receipts, each once; an empty one for a file that is no text."""
    if not path.exists():
        raise InputError(f"{path} does not exist: give the folder of the receipts.")
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise InputError(f"{path} holds no receipts: files that end in .json.")
    found = []
    for file in files:
        try:
            found.append(read_receipt_text(file))
        except ReceiptError:
            found.append("")
    return list(dict.fromkeys(found))


def _read(text: str, keys: Sequence[PublicKey]) -> tuple[Receipt | None, str]:
    """Return the receipt in a text, if it is one, and whether its signature is good."""
    try:
        receipt = read_receipt(text)
    except ReceiptError:
        return None, "wrong"
    for key in keys:
        try:
            return check_receipt(text, key), "good"
        except SignatureError:
            continue
    return receipt, "wrong" if keys else "not checked"


def _filed(receipt: Receipt, signature: str, model: Evidence, request_ids: bool) -> FiledReceipt:
    """Return what the page shows of a receipt."""
    shown = request_ids or _RANDOM.fullmatch(receipt.request_id) is not None
    return FiledReceipt(
        receipt.request_id if shown else None,
        receipt.requested_at,
        receipt.completed_at,
        receipt.state_after,
        signature,
        receipt.state_after == model.digest,
        receipt.state_before is not None,
        receipt.guarantee == model.guarantee,
        receipt.model if signature == "good" else None,
    )


def _may_be_copied(text: str, filed: FiledReceipt) -> bool:
    """Return whether a receipt holds no text that could name somebody; unsigned parts could be anybody's."""
    if filed.request is None or filed.signature != "good":
        return False
    return all(_KEYID.fullmatch(signature.get("keyid", "")) for signature in json.loads(text)["signatures"])


# -- results of other commands -------------------------------------------------------------------------------------


def _json(path: str | os.PathLike[str], what: str) -> dict[str, Any]:
    """Return the JSON object in a file."""
    with open(path, "rb") as file:
        raw = file.read(_LARGEST_JSON + 1)
    try:
        if len(raw) > _LARGEST_JSON:
            raise ValueError
        found = json.loads(raw)
    except (ValueError, RecursionError):
        raise InputError(
            f"{what} is no JSON, or has more than {_LARGEST_JSON:,} bytes: give what --json printed."
        ) from None
    if not isinstance(found, dict):
        raise InputError(f"{what} must be a JSON object; got {type(found).__name__}.")
    return found


def _scan_counts(found: dict[str, Any]) -> dict[str, Any]:
    """Return the counts of a scan, without names of files, which may name somebody."""
    short = found.get("too_short")
    fits = (
        all(_is_count(found.get(name)) for name in _COUNTS)
        and all(isinstance(found.get(name), list) for name in _LISTS)
        and isinstance(short, dict)
        and short.keys() <= _TOO_SHORT
        and all(_is_count(count) for count in short.values())
    )
    if not fits or not isinstance(short, dict):
        raise InputError("the scan is of another form: give what `erasable scan --json` printed.")
    counts = {name: found[name] for name in _COUNTS} | {name: len(found[name]) for name in _LISTS}
    return {**counts, "too_short": short}


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _audit_results(found: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """Return name, verdict and figures of each result of an audit."""
    listed = found.get("results")
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise InputError("the audit must have a list `results` of objects: see docs/evidence.md.")
    if not isinstance(found.get("holds"), bool | None):
        raise InputError("`holds` of the audit must be true or false: see docs/evidence.md.")
    return tuple(map(_audit_result, listed))


def _audit_result(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the members of a result that the page shows, checked."""
    for name in ("name", "verdict"):
        text = entry.get(name)
        if not isinstance(text, str) or not text.isprintable() or not 1 <= len(text) <= _LONGEST_TEXT:
            raise InputError(f"`{name}` of a result of the audit must be one line of 1 to {_LONGEST_TEXT} characters.")
    figures = {name: entry[name] for name in _FIGURES if entry.get(name) is not None}
    for name, value in figures.items():
        numbers = value if isinstance(value, list) and len(value) == 3 else [value]
        if not all(type(number) in (int, float) and abs(number) <= 1 for number in numbers):
            raise InputError(f"`{name}` in the audit must be a number from -1 to 1, or three (value, low, high).")
    letter = {"letter": entry["letter"]} if entry.get("letter") in [*"abcdef"] else {}
    return {**letter, "name": entry["name"], "verdict": entry["verdict"], **figures}


# -- an archive for one request ------------------------------------------------------------------------------------


def evidence_archive(
    request_id: str,
    facts: Mapping[str, str],
    receipts: Mapping[str, str],
    pages: Mapping[str, str],
    key: PublicKey,
    old_bytes: str = NOT_KNOWN,
) -> bytes:
    """Return a zip archive with which others can check an erasure without its signer.

    Parameters
    ----------
    request_id : str
    facts : mapping of str to str
        What the page in plain words states of the request, by name. It must name nobody.
    receipts, pages : mapping of str to str
        Texts of receipts and evidence pages, by the name of the model.
    key : PublicKey
        Of the signer.
    old_bytes : str, optional
        What is known of overwritten bytes on the medium.
    """
    names: dict[str, str] = {}  # of files, by model: two models may differ in characters that file names do not have
    for model in sorted(receipts):
        name = receipt_name(model, request_id).removeprefix("receipt-").removesuffix(".json")
        names[model] = name if name not in names.values() else f"{name}-{len(names)}"
    signed = {f"receipt-{names[model]}.json": model for model in names}
    made = {f"evidence-{names[model]}.html": model for model in pages}
    values = {"request_id": request_id, "facts": facts, "keyid": key.keyid, "key": _KEY, "old_bytes": old_bytes}
    content: dict[str, str | bytes] = {
        "READ-ME-FIRST.html": render("pack.html", receipts=signed, pages=made, **values),
        _KEY: key.pem(),
        **{file: receipts[model] for file, model in signed.items()},
        **{file: pages[model] for file, model in made.items()},
    }
    out, now = io.BytesIO(), datetime.now(UTC)
    with zipfile.ZipFile(out, "w") as archive:
        for file, text in content.items():
            info = zipfile.ZipInfo(file, (now.year, now.month, now.day, now.hour, now.minute, now.second))
            archive.writestr(info, text, zipfile.ZIP_DEFLATED)
    return out.getvalue()
