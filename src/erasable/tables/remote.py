"""Files behind URLs, and folders of files: the one place that imports fsspec, which is optional."""

from __future__ import annotations

import glob
import posixpath
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from erasable.errors import ConfigurationError, ErasableError, InputError


class RemoteFile:
    """A file behind a URL, with what is asked of a path. It can be sent: it holds the URL alone."""

    def __init__(self, url: str) -> None:
        self.url = url
        path = PurePosixPath(url.partition("://")[2])
        self.name, self.suffix, self.stem = path.name, path.suffix, path.stem

    def opened(self) -> Any:
        """A binary file object, to be closed by the caller."""
        return fsspec().open(self.url, "rb").open()

    def __str__(self) -> str:
        return self.url


def fsspec() -> Any:
    """The module fsspec.

    Raises
    ------
    ConfigurationError
        When it is not installed.
    """
    try:
        import fsspec
    except ImportError:
        problem = "reading from URLs needs fsspec: pip install 'erasable[dask]'."
    else:
        return fsspec
    raise ConfigurationError(problem)


def is_url(source: Any) -> bool:
    """Whether this is text such as ``s3://bucket/visits.parquet``."""
    return isinstance(source, str) and "://" in source


def remote_files(url: str) -> list[Any]:
    """The files that a URL names, a pattern or a folder too, sorted by their paths as text.

    Raises
    ------
    InputError
        When there are none, or they cannot be listed.
    ConfigurationError
        When they are no Parquet files.
    """
    scheme = url.partition("://")[0]
    problem, found = "", []
    try:
        system, path = fsspec().core.url_to_fs(url)
        if glob.has_magic(path):
            found = system.glob(path)
        elif system.isdir(path):
            below = [name for name in system.find(path) if name.endswith(".parquet")]
            found = [name for name in below if not posixpath.basename(name).startswith(("_", "."))]
            check_no_columns_in_names([posixpath.relpath(name, path) for name in found], posixpath.basename(path))
        else:
            found = [path] if system.exists(path) else []
    except ErasableError:
        raise
    except Exception as error:  # file systems raise anything
        problem = f"{url} cannot be listed ({type(error).__name__}): check the address, and who may read there."
    if problem:
        raise InputError(problem)
    if not found:
        raise InputError(f"there is no file at {url}: check the address.")
    if not all(name.endswith(".parquet") for name in found):
        raise ConfigurationError("files behind URLs are read where they are .parquet: copy others to this machine.")
    return [RemoteFile(f"{scheme}://{name.lstrip('/') if scheme != 'file' else name}") for name in sorted(found)]


def check_no_columns_in_names(paths: Sequence[str], folder: str) -> None:
    """Refuse folders that are named like ``year=2024``: readers of such data sets make a column of them.

    Raises
    ------
    InputError
    """
    if any("=" in part for path in paths for part in path.split("/")[:-1]):
        raise InputError(
            f"{folder} has folders named like column=value, which are columns to other readers: name the files by a "
            "pattern instead, such as 'folder/**/*.parquet', and these columns are left out."
        )
