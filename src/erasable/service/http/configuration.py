"""The configuration of ``erasable serve``, from a TOML file, the environment and options."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path
from typing import Any, get_type_hints
from urllib.parse import urlsplit

from pydantic import TypeAdapter

from erasable.errors import ConfigurationError
from erasable.service.settings import Settings

PREFIX = "ERASABLE_"
_HOST = re.compile(r"[A-Za-z0-9._-]+|\[?[0-9A-Fa-f:.]+\]?")


@dataclass(frozen=True)
class Configuration:
    """Paths, addresses and limits, one for each line of the table of settings in ``docs/service.md``.

    Every name can be a line of a TOML file or a variable ``ERASABLE_…``.
    """

    models: tuple[Path, ...]  # files, or folders of them
    folder: Path  # of the ledger, the tokens and the keys
    host: str = "127.0.0.1"
    port: int = 8080
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    public_url: str | None = None  # how clients reach it; by default derived from the address
    behind_proxy: bool = False  # only a proxy that speaks TLS reaches the address: see ``deploy/nginx.conf``
    receipt_key: Path | None = None
    operator_key: Path | None = None
    opendsr_certificate: Path | None = None
    opendsr_key: Path | None = None
    processor_domain: str = "localhost"
    suppression_list: Path | None = None
    body_bytes: int = 64 * 2**20  # the longest body
    rows: int = 100_000  # to learn or to predict in one request
    connections: int = 512  # at once; requests beyond are answered with 503
    allowed_hosts: tuple[str, ...] = ()  # further names that clients may call it by: see ``serves_host``
    head_bytes: int = 32 * 2**10  # of a request
    rate: float = 1000.0  # requests a second for each token
    burst: int = 2000  # requests at once
    failed_sign_ins: int = 20  # of an address, before it has to wait for the next one
    deadline: float = 30.0  # seconds until a request is given up
    drain: float = 30.0  # seconds to finish accepted requests when it stops
    service: Settings = field(default_factory=Settings)

    def __post_init__(self) -> None:
        for first, second in (("tls_certificate", "tls_key"), ("opendsr_certificate", "opendsr_key")):
            if (getattr(self, first) is None) != (getattr(self, second) is None):
                raise ConfigurationError(f"{first} and {second} belong together: give both, or neither.")
        positive = "body_bytes rows connections head_bytes rate burst deadline drain"
        positive += " failed_sign_ins"
        if wrong := [name for name in positive.split() if not getattr(self, name) > 0]:
            raise ConfigurationError(f"{', '.join(wrong)} must be positive.")
        if self.behind_proxy and self.public_url is None:
            raise ConfigurationError(
                "behind_proxy needs public_url, the address by which clients reach the proxy, such as "
                "https://erase.example.org: without it, links would lead past the proxy."
            )
        if not all(map(_HOST.fullmatch, self.allowed_hosts)):
            raise ConfigurationError("allowed_hosts must be names or addresses without a port, such as erase.internal.")
        if not 0 <= self.port < 2**16:
            raise ConfigurationError("port must be between 0 and 65535.")

    @property
    def url(self) -> str:
        """How clients reach the service, without a slash at the end."""
        if self.public_url is not None:
            return self.public_url.rstrip("/")
        return f"{'http' if self.tls_certificate is None else 'https'}://{self.host}:{self.port}"

    @cached_property
    def _names(self) -> frozenset[str]:
        named = "localhost", self.host, self.processor_domain, urlsplit(self.url).hostname or "", *self.allowed_hosts
        return frozenset(name.lower().rstrip(".") for name in named)

    def serves_host(self, host: str, own: str) -> bool:
        """Whether a request may name this host, without its port; ``own`` is the address that the request came to.

        Web pages reach a service on a private network by a name of theirs that leads to its address. So only known
        names are served. An address is no such name: it may be a loopback address, the one that the request came to,
        or any if the service listens at all addresses, since it may be called by another one from outside a container.
        """
        name = host.lower().rstrip(".")
        if name in self._names:
            return True
        try:
            address = ip_address(name.strip("[]"))
        except ValueError:
            return False
        return address.is_loopback or str(address) == own or self.host in ("", "0.0.0.0", "::")

    def model_files(self) -> dict[str, Path]:
        """Every model file by its name; ``ConfigurationError`` if one is missing or two have one name."""
        found: dict[str, Path] = {}
        for given in self.models:
            if not given.exists():
                raise ConfigurationError(f"{given} does not exist: check the path, or make the model first.")
            for path in sorted(given.glob("*.erasable")) if given.is_dir() else [given]:
                if path.stem in found:
                    raise ConfigurationError(f"two models are called {path.stem!r}: rename one of the files.")
                found[path.stem] = path
        if not found:
            raise ConfigurationError("there is no model to serve: name model files, or folders that hold some.")
        return found


def read_configuration(
    path: str | os.PathLike[str] | None, environment: Mapping[str, str] | None = None, **given: object
) -> Configuration:
    """The given values, else those of the environment, else those of the file, else the defaults.

    Raises ConfigurationError when a name is not known, or a value cannot be used.
    """
    values: dict[str, Any] = {}
    if path is not None:
        try:
            values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigurationError(f"{os.fspath(path)} cannot be read as TOML: {error}") from error
    types = {Configuration: get_type_hints(Configuration), Settings: get_type_hints(Settings)}
    del types[Configuration]["service"]
    known = types[Configuration] | types[Settings]
    environment = os.environ if environment is None else environment
    values |= {name: environment[key] for name in known if (key := PREFIX + name.upper()) in environment}
    values |= {name: value for name, value in given.items() if value is not None}
    if unknown := sorted(set(values) - set(known)):
        raise ConfigurationError(f"the configuration has names that are not known: {', '.join(unknown)}.")
    if "models" not in values:
        raise ConfigurationError("name the models to serve: model files, or folders that hold some.")
    values = {"folder": "erasable-service"} | values
    read = {name: _read(name, known[name], value) for name, value in values.items()}
    settings = Settings(**{name: value for name, value in read.items() if name in types[Settings]})
    return Configuration(
        **{name: value for name, value in read.items() if name in types[Configuration]}, service=settings
    )


def _pairs(text: str) -> list[list[str]]:
    return [[side.strip() for side in part.split("=", 1)] for part in text.split(",")]


#: How values that are no single number, text or path are written as one text, in the environment.
_TEXTS: dict[str, Callable[[str], object]] = {
    "models": lambda text: text.split(os.pathsep),
    "callback_hosts": lambda text: text.replace(",", " ").split(),
    "allowed_hosts": lambda text: text.replace(",", " ").split(),
    "identity_types": lambda text: dict(_pairs(text)),
    "identity": lambda text: {role: steps.split("+") for role, steps in _pairs(text)},
    **dict.fromkeys(("promise", "grace", "access_for", "keep_for", "receipts_within"), float),
    **dict.fromkeys(("vouch", "trust_clock", "behind_proxy"), lambda text: text or "no"),  # an empty variable means no
}


def _read(name: str, kind: Any, value: object) -> Any:
    """A value of a file, of the environment or of an option as the type that the configuration has."""
    try:
        if isinstance(value, str) and name in _TEXTS:
            value = _TEXTS[name](value)
        found: Any = TypeAdapter(kind).validate_python(value)
        return type(found)(map(str.lower, found)) if name in ("allowed_hosts", "callback_hosts") else found
    except ValueError as error:
        raise ConfigurationError(f"{name} has a value that cannot be used.") from error
