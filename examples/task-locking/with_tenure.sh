#!/bin/sh
# Do those of the tasks that nobody has done and nobody else is doing, until all are done.
set -eu

usage='Usage: with_tenure.sh [OPTIONS] WHO TASK...

  WHO           what this worker is called
  TASK...       what there is to do; the same for all workers
  --done DIR    the folder that has a file for every finished task [done]
  --log FILE    append what was done to this file [standard output]
  --seconds N   how long a task takes [1]

TENURE_ADDR says where the server is [127.0.0.1:3144].'
wrong() { printf 'error: %s\n\n%s\n' "$1" "$usage" >&2; exit 64; }

marks='done' log='' seconds=1
while [ $# -gt 0 ]; do
    case $1 in
        --help|-h) printf '%s\n' "$usage"; exit ;;
        --done|--log|--seconds) [ $# -ge 2 ] || wrong "$1 needs a value" ;;
        -*) wrong "there is no option $1" ;;
        *) break ;;
    esac
    case $1 in
        --done) marks=$2 ;;
        --log) log=$2 ;;
        --seconds) seconds=$2 ;;
    esac
    shift 2
done
[ $# -ge 2 ] || wrong 'say what this worker is called, and what there is to do'
who=$1
shift
for name in "$who" "$@"; do
    case $name in
        */*|.*) wrong 'the names of workers and tasks become names of files: without / and no dot at the start' ;;
    esac
done
mkdir -p "$marks"

# Runs one task under its lock. The lock says that nobody is doing it; only the mark says that nobody has done it. The mark
# appears as a whole or not at all, before the lock is given up, and has the token that proves in which turn it was made.
attempt() {
    task=$1
    shift
    # shellcheck disable=SC2016 # for the inner shell
    tenure run "$@" --holder "$who" "task/$task" -- sh -ec '
        who=$1 task=$2 marks=$3 log=$4 seconds=$5
        [ ! -e "$marks/$task" ] || exit 0
        [ -z "$log" ] || exec >> "$log"
        echo "$who begin $task"
        sleep "$seconds"
        echo "$who $TENURE_TOKEN" > "$marks/.$task.$TENURE_TOKEN"
        mv "$marks/.$task.$TENURE_TOKEN" "$marks/$task"
        echo "$who end $task"
    ' sh "$who" "$task" "$marks" "$log" "$seconds"
}

busy=200 # no task ends with this code
while :; do
    first='' progress=no
    for task in "$@"; do
        [ ! -e "$marks/$task" ] || continue
        first=${first:-$task} code=0
        attempt "$task" --nonblock -E "$busy" || code=$?
        case $code in
            0) progress=yes ;;
            "$busy") ;;
            *) echo "error: task $task ended with code $code" >&2; exit "$code" ;;
        esac
    done
    [ -n "$first" ] || exit 0
    # Others are at all of them. Whoever that is may die, and leave the task to us.
    [ "$progress" = yes ] || attempt "$first"
done
