#!/usr/bin/env python3
"""Let many workers do an operation, but never more at once than there are slots, wherever the workers are."""

import argparse
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

try:
    import ldlm
except ImportError:
    sys.exit("error: py-ldlm is not installed\nhint: pip install -r examples/requirements.txt")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operation", nargs="*", default=["sleep", "0.5"], help="a command, after -- [sleep 0.5]")
    parser.add_argument("--addr", default="127.0.0.1:3144", help="the lock server [%(default)s]")
    parser.add_argument("--lock", default="search-slots", help="the lock's name [%(default)s]")
    parser.add_argument("--slots", type=int, default=10, help="how many at once; the same for all [%(default)s]")
    parser.add_argument("--workers", type=int, default=25, help="how many want to, from this process [%(default)s]")
    parser.add_argument("--log", help="append beginnings and ends to this file, which others may share")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run(options, options.log or os.path.join(folder, "log"))


def run(options, log):
    client = ldlm.Client(options.addr)

    def note(text):
        with open(log, "a", encoding="utf-8") as file:
            file.write(f"{text}\n")

    def worker(_):
        # Waits for a slot, and gives it back in the end.
        with client.lock_context(options.lock, size=options.slots):
            note("begin")
            code = subprocess.run(options.operation, check=False).returncode
            note("end")
            return code

    with ThreadPoolExecutor(options.workers) as pool:
        codes = list(pool.map(worker, range(options.workers)))
    print(f"at most {peak(log)} at once, of {options.slots} slots")
    if any(codes):
        sys.exit(f"error: the operation failed for {sum(map(bool, codes))} of {options.workers} workers")


def peak(path):
    """How many were at it at once, at most."""
    now, most = 0, 0
    with open(path, encoding="utf-8") as log:
        for line in log:
            now += {"begin": 1, "end": -1}.get(line.strip(), 0)
            most = max(most, now)
    return most


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
