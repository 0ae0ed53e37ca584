"""At the door of a server that wants a password and a client's certificate. `SERVER`, `PASSWORD` and `FOLDER`, which has the
certificates, are set by the test that starts it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tenure import Client, TenureError, Unauthenticated, Unreachable, Unusable, wire

ADDRESS = os.environ["SERVER"]
PASSWORD = os.environ["PASSWORD"]
FOLDER = Path(os.environ["FOLDER"])
CA = FOLDER / "ca.crt"
IDENTITY = (FOLDER / "client.crt", FOLDER / "client.key")
FULL: dict[str, Any] = {"password": PASSWORD, "tls_ca_file": CA, "tls_identity_files": IDENTITY}


def let_in(address: str, **access: Any) -> None:
    with Client(address, **access) as client, client.hold("db") as h:
        assert client.api.list_holds(wire.ListHoldsRequest(pool="db")).holds[0].token == h.token


def kept_out(kind: type[TenureError], words: str, address: str, **access: Any) -> None:
    """By the session, and by the calls beside it."""
    for in_session in (True, False):
        client = Client(address, **access)
        try:
            if in_session:
                client.connect()
            else:
                client.api.list_pools(wire.ListPoolsRequest())
        except TenureError as error:
            assert isinstance(error, kind), repr(error)
            assert words in str(error), error
            assert PASSWORD not in str(error) and PASSWORD not in repr(client), error
        else:
            raise AssertionError(f"{access} let us in")


def main() -> None:
    let_in(ADDRESS, **FULL)
    let_in(f"https://{ADDRESS}", **FULL)
    contents = (IDENTITY[0].read_bytes(), IDENTITY[1].read_text())
    let_in(ADDRESS, password=PASSWORD, tls_ca=CA.read_text(), tls_identity=contents)

    written = FOLDER / "password"
    written.write_text(PASSWORD + "\n")
    files = {"tls_ca_file": CA, "tls_identity_files": IDENTITY}
    let_in(ADDRESS, password_file=written, **files)
    written.write_text("wrong")
    kept_out(Unauthenticated, "invalid credentials", ADDRESS, password_file=written, **files)
    written.write_text("\n")
    kept_out(Unusable, f"there is no password in {written}", ADDRESS, password_file=written, **files)

    kept_out(Unauthenticated, "missing credentials", ADDRESS, **files)
    kept_out(Unusable, "characters that cannot be sent", ADDRESS, **{**FULL, "password": "two\nlines"})
    kept_out(Unusable, "PEM", ADDRESS, **{**FULL, "tls_ca_file": written})
    kept_out(Unusable, "cannot be read", ADDRESS, **{**FULL, "tls_ca_file": FOLDER / "nothing"})
    kept_out(Unusable, "client certificate", ADDRESS, **{**FULL, "tls_identity_files": (IDENTITY[0], CA)})
    kept_out(Unreachable, "no authority that is trusted here", ADDRESS, **{**FULL, "tls_ca_file": FOLDER / "clients.crt"})
    kept_out(Unreachable, "client certificate", ADDRESS, password=PASSWORD, tls_ca_file=CA)
    kept_out(TenureError, "https://", f"http://{ADDRESS}", password=PASSWORD)
    print("all is as it should be")


main()
