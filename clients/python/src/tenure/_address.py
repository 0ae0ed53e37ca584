"""Where the server is, as people write it: `host:port`, `host`, `http://host:port` or, with TLS, `https://host:port`."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import Unusable

PORT_DEFAULT = 3144
_EXPECTED = "this is not an address; write host:port"


@dataclass(frozen=True)
class Address:
    given: str
    host: str
    port: int
    tls: bool | None
    """None if the address does not say, and leaves it to what else was said."""

    @staticmethod
    def parse(given: str) -> Address:
        tls, text = None, given
        for prefix, secure in (("http://", False), ("https://", True)):
            if given.startswith(prefix):
                tls, text = secure, given[len(prefix) :]
        text = text.removesuffix("/")
        if text.startswith("["):
            host, closed, rest = text[1:].partition("]")
            if not closed or (rest and not rest.startswith(":")):
                raise Unusable(f"`{given}`: {_EXPECTED}")
            port = rest[1:] if rest else None
        elif text.count(":") > 1:
            # More than one colon without brackets is a bare IPv6 address.
            host, port = text, None
        else:
            host, colon, after = text.partition(":")
            port = after if colon else None
        if not host or not all(character.isalnum() or character in "-._:%" for character in host):
            raise Unusable(f"`{given}`: {_EXPECTED}")
        if port is None:
            return Address(given, host, PORT_DEFAULT, tls)
        if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise Unusable(f"`{given}`: the port is not a number from 1 to 65535")
        return Address(given, host, int(port), tls)
