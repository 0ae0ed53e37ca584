// Package wire has the messages of the server's own interface and a client that calls it, as they are generated from the
// proto files by tools/make_wire.sh.
package wire
