#!/usr/bin/env python3
"""Make requests to an expensive service, never more in any window of time than all clients together may."""

import argparse
import sys
import time

try:
    import ldlm
except ImportError:
    sys.exit("error: py-ldlm is not installed\nhint: pip install -r examples/requirements.txt")


def now():
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--addr", default="127.0.0.1:3144", help="the lock server [%(default)s]")
    parser.add_argument("--lock", default="expensive-service", help="the lock's name [%(default)s]")
    parser.add_argument("--limit", type=int, default=30, help="how many requests in a window [%(default)s]")
    parser.add_argument("--per", type=int, default=60, help="how long a window is, in seconds [%(default)s]")
    parser.add_argument("--requests", type=int, default=40, help="how many requests to make [%(default)s]")
    options = parser.parse_args()

    # A place in the window must run out: renewed, it would never be free again.
    client = ldlm.Client(options.addr, auto_renew_locks=False, retry_delay_seconds=1)
    for number in range(1, options.requests + 1):
        asked = now()
        # Waits for a place. It is not unlocked: its time-out makes the window.
        client.lock(options.lock, size=options.limit, lock_timeout_seconds=options.per)
        print(f"request {number}: asked {asked}, allowed {now()}", flush=True)

    # With LDLM a place ends with the connection that took it. If we left now, others could make as many requests again.
    time.sleep(options.per)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
