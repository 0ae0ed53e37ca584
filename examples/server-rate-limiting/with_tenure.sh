#!/bin/sh
# Answer one request as a CGI program does: 429 if there were as many as there may be in any window of time.
set -eu

usage='Usage: with_tenure.sh [OPTIONS]

  --rate NAME      the name of the rate [generate-image-rate]
  --limit N        how many requests in a window [30]
  --per DURATION   how long a window is [60s]

It is a CGI program: a web server starts it for each request. TENURE_ADDR says where the server is
[127.0.0.1:3144].'
wrong() { printf 'error: %s\n\n%s\n' "$1" "$usage" >&2; exit 64; }

rate=generate-image-rate limit=30 per=60s
while [ $# -gt 0 ]; do
    case $1 in
        --help|-h) printf '%s\n' "$usage"; exit ;;
        --rate|--limit|--per) [ $# -ge 2 ] || wrong "$1 needs a value" ;;
        *) wrong "there is no option $1" ;;
    esac
    case $1 in
        --rate) rate=$2 ;;
        --limit) limit=$2 ;;
        --per) per=$2 ;;
    esac
    shift 2
done

answer() { printf 'Status: %s\r\nContent-Type: text/plain\r\n\r\n%s\n' "$1" "$2"; }

# Does not wait. What it has to say goes to the web server's error log.
code=0
tenure rate --nonblock "$rate" --limit "$limit" --per "$per" || code=$?
case $code in
    0) answer '200 OK' 'here is your image' ;;
    75) answer '429 Too Many Requests' 'too many requests' ;;
    *) answer '503 Service Unavailable' 'the lock server is away' ;;
esac
