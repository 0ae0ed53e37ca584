#!/usr/bin/env python3
"""Serve HTTP, and answer 429 to more requests than there may be in any window of time, over all servers together."""

import argparse
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

try:
    import grpc
    import ldlm
except ImportError:
    sys.exit("error: py-ldlm is not installed\nhint: pip install -r examples/requirements.txt")


def handler(options):
    # A place in the window must run out: renewed, it would never be free again. And a visitor should not wait for a
    # lock server that is away, so nothing is tried again.
    client = ldlm.Client(options.addr, auto_renew_locks=False, retries=0)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            try:
                # It is not unlocked: its time-out makes the window.
                lock = client.try_lock(options.lock, size=options.limit, lock_timeout_seconds=options.per)
            except grpc.RpcError:
                self.answer(503, "the lock server is away")
                return
            if not lock:
                self.answer(429, "too many requests")
                return
            self.answer(200, "here is your image")

        def answer(self, status, text):
            body = f"{text}\n".encode()
            self.send_response(status)
            self.send_header("content-type", "text/plain")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--addr", default="127.0.0.1:3144", help="the lock server [%(default)s]")
    parser.add_argument("--port", type=int, default=8080, help="where to serve; 0 is any that is free [%(default)s]")
    parser.add_argument("--lock", default="generate-image", help="the lock's name [%(default)s]")
    parser.add_argument("--limit", type=int, default=30, help="how many requests in a window [%(default)s]")
    parser.add_argument("--per", type=int, default=60, help="how long a window is, in seconds [%(default)s]")
    options = parser.parse_args()
    with ThreadingHTTPServer(("127.0.0.1", options.port), handler(options)) as server:
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
