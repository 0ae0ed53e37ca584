"""What all scripts share: each says a line for each fact it has seen, and fails where it sees something else."""

import faulthandler
import sys

# Longer than anything takes; where it hangs is then seen on stderr.
faulthandler.dump_traceback_later(80, exit=True)

ADDRESS = sys.argv[1]
# A client of this address has a connection of its own: gRPC shares one among equal addresses of a process.
ADDRESS_APART = f"ipv4:{ADDRESS}"


def fact(text):
    print(text, flush=True)


def until_told():
    """Waits until the test says to go on."""
    assert sys.stdin.readline(), "the test ended first"


def failure(kind, call):
    """The message with which the call fails in this and no other way."""
    try:
        call()
    except Exception as error:
        assert type(error) is kind, repr(error)
        return getattr(error, "message", None) or error.details()
    raise AssertionError(f"it should have raised {kind.__name__}")


async def failure_aio(kind, call):
    try:
        await call
    except Exception as error:
        assert type(error) is kind, repr(error)
        return getattr(error, "message", None) or error.details()
    raise AssertionError(f"it should have raised {kind.__name__}")
