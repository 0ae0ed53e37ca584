#!/usr/bin/env python3
"""Add a name to a report that is guarded by a lock, and be refused if the lock was lost meanwhile."""

import argparse
import json
import os
import signal
import sqlite3
import sys
import urllib.error
import urllib.request

TABLE = "CREATE TABLE IF NOT EXISTS report (name TEXT PRIMARY KEY, token INTEGER NOT NULL, body TEXT NOT NULL)"
# To read what will be written back raises the token too: from here on, nobody with a lower one writes.
READ = """
    INSERT INTO report AS present (name, token, body) VALUES (:name, :token, '')
    ON CONFLICT (name) DO UPDATE SET token = excluded.token
    WHERE present.token <= excluded.token
"""
WRITE = "UPDATE report SET body = :body, token = :token WHERE name = :name AND token <= :token"
# What people write who trust the lock alone.
WRITE_UNCHECKED = "UPDATE report SET body = :body WHERE name = :name"


class Stale(Exception):
    """A higher token was here before."""


class Report:
    """What is protected. Each of its steps is one statement that compares and sets, or one transaction."""

    def __init__(self, file, name):
        # Without implicit transactions: they are begun here, and before anything is read.
        self.database = sqlite3.connect(file, timeout=60, isolation_level=None)
        self.database.execute(TABLE)
        self.name = name

    def read(self, token):
        self.database.execute("BEGIN IMMEDIATE")
        try:
            if self.database.execute(READ, {"name": self.name, "token": token}).rowcount == 0:
                raise Stale
            (body,) = self.database.execute("SELECT body FROM report WHERE name = ?", [self.name]).fetchone()
            return body
        finally:
            self.database.execute("COMMIT")

    def write(self, body, token, statement=WRITE):
        values = {"name": self.name, "token": token, "body": body}
        if self.database.execute(statement, values).rowcount == 0:
            raise Stale


def call(options, what, **message):
    """One call of the lock server. It answers when the lock is ours, however long that takes."""
    request = urllib.request.Request(
        f"{options.api}/api/v1/{what}",
        data=json.dumps(message).encode(),
        headers={"content-type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def work(options):
    who = options.who
    ttl_ms = options.ttl * 1000
    hold = call(options, "acquire", pool=options.lock, holder=who, ttl_ms=ttl_ms, wait_forever=True)
    report, token = Report(options.file, options.lock), hold["token"]
    body = report.read(token)
    print(f"{who}: holds with token {token} and has read '{body}'", flush=True)
    if options.pause:
        print(f"{who}: stops for a while; `kill -CONT {os.getpid()}` wakes it", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
        print(f"{who}: is awake and still thinks that it holds", flush=True)
    body = f"{body} {who}".strip()
    report.write(body, token, WRITE_UNCHECKED if options.unchecked else WRITE)
    print(f"{who}: has written '{body}'", flush=True)
    try:
        call(options, "release", key=hold["key"])
    except urllib.error.HTTPError as refused:
        print(f"{who}: {json.load(refused)['error']['message']}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("who", metavar="WHO", help="the name, which is the lock's holder too")
    parser.add_argument("--api", default="http://127.0.0.1:3180", help="the lock server [%(default)s]")
    parser.add_argument("--lock", default="report", help="the lock's name, and the report's [%(default)s]")
    parser.add_argument("--file", default="report.db", help="the database [%(default)s]")
    parser.add_argument("--ttl", type=int, default=2, help="how long the lock is ours, in seconds [%(default)s]")
    parser.add_argument("--pause", action="store_true", help="stop between reading and writing, until SIGCONT")
    parser.add_argument("--unchecked", action="store_true", help="write without a look at the token")
    options = parser.parse_args()
    try:
        work(options)
    except Stale:
        sys.exit(f"{options.who}: refused: its token is stale")
    except urllib.error.HTTPError as refused:
        sys.exit(f"error: {refused.read().decode()}")
    except urllib.error.URLError as problem:
        sys.exit(f"error: {options.api}: {problem.reason}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
