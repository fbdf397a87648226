"""All that an operator says, from a TOML file and from the environment."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_type_hints

from erasable.errors import ConfigurationError
from erasable.service.settings import Settings

PREFIX = "ERASABLE_"
_YES_OR_NO = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False, "": False}


@dataclass(frozen=True)
class Configuration:
    """What runs where, and within which limits. Every name can be a line of a TOML file or a variable ``ERASABLE_…``.

    Attributes
    ----------
    models : tuple of path
        Model files, or folders of them. A model is called by its file's name without the ending.
    folder : path
        The ledger of requests, the file of tokens and the outbox are kept here.
    host, port : str and int
        Loopback unless told.
    tls_certificate, tls_key : path or None
        PEM files to speak TLS with; without them a reverse proxy has to, unless it is loopback.
    public_url : str or None
        How clients reach the service; by default from the address.
    receipt_key : path or None
        Ed25519 key that signs receipts. By default ``receipts.pem`` in the folder, made at the first start.
    operator_key : path or None
        A secret that seals requests and the suppression list. By default ``operator.key`` in the folder, made at the
        first start.
    opendsr_certificate, opendsr_key : path or None
        RSA certificate and key for OpenDSR; without them its routes are not served.
    processor_domain : str
        What OpenDSR answers say they come from: the domain of the certificate.
    suppression_list : path or None
        Keep a list of those who were erased (as HMACs), and pass over their rows when learning.
    body_bytes, rows : int
        The largest body, and the most rows to learn or to predict in one.
    connections, connections_each : int
        Open connections in all, and from one address. More are closed as they arrive.
    proxies : tuple of str
        Addresses or networks of proxies before the service. Each stands for many clients: ``connections_each`` does
        not apply to it, and the proxy has to limit its clients itself.
    head_bytes, head_seconds : int and float
        The longest head of a request, of which the address may be a quarter, and the seconds until it is whole.
    rate, burst : float and int
        Requests a second for each token, and how many at once.
    deadline : float
        Seconds after which a request that is not answered is given up with 504.
    drain : float
        Seconds to finish what was accepted when the service is told to stop.
    service : Settings
        What the service itself is told; see ``erasable.service.settings``.
    """

    models: tuple[Path, ...]
    folder: Path
    host: str = "127.0.0.1"
    port: int = 8080
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    public_url: str | None = None
    receipt_key: Path | None = None
    operator_key: Path | None = None
    opendsr_certificate: Path | None = None
    opendsr_key: Path | None = None
    processor_domain: str = "localhost"
    suppression_list: Path | None = None
    body_bytes: int = 64 * 2**20
    rows: int = 100_000
    connections: int = 512
    connections_each: int = 128
    proxies: tuple[str, ...] = ()
    head_bytes: int = 32 * 2**10
    head_seconds: float = 10.0
    rate: float = 1000.0
    burst: int = 2000
    deadline: float = 30.0
    drain: float = 30.0
    service: Settings = field(default_factory=Settings)

    def __post_init__(self) -> None:
        for first, second in (("tls_certificate", "tls_key"), ("opendsr_certificate", "opendsr_key")):
            if (getattr(self, first) is None) != (getattr(self, second) is None):
                raise ConfigurationError(f"{first} and {second} belong together: give both, or neither.")
        positive = "body_bytes rows connections connections_each head_bytes head_seconds rate burst deadline drain"
        if wrong := [name for name in positive.split() if not getattr(self, name) > 0]:
            raise ConfigurationError(f"{', '.join(wrong)} must be positive.")
        try:
            list(map(ip_network, self.proxies))
        except ValueError as error:
            raise ConfigurationError(f"proxies must be addresses or networks, such as 10.0.0.2: {error}.") from None
        if not 0 <= self.port < 2**16:
            raise ConfigurationError("port must be between 0 and 65535.")

    @property
    def url(self) -> str:
        """How clients reach the service, without a slash at the end."""
        if self.public_url is not None:
            return self.public_url.rstrip("/")
        return f"{'http' if self.tls_certificate is None else 'https'}://{self.host}:{self.port}"

    def model_files(self) -> dict[str, Path]:
        """Every model file by its name.

        Raises
        ------
        ConfigurationError
            When there is none, one is not there, or two have one name.
        """
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
    path: str | os.PathLike[str] | None,
    environment: Mapping[str, str] | None = None,
    **given: Any,
) -> Configuration:
    """What was given here, else in the environment, else in the file, else the defaults.

    Raises
    ------
    ConfigurationError
        When a name is not known, or a value cannot be used.
    """
    told: dict[str, Any] = {}
    if path is not None:
        try:
            told = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigurationError(f"{os.fspath(path)} cannot be read as TOML: {error}") from error
    types: dict[type, dict[str, Any]] = {
        Configuration: get_type_hints(Configuration),
        Settings: get_type_hints(Settings),
    }
    names: dict[str, type] = {f.name: Configuration for f in fields(Configuration) if f.name != "service"}
    names |= {f.name: Settings for f in fields(Settings)}
    environment = os.environ if environment is None else environment
    told |= {name: environment[key] for name in names if (key := PREFIX + name.upper()) in environment}
    told |= {name: value for name, value in given.items() if value is not None}
    if unknown := sorted(set(told) - set(names)):
        raise ConfigurationError(f"the configuration has names that are not known: {', '.join(unknown)}.")
    read = {name: _value(name, types[names[name]][name], value) for name, value in told.items()}
    own = {name: value for name, value in read.items() if names[name] is Settings}
    rest = {name: value for name, value in read.items() if names[name] is Configuration}
    if "models" not in rest:
        raise ConfigurationError("name the models to serve: model files, or folders that hold some.")
    rest.setdefault("folder", Path("erasable-service"))
    return Configuration(**rest, service=Settings(**own))


def _value(name: str, kind: Any, value: Any) -> Any:
    """A value of a file, of the environment or of the command line as what the configuration holds."""
    if isinstance(kind, UnionType):
        (kind,) = (one for one in get_args(kind) if one is not NoneType)
    try:
        if kind is timedelta:
            return timedelta(seconds=float(value))
        if kind is bool:
            return value if isinstance(value, bool) else _YES_OR_NO[value.lower()]
        if kind in (int, float, str):
            return kind(value)
        if name == "models":
            parts = value.split(os.pathsep) if isinstance(value, str) else value
            return tuple(Path(part) for part in parts)
        if name in ("callback_hosts", "proxies"):
            hosts = value.replace(",", " ").split() if isinstance(value, str) else value
            return (frozenset if name == "callback_hosts" else tuple)(host.lower() for host in hosts)
        if name == "identity":
            if not isinstance(value, str):
                return value
            told = [part.split("=", 1) for part in value.split(",")]
            return {role.strip(): steps.strip().split("+") for role, steps in told}
        if name == "identity_types":
            pairs = [part.split("=", 1) for part in value.split(",")] if isinstance(value, str) else value.items()
            return {key.strip(): role.strip() for key, role in pairs}
        assert kind is Path
        return Path(value)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise ConfigurationError(f"{name} has a value that cannot be used.") from error
