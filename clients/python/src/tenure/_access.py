"""How to be let in: the password, and the certificates of TLS; and why it did not work, in words."""

from __future__ import annotations

import os
import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from .errors import Unusable

Source = bytes | Path
"""What it is, or the file in which it is, which is read for every connection that is made: it may be replaced while the
client lives."""


@dataclass(frozen=True, repr=False)
class Access:
    """What the application has said of it. Has no `repr`, because it has secrets."""

    password: Source | None = None
    ca: Source | None = None
    """PEM."""
    identity: tuple[Source, Source] | None = None
    """A certificate and its key, PEM."""

    @staticmethod
    def of(
        password: str | None,
        password_file: str | os.PathLike[str] | None,
        tls_ca: str | bytes | None,
        tls_ca_file: str | os.PathLike[str] | None,
        tls_identity: tuple[str | bytes, str | bytes] | None,
        tls_identity_files: tuple[str | os.PathLike[str], str | os.PathLike[str]] | None,
    ) -> Access:
        identity: tuple[Source, Source] | None = None
        if tls_identity is not None:
            identity = (_bytes(tls_identity[0]), _bytes(tls_identity[1]))
        elif tls_identity_files is not None:
            identity = (_file(tls_identity_files[0]), _file(tls_identity_files[1]))
        return Access(
            password=_source(password, password_file), ca=_source(tls_ca, tls_ca_file), identity=identity
        )

    @property
    def wants_tls(self) -> bool:
        """Whether something was said that only TLS has a use for."""
        return self.ca is not None or self.identity is not None

    @property
    def has_files(self) -> bool:
        return any(isinstance(source, Path) for source in (self.password, self.ca, *(self.identity or ())))

    def papers(self, tls: bool) -> Papers:
        """What the sources have now. Blocks while files are read."""
        metadata = {} if self.password is None else {"authorization": _password(self.password)}
        return Papers(metadata, self._context() if tls else None)

    def _context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["h2"])
        if self.ca is None:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        else:
            pem = _read(self.ca)
            try:
                context.load_verify_locations(cadata=pem.decode("ascii"))
            except (UnicodeDecodeError, ssl.SSLError, ValueError) as error:
                raise Unusable(f"the authority's certificate{_origin(self.ca)} is not in PEM form") from error
        if self.identity is not None:
            _load_identity(context, *self.identity)
        return context


@dataclass(frozen=True, repr=False)
class Papers:
    """What is shown at the server's door."""

    metadata: dict[str, str] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None


def _source(given: str | bytes | None, path: str | os.PathLike[str] | None) -> Source | None:
    if given is not None:
        return _bytes(given)
    return None if path is None else _file(path)


def _bytes(given: str | bytes) -> bytes:
    return given.encode() if isinstance(given, str) else given


def _file(path: str | os.PathLike[str]) -> Path:
    # It is read again later, wherever the process works then.
    return Path(path).absolute()


def _read(source: Source) -> bytes:
    if isinstance(source, bytes):
        return source
    try:
        return source.read_bytes()
    except OSError as error:
        raise Unusable(f"{source} cannot be read: {error.strerror or error}") from error


def _origin(source: Source) -> str:
    """To be said after what it is."""
    return f" in {source}" if isinstance(source, Path) else ""


def _password(source: Source) -> str:
    password = _read(source)
    if isinstance(source, Path):
        # Editors end a file with a line's end.
        password = password.removesuffix(b"\n").removesuffix(b"\r")
        if not password:
            # Whoever replaces it may be in the middle of it.
            raise Unusable(f"there is no password in {source}")
    if not password or not all(0x20 <= byte < 0x7F for byte in password):
        raise Unusable(f"the password{_origin(source)} has characters that cannot be sent")
    return password.decode("ascii")


def _load_identity(context: ssl.SSLContext, certificate: Source, key: Source) -> None:
    """Python's library takes them from files only."""
    if isinstance(certificate, Path) and isinstance(key, Path):
        where = f" (the client certificate in {certificate}, its key in {key})"
        _read(certificate), _read(key)
        _load_files(context, certificate, key, where)
        return
    # Readable by this user alone, and gone at once.
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder, "certificate"), Path(folder, "key")
        for file, source in zip(files, (certificate, key), strict=True):
            file.write_bytes(_read(source))
        _load_files(context, *files, "")


def _load_files(context: ssl.SSLContext, certificate: Path, key: Path, where: str) -> None:
    try:
        # A key with a passphrase would otherwise be asked for at the terminal.
        context.load_cert_chain(certificate, key, password=lambda: "")
    except (ssl.SSLError, OSError, ValueError) as error:
        raise Unusable(f"the client certificate does not go with its key, or is not in PEM form{where}") from error


def tls_reason(error: BaseException) -> str | None:
    """What went wrong with TLS, if it was that."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return {
            10: "its certificate has expired",
            18: "no authority that is trusted here has signed its certificate",
            19: "no authority that is trusted here has signed its certificate",
            20: "no authority that is trusted here has signed its certificate",
            21: "no authority that is trusted here has signed its certificate",
            62: "its certificate is for another name than the address",
            64: "its certificate is for another name than the address",
        }.get(error.verify_code, f"its certificate is not valid: {error.verify_message}")
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or "").upper()
        if "CERTIFICATE_REQUIRED" in reason or "HANDSHAKE_FAILURE" in reason:
            return "it wants to see a client certificate"
        if any(word in reason for word in ("UNKNOWN_CA", "BAD_CERTIFICATE", "CERTIFICATE_EXPIRED", "CERTIFICATE_UNKNOWN")):
            return "it does not accept the client certificate"
        if "WRONG_VERSION_NUMBER" in reason or "HTTP" in reason or "RECORD_LAYER" in reason:
            return "it does not speak TLS; write http://host:port"
        return f"TLS failed: {(error.reason or str(error)).lower().replace('_', ' ')}"
    return None
