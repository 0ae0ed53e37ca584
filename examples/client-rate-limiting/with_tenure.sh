#!/bin/sh
# Make requests to an expensive service, never more in any window of time than all clients together may.
set -eu

usage='Usage: with_tenure.sh [OPTIONS]

  --rate NAME      the name of the rate [expensive-service-rate]
  --limit N        how many requests in a window [30]
  --per DURATION   how long a window is [60s]
  --requests N     how many requests to make [40]

TENURE_ADDR says where the server is [127.0.0.1:3144].'
wrong() { printf 'error: %s\n\n%s\n' "$1" "$usage" >&2; exit 64; }

rate=expensive-service-rate limit=30 per=60s requests=40
while [ $# -gt 0 ]; do
    case $1 in
        --help|-h) printf '%s\n' "$usage"; exit ;;
        --rate|--limit|--per|--requests) [ $# -ge 2 ] || wrong "$1 needs a value" ;;
        *) wrong "there is no option $1" ;;
    esac
    case $1 in
        --rate) rate=$2 ;;
        --limit) limit=$2 ;;
        --per) per=$2 ;;
        --requests) requests=$2 ;;
    esac
    shift 2
done

# Milliseconds since 1970.
now() { date +%s%3N; }

number=1
while [ "$number" -le "$requests" ]; do
    asked=$(now)
    # Waits for a place in the window. It ends by itself, and only then; nobody has to stay for that.
    until tenure rate "$rate" --limit "$limit" --per "$per"; do
        code=$?
        # A wait outlasts a restart of the server, but one that would begin meanwhile is told so by this code.
        [ "$code" -eq 69 ] || exit "$code"
        sleep 1
    done
    echo "request $number: asked $asked, allowed $(now)"
    number=$((number + 1))
done
