#!/usr/bin/env python3
"""Serve HTTP, and answer 429 to more requests than there may be in any window of time, over all servers together."""

import argparse
import json
import sys
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def take_place(options):
    """Nothing if there was a place in the window, else why not, as the server says it."""
    place = {
        "pool": options.rate,
        "holder": "image server",
        "size": options.limit,
        "lifetime": "window",
        "ttl_ms": options.per * 1000,
    }
    request = urllib.request.Request(
        f"{options.api}/api/v1/acquire",
        data=json.dumps(place).encode(),
        headers={"content-type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=10):
            return None
    except urllib.error.HTTPError as refused:
        return json.load(refused)["error"]


def seconds_until_free(refusal):
    """When the oldest place in the window ends, rounded up."""
    ends = min(holder["deadline_ms"] for holder in refusal["holders"])
    return max(1, -(-(ends - refusal["at_ms"]) // 1000))


def handler(options):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            try:
                refusal = take_place(options)
            except (OSError, ValueError):
                self.answer(503, "the lock server is away")
                return
            if refusal is None:
                self.answer(200, "here is your image")
            elif refusal["code"] == "busy":
                self.answer(429, "too many requests", {"retry-after": str(seconds_until_free(refusal))})
            else:
                self.log_error("%s", refusal["message"])
                self.answer(503, "the lock server does not serve")

        def answer(self, status, text, headers=None):
            body = f"{text}\n".encode()
            self.send_response(status)
            self.send_header("content-type", "text/plain")
            self.send_header("content-length", str(len(body)))
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    return Handler


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--api", default="http://127.0.0.1:3180", help="the lock server [%(default)s]")
    parser.add_argument("--port", type=int, default=8080, help="where to serve; 0 is any that is free [%(default)s]")
    parser.add_argument("--rate", default="generate-image-rate", help="the name of the rate [%(default)s]")
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
