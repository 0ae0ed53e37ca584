#!/bin/sh
# Let many workers do an operation, but never more at once than there are slots, wherever the workers are.
set -eu

usage='Usage: with_tenure.sh [OPTIONS] [-- OPERATION...]

  OPERATION...  a command [sleep 0.5]
  --pool NAME   the pool of slots [search-slots]
  --slots N     how many at once; the same for all [10]
  --workers N   how many want to, from this script [25]
  --log FILE    append beginnings and ends to this file, which others may share

TENURE_ADDR says where the server is [127.0.0.1:3144].'
wrong() { printf 'error: %s\n\n%s\n' "$1" "$usage" >&2; exit 64; }

pool=search-slots slots=10 workers=25 log=''
while [ $# -gt 0 ]; do
    case $1 in
        --help|-h) printf '%s\n' "$usage"; exit ;;
        --) shift; break ;;
        --pool|--slots|--workers|--log) [ $# -ge 2 ] || wrong "$1 needs a value" ;;
        *) wrong "there is no option $1; a command comes after --" ;;
    esac
    case $1 in
        --pool) pool=$2 ;;
        --slots) slots=$2 ;;
        --workers) workers=$2 ;;
        --log) log=$2 ;;
    esac
    shift 2
done
[ $# -gt 0 ] || set -- sleep 0.5
if [ -z "$log" ]; then
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
fi

running=''
# shellcheck disable=SC2086 # one word a process
trap 'kill $running 2> /dev/null; exit 130' INT TERM
while [ "$workers" -gt 0 ]; do
    # Waits for a slot.
    # shellcheck disable=SC2016 # for the inner shell
    tenure run --size "$slots" "$pool" -- sh -c '
        log=$1
        shift
        echo begin >> "$log"
        "$@"
        code=$?
        echo end >> "$log"
        exit "$code"
    ' sh "$log" "$@" &
    running="$running $!"
    workers=$((workers - 1))
done

failed=0
for process in $running; do
    wait "$process" || failed=$?
done
awk '$0 == "begin" && ++now > most { most = now } $0 == "end" { now-- } END { print most + 0 }' "$log" |
    { read -r most; echo "at most $most at once, of $slots slots"; }
exit "$failed"
