"""A model kept in a file: every change is durable when the call returns, and many requests share one rewrite."""

from __future__ import annotations

import os
import signal
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from dataclasses import replace as with_counts
from typing import Any

from erasable.audit.keys import PrivateKey
from erasable.audit.receipts import Receipt, make_receipt
from erasable.core.layout import digest_of, read_meta
from erasable.core.names import Spelling
from erasable.core.selector import Decisions
from erasable.errors import ConfigurationError, InputTypeError, StateFormatError, StoreError, UnknownOutcomeError
from erasable.models.access import StoredRows
from erasable.models.configuration import map_of, spelling_in
from erasable.models.files import (
    checksum_at,
    checksum_of,
    files_of,
    locked_model,
    model_of,
    naming,
    needs_code,
    read_header,
    read_model,
    refuse_odd_size,
    shards_of,
    write,
)
from erasable.models.model import Model
from erasable.models.passes import BUDGET_BYTES, Ahead
from erasable.models.reports import (
    ForgetReport,
    LearnReport,
    TrainedLearner,
    VerifyReport,
    thinned,
    warn_of_emptied_classes,
)
from erasable.models.state import State
from erasable.operations.inspect import rows_of
from erasable.operations.new_rows import NewRows, Suppressed, stored_ids
from erasable.operations.requests import KEY_TYPES, Counts, Request, RequestQueue, Ticket
from erasable.operations.verify import code_in, verify_file
from erasable.store import PRIVATE, Fetch, Writer, check_mode, doubt_about_blocks, side_files
from erasable.store import read as read_file

#: Given the model that a file holds, or None: the rows to learn, and the estimator that learns them. The estimator
#: wraps that model, or is unfitted if there is none.
Prepare = Callable[[Model | None], tuple[Iterable[Any], Any]]


@dataclass(frozen=True)
class LearnOptions:
    """How rows enter a model file."""

    # skip_known, replace, allow_no_subject, mode, budget_bytes, suppressed, engine, progress: as in
    # ``ModelFile.learn``.
    skip_known: bool = False
    replace: bool = False
    allow_no_subject: bool = False
    mode: int = PRIVATE
    budget_bytes: int = BUDGET_BYTES
    suppressed: Suppressed | None = None
    engine: object = None
    progress: Callable[[int], None] | None = None
    # Called with the number of rows read in the first pass of a new model, before any of them is decided.
    reading: Callable[[int], None] | None = None
    # Called with a model and rows that it has not learnt yet; see ``erasable.models.passes``.
    ahead: Ahead | None = None

    def __post_init__(self) -> None:
        check_mode(self.mode)
        if self.skip_known and self.replace:
            raise ConfigurationError("skip_known= leaves stored rows as they are, and replace= does not: give one.")


class ModelFile:
    """A model in a file, for processes that keep changing it: the model stays in memory between calls.

    Every change takes the file's lock, loads what other processes wrote meanwhile, and returns only when the new file
    is durable and the old one erased. The lock is held for the change alone: several processes can work on one file,
    and readers never wait. Calls from several threads at the same time share one rewrite. Digests and receipts are of
    bytes that were read or written in that call.

    Parameters
    ----------
    path : str or path
        The file. It must exist, except for ``learn`` with ``new``.
    like : estimator, optional
        As in ``erasable.load``.
    timeout : float, optional
        Seconds to wait for another process or thread that is changing the file; by default without limit. A caller
        whose request another thread has begun to carry out waits for the outcome.
    key : PrivateKey, optional
        Sign a receipt for every request with it; see ``erasable.audit.keys``.
    after_only : bool, default=False
        Leave the digest of the state before out of receipts: with it, a holder of the state after could test guesses
        of the forgotten rows.
    verify_first : bool, default=True
        With a key: verify the new state before it is written. If it does not verify, nothing is forgotten. This takes
        about as long as learning the core rows did, once for all requests that share a rewrite.
    rewrite_unchanged : bool, default=False
        Rewrite the file even if a request names nothing that is stored, so that neither the duration nor the time
        stamp of the file reveals it.
    managed_as : str, optional
        The id of the mark that this program has set at the file; see ``erasable.store.set_mark``.
    announce : callable, optional
        Called before ``forget`` or ``learn`` replaces the file, under its lock, with the checksum in its header (empty
        for a new file) and that of the new file. If it raises, the file is unchanged.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sklearn.datasets import load_iris
    >>> from erasable import ErasableClassifier, ModelFile
    >>> X, y = load_iris(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "iris.erasable")
    ...     ErasableClassifier().fit(X, y).save(path)
    ...     file = ModelFile(path)
    ...     report = file.forget(ids=[0, 50, 100])
    ...     reports = file.forget_together([{"ids": [1]}, {"ids": [2, 3]}])
    ...     file.verify().core_rows == reports[-1].core_rows == file.model.n_core_
    True
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        like: object = None,
        timeout: float | None = None,
        key: PrivateKey | None = None,
        after_only: bool = False,
        verify_first: bool = True,
        rewrite_unchanged: bool = False,
        managed_as: str | None = None,
        announce: Callable[[str, str], None] | None = None,
    ) -> None:
        self._managed_as = managed_as
        self.path = os.fspath(path)
        self._like = like
        self._key, self._after_only, self._verify_first = key, after_only, verify_first
        self._rewrite_unchanged, self.announce = rewrite_unchanged, announce
        self._cache = ModelCache(self.path, like)
        self._queue = RequestQueue(self.path, timeout)

    def __repr__(self) -> str:
        return f"ModelFile({self.path!r})"

    @property
    def model(self) -> Any:
        """The model as the file holds it now, a copy in memory: changing it does not change the file."""
        from erasable.estimators.files import load  # only here: files are changed without scikit-learn

        return load(self.path, like=self._like)

    def key_types(self) -> tuple[type | None, type | None]:
        """Return the types of the ids and subjects of the core rows: int, str or bytes; None if there are none."""
        # If the header does not state them, reading the whole file finds out what is wrong.
        with suppress(OSError, StateFormatError, LookupError, TypeError):
            meta = read_meta(read_header(self.path)[0])
            if not needs_code(meta):
                return KEY_TYPES[meta["id_kind"]], KEY_TYPES[meta["subject_kind"]]
        core = read_model(self.path, code_in(self._like))[0].core
        return core.id_type, core.subject_type

    def spelling(self) -> Spelling:
        """Return the normalisation of ids and subjects that the schema in the file declares; empty without one."""
        with suppress(OSError, StateFormatError, LookupError, TypeError):  # reading the whole file reports the error
            return spelling_in(read_meta(read_header(self.path)[0]))
        return {}

    def is_done(self, request: Request, digest: str) -> bool:
        """Whether the file holds the state with this digest, and none of the rows that the request names."""
        with self._queue.exclusive():
            model = self._cache.read()
            return self._cache.digest(model) == digest and not request.named_in(model).found

    # -- changing ------------------------------------------------------------------------------------------------

    def forget(
        self, *, ids: object = None, subjects: object = None, request_id: str | None = None, digests: bool = False
    ) -> ForgetReport:
        """Remove rows from the model and from the disk; durable on return.

        Parameters
        ----------
        ids, subjects : array-like, optional
            As in ``ErasableClassifier.forget``. Unknown ones are no error.
        request_id : str, optional
            The name of this request in the receipt; no name of a person. By default a random one.
        digests : bool, default=False
            Report the digests before and after even without a receipt.

        Raises
        ------
        StoreError
            When the file could not be replaced; it is unchanged, and nothing is forgotten.
        NotErasedError
            When the rows are forgotten, but the old file could not be erased: ask again.
        UnknownOutcomeError
            When it is not known whether the rows are forgotten durably: ask again.

        Warns
        -----
        EmptiedClassWarning
            When the last core row of a class was removed; given after the file was replaced.
        """
        return self._carried_out([Request(ids, subjects, request_id)], digests)[0]

    def forget_together(self, requests: Iterable[Any], *, digests: bool = False) -> list[ForgetReport]:
        """Carry out many requests with one rewrite: on return all of them are durable, or none.

        Parameters
        ----------
        requests : iterable of Request, or of mappings with ``ids`` and ``subjects``
        digests : bool, default=False
            As in ``forget``.

        Returns
        -------
        list of ForgetReport
            One for each request. A row that several requests name counts for the first.
        """
        asked = [Request.of(given) for given in requests]
        return self._carried_out(asked, digests) if asked else []

    def learn(
        self,
        blocks: Iterable[Any],
        *,
        new: object = None,
        skip_known: bool = False,
        replace: bool = False,
        allow_no_subject: bool = False,
        progress: Callable[[int], None] | None = None,
        mode: int = PRIVATE,
        budget_bytes: int = BUDGET_BYTES,
        suppressed: Suppressed | None = None,
        engine: object = None,
    ) -> LearnReport:
        """Learn the rows of all blocks as one call, then write the file once: all of it, or nothing.

        With ``order="hashed"``, the blocks are read several times if they do not fit ``budget_bytes``; with
        ``order="given"``, once. The lock is held until all rows are learnt, so forgetting waits that long.

        Parameters
        ----------
        blocks : iterable of Table
            Anything with ``X``, ``y``, ``ids`` and ``subjects``, and optionally ``weights``. If it can be read only
            once, it has to fit ``budget_bytes`` unless rows are decided in the given order.
        new : estimator, optional
            An unfitted model to start with if the file does not exist; it is not changed. With ``kappa`` it needs
            ``horizon`` too. If the file exists, its model must have these parameters.
        skip_known : bool, default=False
            Skip rows whose ids are stored instead of refusing all rows, so that a table can be sent again. Rows that
            were offered before and not kept left no trace: they are decided again.
        replace : bool, default=False
            Learn rows whose ids are stored in place of those: a correction. *Law*: the file is that of forgetting all
            ids of these rows, then learning the rows; but it is written once, and a crash leaves it as before or as
            after. The old rows are erased without a receipt. The blocks must be readable twice.
        allow_no_subject : bool, default=False
            As in ``ErasableClassifier.fit``.
        progress : callable, optional
            Called with the number of rows done.
        mode : int, default=0o600
            Permissions of a new file, as in ``save``.
        budget_bytes : int, default=256 MiB
            About how many bytes of rows are held at a time. It changes the number of passes and nothing else.
        suppressed : callable, optional
            Given the ids and subjects of a block, returns which rows to skip because a person asked never to be learnt.
        engine : None, "local", "torch", "dask" or Engine, optional
            Where rows are screened, as in ``ErasableClassifier``; by default the engine of ``new``.
        """
        if new is not None and getattr(new, "__sklearn_is_fitted__", lambda: True)():
            raise InputTypeError("new must be an unfitted model, such as ErasableClassifier(threshold=0.05).")
        options = LearnOptions(
            skip_known,
            replace,
            allow_no_subject,
            mode,
            budget_bytes,
            suppressed,
            getattr(new, "engine", None) if engine is None else engine,
            progress,
        )
        return self.learn_prepared(lambda model: (blocks, self._estimator(model, new)), options)

    def learn_prepared(self, prepare: Prepare, options: LearnOptions) -> LearnReport:
        """Learn rows that can only be read once the model in the file is known; see ``learn``.

        ``prepare`` is called under the lock. It must not change the same file.
        """
        with self._queue.exclusive(), self._locked() as writer:
            model = self._cache.under_lock(writer) if writer.exists() else None
            blocks, estimator = prepare(model)
            offered = None
            if options.suppressed is not None or (options.skip_known and model is not None):
                spelling = model.spelling if model is not None else getattr(map_of(estimator), "identity", {})
                known = model if options.skip_known else None
                blocks = offered = NewRows(blocks, known, options.suppressed, spelling)
            replaced = stored_ids(blocks, model) if options.replace and model is not None else []
            classes = set() if model is None else set(model.classes)
            self._cache.model = None  # until the file holds this model
            if model is not None and replaced:
                model.drop_caches()  # rows are learnt next, and weights depend on those
                model.remove(replaced)
            try:
                report: LearnReport = estimator.learn_blocks(
                    blocks,
                    allow_no_subject=options.allow_no_subject,
                    progress=options.progress,
                    budget_bytes=options.budget_bytes,
                    reading=options.reading,
                    ahead=options.ahead,
                    engine=options.engine,
                )
            except ConfigurationError:
                if model is None or offered is None or not offered.nothing_new:
                    raise
                report = LearnReport(0, 0, len(model.core), Decisions(), **model.selection.rate_facts())
                writer.make_durable()
            else:
                self._cache.write(writer, estimator.model_.snapshot(), options.mode, announce=self.announce)
            self._cache.model = estimator.model_
        if len(estimator.model_.core):
            warn_of_emptied_classes(len(classes - set(estimator.model_.classes)))
        known_rows, listed = (0, 0) if offered is None else (offered.rows_known, offered.rows_suppressed)
        return with_counts(report, rows_known=known_rows, rows_replaced=len(replaced), rows_suppressed=listed)

    def _estimator(self, model: Model | None, new: Any) -> Any:
        """Return an estimator for the model in the file, or a copy of ``new`` if there is none."""
        from sklearn.base import clone

        from erasable.estimators.files import estimator_of  # only here: files are changed without scikit-learn

        if model is None:
            if new is None:
                raise StoreError(f"{self.path} does not exist: check the path, or give a new model to start with.")
            return clone(new)
        estimator = estimator_of(model, self._like)
        if not hasattr(estimator, "partial_fit"):
            raise ConfigurationError("a model of this kind learns all its rows at once: fit it and save it.")
        if new is None:
            return estimator
        if type(new) is not type(estimator):
            raise ConfigurationError(
                f"{self.path} holds a model of {type(estimator).__name__}, and new is {type(new).__name__}."
            )
        try:
            new.check_agrees(model)
        except ConfigurationError as error:
            raise ConfigurationError(f"{self.path} holds a model with other parameters than new: {error}") from error
        return estimator

    # -- looking and checking ------------------------------------------------------------------------------------

    def rows_of(self, *, ids: list[Any] | None = None, subjects: list[Any] | None = None) -> StoredRows:
        """Return the stored rows with these ids and subjects; see ``erasable.operations.inspect.rows_of``.

        Parameters
        ----------
        ids, subjects : list, optional
            Names of rows and of people; unknown ones have no rows.
        """
        return rows_of(self.path, ids=ids, subjects=subjects)

    def predictor(self) -> tuple[Model, str]:
        """Return an independent predictor for the model in the file, and the checksum of the file.

        The file is only read if it is no longer that of the model in memory.
        """
        with self._queue.exclusive():
            model = self._cache.unchanged() or self._cache.read()
            return model.predictor(), self._cache.checksum

    def verify(self, *, progress: Callable[[int, int], None] | None = None) -> VerifyReport:
        """Recompute what the file holds from its own rows; see ``erasable.verify``.

        Parameters
        ----------
        progress : callable, optional
            Called with (rows done, rows in all).
        """
        return verify_file(self.path, like=self._like, progress=progress)

    # -- how -----------------------------------------------------------------------------------------------------

    def _carried_out(self, requests: list[Request], digests: bool) -> list[ForgetReport]:
        reports = self._queue.submit(Ticket(requests, digests or self._key is not None), self._forget_all)
        warn_of_emptied_classes(reports[0].classes_emptied, stacklevel=4)  # those of one call share a rewrite
        return reports

    def _forget_all(self, batch: list[Ticket]) -> None:
        """Carry out the requests of all tickets with one rewrite; each ticket is settled, whatever happens."""
        try:
            with self._locked() as writer:
                digests = any(t.digests for t in batch)
                model = self._cache.under_lock(writer, whole=digests)
                self._cache.model = None  # until the file holds this model
                before = self._cache.digest(model) if digests else None
                leaving: dict[Any, None] = {}
                found = [t.collect_rows(model, leaving) for t in batch]
                counts_before = model.rows_by_class()
                if self._rewrite_unchanged and not (leaving and model.head.trains_at_once):
                    model.drop_caches()  # weights are solved for from nothing, whether rows leave or not
                _, emptied = model.remove(list(leaving))
                lost = emptied, thinned(counts_before, model.rows_by_class())
                signing = self._key is not None and self._verify_first
                # One snapshot is verified, written, signed and reported.
                rewriting = bool(leaving) or self._rewrite_unchanged
                state = model.snapshot() if rewriting or signing else None
                learner = model.verify(state=state).learner if signing else None
                if rewriting and state is not None:
                    self._cache.write(writer, state, digests=digests, announce=self.announce)
                else:
                    writer.make_durable()
                self._cache.model = model
                after = None if not digests else before if not leaving or state is None else state.digest
            for ticket, counts in zip(batch, found, strict=True):
                if not ticket.done:
                    ticket.settle(self._reports(ticket, counts, model, (before, after), lost, learner))
        except Exception as error:
            for ticket in batch:
                ticket.settle(error)
        finally:  # an interrupt ends the working thread; the other threads get this error
            unknown = "the change was interrupted, and whether it was carried out is not known: ask again."
            for ticket in batch:
                ticket.settle(UnknownOutcomeError(unknown))

    def _reports(
        self,
        ticket: Ticket,
        counts: Counts,
        model: Model,
        digests: tuple[str | None, str | None],
        lost: tuple[int, int],
        learner: TrainedLearner | None,
    ) -> list[ForgetReport]:
        before, after = digests
        return [
            ForgetReport(
                asked,
                removed,
                len(model.core),
                absent,
                classes_emptied=lost[0] if removed else 0,
                classes_thinned=lost[1] if removed else 0,
                digest_after=after if ticket.digests else None,
                digest_before=before if ticket.digests else None,
                receipt=self._receipt(request, before, after, model, learner),
            )
            for request, (asked, removed, absent) in zip(ticket.requests, counts, strict=True)
        ]

    def _receipt(
        self, request: Request, before: str | None, after: str | None, model: Model, learner: TrainedLearner | None
    ) -> str | None:
        if self._key is None or after is None:
            return None
        receipt = Receipt(
            state_before=None if self._after_only else before,
            state_after=after,
            guarantee=" ".join(str(model.guarantee).split()),
            format_version=model.format_version,
            requested_at=request.requested_at,
            request_id=str(uuid.uuid4()) if request.request_id is None else request.request_id,
            normalisation=model.spelling or None,
            learner=learner,
            old_bytes=doubt_about_blocks(self.path),
        )
        return make_receipt(self._key, receipt)

    def _locked(self) -> AbstractContextManager[Writer]:
        return locked_model(self.path, self._queue.time_left(), managed_as=self._managed_as)


class ModelCache:
    """The model that a file held when it was last read or written; it is loaded again only if the file has changed.

    Attributes
    ----------
    model : Model or None
        None while the file may hold another model.
    checksum : str
        That in the header of the file with this model.
    """

    def __init__(self, path: str, like: object) -> None:
        self._path, self._like = path, like
        self.model: Model | None = None
        self.checksum = ""
        # Of that file: its SHA-256 if it is known, and whether the model is in several files.
        self._seal, self._in_parts = "", False

    def unchanged(self) -> Model | None:
        """Return the model in memory if the header of the file still matches it."""
        return self.model if self.model is not None and checksum_at(self._path) == self.checksum else None

    def read(self) -> Model:
        """Return the model in the file; every byte is read."""
        with naming(self._path):
            model: Model = read_file(self._path, self._same_or_loaded, parts_of=shards_of)
            return model

    def under_lock(self, writer: Writer, *, whole: bool = True) -> Model:
        """Return the model in the file, for a change under its lock.

        Unless ``whole``, a matching header is enough, since the change replaces every byte and reports none of the old.
        """
        if not whole and self.model is not None and checksum_at(writer.path) == self.checksum:
            return self.model
        with naming(self._path):
            refuse_odd_size(self._path)
            if self._seal and not self._in_parts and (same := self.unchanged()) and writer.holds(self._seal):
                return same
            return writer.read(self._same_or_loaded)

    def _same_or_loaded(self, head: bytes, fetch: Fetch) -> Model:
        """Return the model in memory if it has exactly these bytes; otherwise load them."""
        seal, parts = digest_of([head]), shards_of(head)
        if self.model is None or seal != self._seal:
            self.model = model_of(head, fetch, None if self._like is None else code_in(self._like))
            self._seal, self._in_parts, self.checksum = seal, bool(parts), str(read_meta(head)["checksum"])
        else:
            for name in parts:
                fetch(name)  # refused unless its bytes match the head
        return self.model

    def digest(self, model: Model) -> str:
        """Return the digest of the state that was read or written in this call, under the lock."""
        return model.snapshot().digest if self._in_parts else self._seal

    def write(
        self,
        writer: Writer,
        state: State,
        mode: int = PRIVATE,
        *,
        digests: bool = False,
        announce: Callable[[str, str], None] | None = None,
    ) -> None:
        """Replace the file by this state; the caller sets ``model`` afterwards."""
        files = files_of(state)
        if announce is not None:
            announce(self.checksum, checksum_of(files))
        with undisturbed():
            write(writer, files, mode)
        self.checksum, self._in_parts = checksum_of(files), bool(files.parts)
        # Without ``digests`` nothing is hashed: the next call that needs a digest reads the file again.
        self._seal = "" if not digests else digest_of(files.head) if files.parts else state.digest


@contextmanager
def undisturbed() -> Iterator[None]:
    """Delay Ctrl-C until the end of a block. Only the main thread receives it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[tuple[Any, ...]] = []
    try:
        before = signal.signal(signal.SIGINT, lambda *arguments: pressed.append(arguments))
    except ValueError:  # an interpreter within another one
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)  # None: set by something else
        if pressed and callable(before):
            before(*pressed[0])


def stored_bytes(path: str | os.PathLike[str]) -> int:
    """Return the size of a model on disk, including its parts if it is in several files."""
    total = os.stat(path).st_size
    for part in side_files(path).parts.glob("*"):
        with suppress(OSError):  # a part that was replaced meanwhile
            total += part.stat().st_size
    return total
