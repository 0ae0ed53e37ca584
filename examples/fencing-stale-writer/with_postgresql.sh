#!/bin/sh
# Add a name to a report that is guarded by a lock, and be refused if the lock was lost meanwhile.
set -eu

usage='Usage: with_postgresql.sh [OPTIONS] WHO

  WHO           the name, which is the lock'\''s holder too
  --lock NAME   the lock'\''s name, and the report'\''s [report]
  --ttl TIME    how long the lock is ours [2s]
  --pause       stop between reading and writing, until SIGCONT
  --unchecked   write without a look at the token

TENURE_ADDR says where the server is [127.0.0.1:3144], and PGHOST, PGDATABASE and the like where PostgreSQL is.'
wrong() { printf 'error: %s\n\n%s\n' "$1" "$usage" >&2; exit 64; }

lock=report ttl=2s pause=no write="SET body = :'body', token = :token WHERE name = :'name' AND token <= :token"
while [ $# -gt 0 ]; do
    case $1 in
        --help|-h) printf '%s\n' "$usage"; exit ;;
        --pause) pause=yes; shift ;;
        # What people write who trust the lock alone.
        --unchecked) write="SET body = :'body' WHERE name = :'name'"; shift ;;
        --lock|--ttl)
            [ $# -ge 2 ] || wrong "$1 needs a value"
            case $1 in
                --lock) lock=$2 ;;
                --ttl) ttl=$2 ;;
            esac
            shift 2 ;;
        -*) wrong "there is no option $1" ;;
        *) break ;;
    esac
done
[ $# -eq 1 ] || wrong 'say whose name is to be added'
who=$1

# Runs what it reads; values are variables, which psql quotes.
sql() {
    psql --no-psqlrc --quiet --tuples-only --no-align --set ON_ERROR_STOP=1 --set name="$lock" --set token="$TENURE_TOKEN" "$@"
}
stale() {
    echo "$who: refused: its token is stale" >&2
    exit 1
}

hold=$(tenure acquire "$lock" --ttl "$ttl" --holder "$who" --eval) || exit
eval "$hold"

sql <<'SQL'
SET client_min_messages = warning;
CREATE TABLE IF NOT EXISTS report (name text PRIMARY KEY, token bigint NOT NULL, body text NOT NULL);
SQL
# To read what will be written back raises the token too: from here on, nobody with a lower one writes. What is read begins
# with a mark, to be told from nothing.
body=$(sql <<'SQL'
INSERT INTO report AS present (name, token, body) VALUES (:'name', :token, '')
ON CONFLICT (name) DO UPDATE SET token = excluded.token
WHERE present.token <= excluded.token
RETURNING '=' || body;
SQL
)
[ -n "$body" ] || stale
body=${body#=}
echo "$who: holds with token $TENURE_TOKEN and has read '$body'"

if [ "$pause" = yes ]; then
    echo "$who: stops for a while; \`kill -CONT $$\` wakes it"
    kill -STOP $$
    echo "$who: is awake and still thinks that it holds"
fi

body="${body:+$body }$who"
written=$(sql --set body="$body" <<SQL
UPDATE report $write RETURNING 'written';
SQL
)
[ -n "$written" ] || stale
echo "$who: has written '$body'"
tenure release || echo "$who: learns that too late"
