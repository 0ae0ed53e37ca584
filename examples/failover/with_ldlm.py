#!/usr/bin/env python3
"""Stand by until no other server is the primary, then be the primary until this process ends."""

import argparse
import os
import sys
import time
from contextlib import nullcontext

try:
    import ldlm
except ImportError:
    sys.exit("error: py-ldlm is not installed\nhint: pip install -r examples/requirements.txt")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("who", help="what this server is called")
    parser.add_argument("--addr", default="127.0.0.1:3144", help="the lock server [%(default)s]")
    parser.add_argument("--lock", default="application-primary", help="the lock's name [%(default)s]")
    parser.add_argument("--log", help="append what was done to this file [standard output]")
    options = parser.parse_args()

    client = ldlm.Client(options.addr)
    print(f"{options.who}: standing by, process {os.getpid()}", flush=True)

    # Waits. The lock is this connection's, and the connection ends with the process, however that ends.
    lock = client.lock(options.lock)
    print(f"{options.who}: primary", flush=True)

    with open(options.log, "a", encoding="utf-8") if options.log else nullcontext(sys.stdout) as log:
        while lock:
            print(options.who, "at work", file=log, flush=True)
            time.sleep(0.2)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
