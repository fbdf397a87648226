"""A model kept in a file: every change is durable when the call returns, and many requests share one rewrite."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from dataclasses import replace as with_counts
from typing import Any

from erasable.audit.keys import PrivateKey
from erasable.audit.receipts import make_receipt
from erasable.core.layout import read_meta
from erasable.core.names import Spelling
from erasable.core.selector import Decisions
from erasable.errors import ConfigurationError, InputTypeError, StateFormatError, StoreError, UnknownOutcomeError
from erasable.models.access import StoredRows, spelling_in
from erasable.models.configuration import map_of
from erasable.models.files import head_of, needs_code, read_model, shards_of
from erasable.models.model import Model
from erasable.models.passes import BUDGET_BYTES, Ahead
from erasable.models.reports import (
    ForgetReport,
    LearnReport,
    VerifyReport,
    warn_of_emptied_classes,
    warn_of_lost_classes,
)
from erasable.operations._held import HeldModel
from erasable.operations.inspect import rows_of
from erasable.operations.requests import KEY_TYPES, Counts, Line, Request, Ticket
from erasable.operations.sent_again import NewRows, Suppressed, stored_ids
from erasable.operations.verify import code_in, verify_file
from erasable.store import PRIVATE, Writer, check_mode, locked

#: From the model that a file holds, or None: rows to learn, and an unfitted estimator to start or to agree with.
Prepare = Callable[[Model | None], tuple[Iterable[Any], Any]]


class ModelFile:
    """A model in a file, for processes that go on changing it: the model stays in memory between calls.

    Every change takes the file's lock, loads what others wrote meanwhile, and returns only when the new file is durable
    and the old one erased. The lock is held for the change alone, so several processes can work on one file, and
    readers are never held up. Calls from several threads at the same time share one rewrite. What is said of the file's
    bytes, in digests and receipts, was read or written in that call.

    Parameters
    ----------
    path : str or path
        The file. It must exist, except for ``learn`` with ``new``.
    like : estimator, optional
        As in ``erasable.load``.
    timeout : float, optional
        Seconds to wait for another process, or another thread of this one, that is changing the file; by default as
        long as it takes. Who asks for what another thread is carrying out already waits for the outcome.
    key : PrivateKey, optional
        Sign a receipt for every request with it; see ``erasable.audit.keys``.
    after_only : bool, default=False
        Leave the digest of the state before out of receipts: whoever holds the state after could test guesses of the
        forgotten rows against it.
    verify_first : bool, default=True
        With a key: before anything is written, verify the state that a receipt will speak of. One that does not verify
        is refused, and nothing is forgotten. This takes about as long as learning the core rows did, once for all
        requests that share a rewrite.
    rewrite_unchanged : bool, default=False
        Write the file anew also where a request names nothing that is stored, so that neither the time that it takes
        nor the time of the file tells.
    announce : callable, optional
        Called before ``forget`` or ``learn`` replaces the file, under its lock, with the checksum in its header (empty
        where there is no file yet) and the one that the new file has. Where it raises, the file is as it was.

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
        like: Any = None,
        timeout: float | None = None,
        key: PrivateKey | None = None,
        after_only: bool = False,
        verify_first: bool = True,
        rewrite_unchanged: bool = False,
        announce: Callable[[str, str], None] | None = None,
    ) -> None:
        self.path = os.fspath(path)
        self._like = like
        self._key, self._after_only, self._verify_first = key, after_only, verify_first
        self._rewrite_unchanged, self.announce = rewrite_unchanged, announce
        self._held = HeldModel(self.path, like)
        self._line = Line(self.path, timeout)

    def __repr__(self) -> str:
        return f"ModelFile({self.path!r})"

    @property
    def model(self) -> Any:
        """The model as the file holds it now. A copy in memory: what is changed in it does not reach the file."""
        from erasable.estimators.files import load  # only here: files are changed without scikit-learn

        return load(self.path, like=self._like)

    def key_types(self) -> tuple[type | None, type | None]:
        """Of which types the ids and the subjects of the core rows are: int, str or bytes; None where there are none.

        What a person types in has to be one of these to be found.
        """
        # Where the header does not say it, reading the whole file tells what is wrong.
        with suppress(OSError, StateFormatError, LookupError, TypeError):
            meta = read_meta(head_of(self.path)[0])
            if not needs_code(meta):
                return KEY_TYPES[meta["id_kind"]], KEY_TYPES[meta["subject_kind"]]
        core = read_model(self.path, code_in(self._like))[0].core
        return core.id_type, core.subject_type

    def spelling(self) -> Spelling:
        """The normalisation of ids and subjects that the schema in the file declares; empty without one."""
        with suppress(OSError, StateFormatError, LookupError, TypeError):  # reading the whole file tells what is wrong
            return spelling_in(read_meta(head_of(self.path)[0]))
        return {}

    def is_done(self, request: Request, digest: str) -> bool:
        """Whether the file holds the state with this digest, and nothing that the request names is left in it."""
        with self._line.in_turn():
            model = self._held.read()
            return self._held.digest(model) == digest and not request.named_in(model).found

    # -- changing ------------------------------------------------------------------------------------------------

    def forget(
        self, *, ids: Any = None, subjects: Any = None, request_id: str | None = None, digests: bool = False
    ) -> ForgetReport:
        """Rows stop existing for the model and leave the disk; durable on return.

        Parameters
        ----------
        ids, subjects : array-like, optional
            As in ``ErasableClassifier.forget``. Unknown ones are no error.
        request_id : str, optional
            What the receipt calls this request; no name of a person. By default a random one.
        digests : bool, default=False
            Compute the digests before and after also where no receipt is wanted.

        Raises
        ------
        StoreError
            When the file could not be replaced; it is then as it was, and nothing is forgotten.
        NotErasedError
            When the rows are forgotten, but the old file could not be erased: ask again.
        UnknownOutcomeError
            When it could not be found out, or not made to last, whether the rows are forgotten: ask again.

        Warns
        -----
        EmptiedClassWarning
            When the last core row of a class has left: after the file was replaced.
        """
        return self._carried_out([Request(ids, subjects, request_id)], digests)[0]

    def forget_together(self, requests: Iterable[Any], *, digests: bool = False) -> list[ForgetReport]:
        """Many requests with one rewrite: all of them are durable on return, or none.

        Parameters
        ----------
        requests : iterable of Request, or of mappings with ``ids`` and ``subjects``
        digests : bool, default=False
            As in ``forget``.

        Returns
        -------
        list of ForgetReport
            One for each request. A row that several of them name counts for the first.
        """
        asked = [Request.of(given) for given in requests]
        return self._carried_out(asked, digests) if asked else []

    def learn(
        self,
        blocks: Iterable[Any] | Prepare,
        *,
        new: Any = None,
        skip_known: bool = False,
        replace: bool = False,
        allow_no_subject: bool = False,
        progress: Callable[[int], None] | None = None,
        mode: int = PRIVATE,
        budget_bytes: int = BUDGET_BYTES,
        suppressed: Suppressed | None = None,
        engine: Any = None,
        reading: Callable[[int], None] | None = None,
        ahead: Ahead | None = None,
    ) -> LearnReport:
        """Learn the rows of all blocks as one call, then write the file once: all of it, or nothing.

        With ``order="hashed"``, the default, rows are decided in the order of the hashes of their ids, and the blocks
        are gone through several times where they do not fit ``budget_bytes``. With ``order="given"`` they are decided
        as they come, in one pass. The lock is held until all is learnt, so forgetting waits that long.

        Parameters
        ----------
        blocks : iterable of Table, or callable
            Anything with ``X``, ``y``, ``ids`` and ``subjects``, and ``weights`` where rows have any: a list, or what
            can be gone through again. An iterator or a pipe, which cannot, has to fit ``budget_bytes``, or rows are
            decided as given. It must not change the same file: that would wait for itself. Rows that can only be read
            once it is known what the file holds come from a function, which is called under the lock with its model,
            or None, and gives blocks and ``new``.
        new : estimator, optional
            An unfitted model to start with where the file does not exist; it is not changed. With ``kappa`` it needs
            ``horizon`` too, since the number of rows is not known when the first block comes. Without it a missing
            file is an error. Where the file exists, its model must have these parameters.
        skip_known : bool, default=False
            Pass over rows whose ids are stored, instead of refusing all, so that a table can be sent again. Rows that
            were offered before and not kept left no trace: they are decided again.
        replace : bool, default=False
            Learn rows whose ids are stored in place of those: a correction. *Law*: the file is that of forgetting all
            ids of these rows, then learning the rows; but it is written once, and a crash leaves it as before or as
            after. Whether a corrected row is kept is decided anew. The old rows are erased as ``forget`` erases them,
            without a receipt: where one is wanted, forget first. The blocks have to be such as can be read twice.
        allow_no_subject : bool, default=False
            As in ``ErasableClassifier.fit``.
        progress : callable, optional
            Called with the number of rows done.
        mode : int, default=0o600
            Permissions of a new file, as in ``save``; one that is there keeps its own.
        budget_bytes : int, default=256 MiB
            About how many bytes of rows are held at a time. It changes the number of passes and nothing else.
        suppressed : callable, optional
            From the ids and subjects of a block: which rows to pass over, since somebody asked never to be learnt.
        engine : None, "local", "torch", "dask" or Engine, optional
            Where rows are screened, as in ``ErasableClassifier``; by default as ``new`` has it.
        reading, ahead : callables, optional
            See ``erasable.models.passes.learn_rows``.
        """
        from sklearn.base import clone

        from erasable.estimators.files import face_of  # learning validates rows as scikit-learn does
        from erasable.operations._estimator import check_alike

        if new is not None and getattr(new, "__sklearn_is_fitted__", lambda: True)():
            raise InputTypeError("new must be an unfitted model, such as ErasableClassifier(threshold=0.05).")
        check_mode(mode)
        if skip_known and replace:
            raise ConfigurationError("skip_known= leaves stored rows as they are, and replace= does not: give one.")
        with self._line.in_turn(), self._locked() as writer:
            model = self._held.under_lock(writer) if writer.exists() else None
            if callable(blocks) and not hasattr(blocks, "__iter__"):
                blocks, new = blocks(model)
            if model is not None:
                face = face_of(model, self._like)
                check_alike(new, face, self.path)
            elif new is not None:
                face = clone(new)  # the caller's own stays the caller's
            else:
                raise StoreError(f"{self.path} does not exist: check the path, or give a new model to start with.")
            offered = None
            if suppressed is not None or (skip_known and model is not None):
                spelling = model.spelling if model is not None else getattr(map_of(face), "identity", {})
                blocks = offered = NewRows(blocks, model if skip_known else None, suppressed, spelling)
            replaced = stored_ids(blocks, model) if replace and model is not None else []
            classes = set() if model is None else set(model.classes)
            self._held.model = None  # until the file says the same as this model
            if model is not None:
                model.remove(replaced)
            try:
                report: LearnReport = face.learn_blocks(
                    blocks,
                    allow_no_subject=allow_no_subject,
                    progress=progress,
                    budget_bytes=budget_bytes,
                    reading=reading,
                    ahead=ahead,
                    engine=getattr(new, "engine", None) if engine is None else engine,
                )
            except ConfigurationError:
                if model is None or offered is None or not offered.nothing_new:
                    raise
                report = LearnReport(0, 0, len(model.core), Decisions())
                writer.make_durable()
            else:
                self._held.write(writer, face.model_.snapshot(), mode, announce=self.announce)
            self._held.model = face.model_
        if len(face.model_.core):
            warn_of_lost_classes(len(classes - set(face.model_.classes)))
        known, listed = (0, 0) if offered is None else (offered.rows_known, offered.rows_suppressed)
        return with_counts(report, rows_known=known, rows_replaced=len(replaced), rows_suppressed=listed)

    # -- looking and checking ------------------------------------------------------------------------------------

    def rows_of(self, *, ids: Any = None, subjects: Any = None) -> StoredRows:
        """What the file stores of somebody: the core rows with these ids and subjects, as in ``forget``."""
        return rows_of(self.path, ids=ids, subjects=subjects)

    def predictor(self) -> tuple[Model, str]:
        """What predicts as the file does now, whatever becomes of that, and the checksum of the file.

        The model in memory is taken where the file is still its own, so that little is read after a change.
        """
        with self._line.in_turn():
            model = self._held.unchanged() or self._held.read()
            return model.predictor(), self._held.checksum

    def verify(self, *, progress: Callable[[int, int], None] | None = None) -> VerifyReport:
        """Recompute what the file holds from its own rows; see ``erasable.verify``."""
        return verify_file(self.path, like=self._like, progress=progress)

    # -- how -----------------------------------------------------------------------------------------------------

    def _carried_out(self, requests: list[Request], digests: bool) -> list[ForgetReport]:
        reports = self._line.join(Ticket(requests, digests or self._key is not None), self._forget_all)
        warn_of_emptied_classes(reports[0], stacklevel=4)  # those of one call share a rewrite
        return reports

    def _forget_all(self, batch: list[Ticket]) -> None:
        """Carry out what all of these ask for with one rewrite; whatever happens, each of them gets an answer."""
        try:
            with self._locked() as writer:
                digests = any(t.digests for t in batch)
                model = self._held.under_lock(writer, whole=digests)
                self._held.model = None  # until the file says the same as this model
                before = self._held.digest(model) if digests else None
                leaving: dict[Any, None] = {}
                found = [t.found(model, leaving) for t in batch]
                _, emptied = model.remove(list(leaving))
                signing = self._key is not None and self._verify_first
                # One snapshot is verified, written, signed and reported.
                rewriting = bool(leaving) or self._rewrite_unchanged
                if rewriting and not leaving:
                    model.drop_caches()  # weights are solved for again, as after a change
                state = model.snapshot() if rewriting or signing else None
                if signing:
                    model.verify(state=state)
                if rewriting and state is not None:
                    self._held.write(writer, state, digests=digests, announce=self.announce)
                else:
                    writer.make_durable()
                self._held.model = model
                after = before if not leaving or state is None else state.digest if digests else None
            for ticket, counts in zip(batch, found, strict=True):
                if not ticket.done:
                    ticket.settle(self._reports(ticket, counts, model, before, after, emptied))
        except Exception as error:
            for ticket in batch:
                ticket.settle(error)
        finally:  # an interrupt belongs to the thread that works; the others are told
            unknown = "the change was interrupted, and whether it was carried out is not known: ask again."
            for ticket in batch:
                ticket.settle(UnknownOutcomeError(unknown))

    def _reports(
        self, ticket: Ticket, counts: Counts, model: Model, before: str | None, after: str | None, emptied: int
    ) -> list[ForgetReport]:
        return [
            ForgetReport(
                asked,
                removed,
                len(model.core),
                absent,
                classes_emptied=emptied if removed else 0,
                digest=after if ticket.digests else None,
                digest_before=before if ticket.digests else None,
                receipt=self._receipt(request, before, after, model),
            )
            for request, (asked, removed, absent) in zip(ticket.requests, counts, strict=True)
        ]

    def _receipt(self, request: Request, before: str | None, after: str | None, model: Model) -> str | None:
        if self._key is None or after is None:
            return None
        return make_receipt(
            self._key,
            state_before=None if self._after_only else before,
            state_after=after,
            guarantee=" ".join(str(model.guarantee).split()),
            format_version=model.format_version,
            requested_at=request.requested_at,
            request_id=request.request_id,
            normalisation=model.spelling or None,
        )

    def _locked(self) -> AbstractContextManager[Writer]:
        return locked(self.path, parts_of=shards_of, timeout=self._line.time_left())
