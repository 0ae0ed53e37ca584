// A client of LDLM's interface over Go's own gRPC and the public proto, and nothing of ours.
// It is not LDLM's client for Go, but stands on the same gRPC, with the same habits on the wire.
//
// Usage: ldlm-client calls|secure|restart ADDRESS PROTO [FOLDER PASSWORD]
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/bufbuild/protocompile"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Longer than anything takes; only a failing test waits for it.
const patience = time.Minute

func main() {
	scenario, address, proto := os.Args[1], os.Args[2], os.Args[3]
	service := load(proto)
	switch scenario {
	case "calls":
		calls(service, address)
	case "secure":
		secure(service, address, os.Args[4], os.Args[5])
	case "restart":
		restart(service, address)
	default:
		check(false, "there is no scenario %s", scenario)
	}
}

func calls(service protoreflect.ServiceDescriptor, address string) {
	alice, bob := plain(service, address), plain(service, address)
	lock := alice.succeeds("Lock", fields{"name": "x", "lock_timeout_seconds": int32(600)})
	check(lock.flag("locked") && lock.text("name") == "x" && len(lock.text("key")) == 36, "%v", lock)
	check(!bob.succeeds("TryLock", fields{"name": "x"}).flag("locked"), "it is held")
	fact("Lock and TryLock")

	key := lock.text("key")
	check(alice.succeeds("Renew", fields{"name": "x", "key": key, "lock_timeout_seconds": int32(1200)}).flag("locked"), "renewed")
	check(bob.succeeds("Unlock", fields{"name": "x", "key": key}).flag("unlocked"), "unlocked")
	check(bob.succeeds("TryLock", fields{"name": "x"}).flag("locked"), "it is free")
	fact("Renew and Unlock")

	for range 3 {
		check(alice.succeeds("Lock", fields{"name": "seats", "size": int32(3)}).flag("locked"), "there are seats")
	}
	check(!bob.succeeds("TryLock", fields{"name": "seats", "size": int32(3)}).flag("locked"), "there are no more")
	fact("as many as the size have it at once")

	fact(alice.fails("Lock", fields{"name": "x", "wait_timeout_seconds": int32(1)}))
	fact(alice.fails("Unlock", fields{"name": "x", "key": key}))
	fact(alice.fails("Unlock", fields{"name": "nobody", "key": key}))
	fact(alice.fails("Renew", fields{"name": "x", "key": key, "lock_timeout_seconds": int32(600)}))
	fact(alice.fails("TryLock", fields{"name": "x", "size": int32(2)}))
	fact(alice.fails("TryLock", fields{"name": "y", "size": int32(0)}))

	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	_, err := alice.call(ctx, "Lock", fields{"name": "x"})
	check(status.Code(err) == codes.DeadlineExceeded, "%v", err)
	bob.close()
	check(alice.succeeds("Lock", fields{"name": "x"}).flag("locked"), "neither bob has it nor the call that was over")
	fact("what a closed connection held, and what a call that was over waited for, is free")
}

func secure(service protoreflect.ServiceDescriptor, address, folder, password string) {
	pem := must(os.ReadFile(filepath.Join(folder, "ca.crt")))
	roots := x509.NewCertPool()
	check(roots.AppendCertsFromPEM(pem), "ca.crt is PEM")
	own := must(tls.LoadX509KeyPair(filepath.Join(folder, "client.crt"), filepath.Join(folder, "client.key")))

	known := connect(service, address, credentials.NewTLS(&tls.Config{RootCAs: roots, Certificates: []tls.Certificate{own}}))
	known.password = password
	check(known.succeeds("Lock", fields{"name": "x"}).flag("locked"), "it is let in")
	fact("let in")
	known.password = "wrong"
	fact("with a wrong password: " + known.refused())
	known.password = ""
	fact("without a password: " + known.refused())
	unknown := connect(service, address, credentials.NewTLS(&tls.Config{RootCAs: roots}))
	unknown.password = password
	fact("without a certificate: " + unknown.refused())
}

// Holds one lock over a restart of the server and waits for another, asking again as LDLM's client does.
func restart(service protoreflect.ServiceDescriptor, address string) {
	holder, waiter := plain(service, address), plain(service, address)
	held := holder.succeeds("Lock", fields{"name": "held"})
	got := make(chan reply)
	go func() { got <- waiter.again("Lock", fields{"name": "held"}) }()
	fact("holds")
	_, err := bufio.NewReader(os.Stdin).ReadString('\n')
	check(err == nil, "the test ended first")
	check(!holder.again("TryLock", fields{"name": "held"}).flag("locked"), "it is still held")
	check(holder.again("Unlock", fields{"name": "held", "key": held.text("key")}).flag("unlocked"), "unlocked")
	fact("unlocked by its old key")
	check((<-got).flag("locked"), "it is its turn")
	fact("the waiter got it")
}

type fields map[string]any

type client struct {
	service  protoreflect.ServiceDescriptor
	conn     *grpc.ClientConn
	password string
}

func plain(service protoreflect.ServiceDescriptor, address string) *client {
	return connect(service, address, insecure.NewCredentials())
}

func connect(service protoreflect.ServiceDescriptor, address string, how credentials.TransportCredentials) *client {
	return &client{service: service, conn: must(grpc.NewClient(address, grpc.WithTransportCredentials(how)))}
}

func (c *client) close() {
	check(c.conn.Close() == nil, "it was open")
}

func (c *client) call(ctx context.Context, method string, request fields) (reply, error) {
	if c.password != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", c.password)
	}
	described := c.service.Methods().ByName(protoreflect.Name(method))
	message, answer := dynamicpb.NewMessage(described.Input()), dynamicpb.NewMessage(described.Output())
	for name, value := range request {
		message.Set(described.Input().Fields().ByName(protoreflect.Name(name)), protoreflect.ValueOf(value))
	}
	err := c.conn.Invoke(ctx, fmt.Sprintf("/%s/%s", c.service.FullName(), method), message, answer)
	return reply{answer}, err
}

func (c *client) answered(method string, request fields) reply {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answer, err := c.call(ctx, method, request)
	check(err == nil, "%s: %v", method, err)
	return answer
}

// The call must succeed, and say so by leaving the error out.
func (c *client) succeeds(method string, request fields) reply {
	answer := c.answered(method, request)
	check(!answer.Has(answer.field("error")), "%s: %v", method, answer)
	return answer
}

// The name of the error, and what it says.
func (c *client) fails(method string, request fields) string {
	answer := c.answered(method, request)
	check(answer.Has(answer.field("error")), "%s: %v", method, answer)
	problem := reply{answer.Get(answer.field("error")).Message()}
	code := problem.field("code")
	name := code.Enum().Values().ByNumber(problem.Get(code).Enum()).Name()
	return fmt.Sprintf("%s: %s", name, problem.text("message"))
}

func (c *client) refused() string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := c.call(ctx, "TryLock", fields{"name": "x"})
	return status.Code(err).String()
}

func (c *client) again(method string, request fields) reply {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		answer, err := c.call(ctx, method, request)
		if status.Code(err) != codes.Unavailable {
			check(err == nil && !answer.Has(answer.field("error")), "%s: %v %v", method, answer, err)
			return answer
		}
		time.Sleep(100 * time.Millisecond)
	}
}

type reply struct {
	protoreflect.Message
}

func (r reply) field(name string) protoreflect.FieldDescriptor {
	return r.Descriptor().Fields().ByName(protoreflect.Name(name))
}

func (r reply) flag(name string) bool {
	return r.Get(r.field(name)).Bool()
}

func (r reply) text(name string) string {
	return r.Get(r.field(name)).String()
}

func load(proto string) protoreflect.ServiceDescriptor {
	resolver := &protocompile.SourceResolver{ImportPaths: []string{filepath.Dir(proto)}}
	files := must((&protocompile.Compiler{Resolver: resolver}).Compile(context.Background(), filepath.Base(proto)))
	return files[0].Services().ByName("LDLM")
}

func fact(text string) {
	fmt.Println(text)
}

func must[T any](value T, err error) T {
	check(err == nil, "%v", err)
	return value
}

func check(holds bool, otherwise string, arguments ...any) {
	if !holds {
		panic(fmt.Sprintf(otherwise, arguments...))
	}
}
