#!/usr/bin/env python3
"""Do those of the tasks that nobody has done and nobody else is doing, until all are done."""

import argparse
import os
import sys
import time
from contextlib import nullcontext

try:
    import ldlm
except ImportError:
    sys.exit("error: py-ldlm is not installed\nhint: pip install -r examples/requirements.txt")


class Worker:
    def __init__(self, options):
        self.client = ldlm.Client(options.addr)
        self.options = options

    def run(self, tasks):
        while unfinished := [task for task in tasks if not self.is_done(task)]:
            for task in unfinished:
                self.attempt(task, self.client.try_lock)
            if all(not self.is_done(task) for task in unfinished):
                # Others are at all of them. Whoever that is may die, and leave the task to us.
                self.attempt(unfinished[0], self.client.lock)

    def attempt(self, task, take):
        lock = take(f"task/{task}")
        if not lock:
            return
        try:
            # The lock says that nobody is doing it. Only the mark says that nobody has done it.
            if not self.is_done(task):
                self.do(task)
        finally:
            lock.unlock()

    def do(self, task):
        self.note(f"begin {task}")
        time.sleep(self.options.seconds)
        # As a whole or not at all, and before the lock is given up.
        draft = os.path.join(self.options.done, f".{task}.{self.options.who}")
        with open(draft, "w", encoding="utf-8") as mark:
            mark.write(f"{self.options.who}\n")
        os.rename(draft, self.mark(task))
        self.note(f"end {task}")

    def mark(self, task):
        return os.path.join(self.options.done, task)

    def is_done(self, task):
        return os.path.exists(self.mark(task))

    def note(self, text):
        # Opened for each line: the workers share the file.
        with open(self.options.log, "a", encoding="utf-8") if self.options.log else nullcontext(sys.stdout) as log:
            print(self.options.who, text, file=log, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("who", help="what this worker is called")
    parser.add_argument("tasks", nargs="+", metavar="task", help="what there is to do; the same for all workers")
    parser.add_argument("--addr", default="127.0.0.1:3144", help="the lock server [%(default)s]")
    parser.add_argument("--done", default="done", help="the folder that has a file for every finished task [%(default)s]")
    parser.add_argument("--log", help="append what was done to this file [standard output]")
    parser.add_argument("--seconds", type=float, default=1, help="how long a task takes [%(default)s]")
    options = parser.parse_args()
    if any("/" in name or name.startswith(".") for name in [options.who, *options.tasks]):
        parser.error("the names of workers and tasks become names of files: without / and no dot at the start")
    os.makedirs(options.done, exist_ok=True)
    Worker(options).run(options.tasks)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
