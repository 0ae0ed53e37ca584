#!/bin/sh
# Makes `wire` from the proto files, with `protoc` of the system and generators of fixed versions.
# With --check it changes nothing and fails if something else would come of it. With --generators FOLDER it only makes those,
# there; GENERATORS says where they are, if they were made before, and GO which go it is.
set -eu
cd "$(dirname "$0")/.."
generators() {
	GOBIN="$1" "${GO:-go}" install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.11
	GOBIN="$1" "${GO:-go}" install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.5.1
}
if [ "${1:-}" = --generators ]; then
	generators "$2"
	exit
fi
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
if [ -z "${GENERATORS:-}" ]; then
	GENERATORS="$made/bin"
	generators "$GENERATORS"
fi
options="module=tenure.dev/go"
for file in ../../proto/tenure/v1/*.proto; do
	options="$options,Mtenure/v1/$(basename "$file")=tenure.dev/go/wire"
done
PATH="$GENERATORS:$PATH" protoc -I ../../proto --go_out="$made" --go_opt="$options" \
	--go-grpc_out="$made" --go-grpc_opt="$options" ../../proto/tenure/v1/*.proto
# Which protoc it was does not matter.
sed -i -E 's|^(// [-	]*protoc +)v[0-9.]+$|\1(any)|' "$made"/wire/*.go
if [ "${1:-}" = --check ]; then
	diff -r -x doc.go "$made/wire" wire
	echo "as the proto files say"
else
	rm -f wire/*.pb.go
	cp "$made"/wire/*.go wire/
fi
