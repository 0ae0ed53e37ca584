#!/bin/sh
# Stand by until no other server is the primary, then be the primary until this process ends.
set -eu

usage='Usage: with_tenure.sh [--lock NAME] [--log FILE] WHO

  WHO           what this server is called
  --lock NAME   the lock'\''s name [application-primary]
  --log FILE    append what was done to this file [standard output]

TENURE_ADDR says where the server is [127.0.0.1:3144].'
wrong() { printf 'error: %s\n\n%s\n' "$1" "$usage" >&2; exit 64; }

lock=application-primary log=''
while [ $# -gt 0 ]; do
    case $1 in
        --help|-h) printf '%s\n' "$usage"; exit ;;
        --lock|--log) [ $# -ge 2 ] || wrong "$1 needs a value" ;;
        -*) wrong "there is no option $1" ;;
        *) break ;;
    esac
    case $1 in
        --lock) lock=$2 ;;
        --log) log=$2 ;;
    esac
    shift 2
done
[ $# -eq 1 ] || wrong 'say what this server is called'

echo "$1: standing by, process $$"
# What follows `--` is the application. It runs while the lock is held, and is stopped before anybody else can have it,
# even if this very process is killed.
# shellcheck disable=SC2016 # for the inner shell
exec tenure run --holder "$1" "$lock" -- sh -c '
    echo "$1: primary in term $TENURE_TOKEN"
    [ -z "$2" ] || exec >> "$2"
    while :; do
        echo "$1 at work"
        sleep 0.2
    done
' sh "$1" "$log"
