package tenure

import (
	"context"
	"log/slog"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/proto"

	"tenure.dev/go/wire"
)

const (
	ttlDefault            = 30 * time.Second
	graceDefault          = 30 * time.Second
	connectTimeoutDefault = 5 * time.Second
)

// Config says where the server is, who asks, and how to be let in. Files are read for every connection that is made, so
// that what is in them can be replaced.
type Config struct {
	// Address is `host:port`, `host`, or with `https://` before it one that is spoken to in TLS.
	Address string
	// Holder is who asks, as others see it; `user@host:pid` if left out.
	Holder string
	// Meta is more about the holder, such as host, process or reason.
	Meta map[string]string
	// Namespace is the team's; `default` if left out.
	Namespace string
	// SessionGrace is how long what is held with the session outlives a lost connection; 30 s if left out.
	SessionGrace time.Duration
	// ConnectTimeout is how long a connection may take to come about; 5 s if left out.
	ConnectTimeout time.Duration
	// Password, or the file it is in.
	Password     string
	PasswordFile string
	// TLSCA has the certificate of the server's authority, as PEM; that of the system if left out.
	TLSCA     []byte
	TLSCAFile string
	// TLSCertificate and TLSKey are the client's own, as PEM.
	TLSCertificate     []byte
	TLSCertificateFile string
	TLSKey             []byte
	TLSKeyFile         string
	// Logger hears of connections that break and come back; slog's default if left out.
	Logger *slog.Logger
}

// Option is what an acquire can say: what is wanted, for how long, and how long to wait. What the words mean is in
// docs/concepts.md of the server.
type Option func(*asked)

type asked struct {
	request   *wire.AcquireRequest
	also      []Part
	ttl       *time.Duration
	lifetimes []wire.Lifetime
	wait      *time.Duration
	onQueued  func(position uint64)
	onLost    func(*HoldLost)
}

// TTL makes it a lease of this length, which is renewed in the background; 30 s if left out.
func TTL(length time.Duration) Option { return func(a *asked) { a.ttl = &length } }

// UntilSessionEnds makes it end with this client's session instead of by time; with TTL by both.
func UntilSessionEnds() Option { return lifetime(wire.Lifetime_LIFETIME_SESSION) }

// Kept makes it end only by its release, or by an operator.
func Kept() Option { return lifetime(wire.Lifetime_LIFETIME_KEPT) }

// Owner binds it to something outside, such as a workflow, whose end ends it.
func Owner(owner string) Option {
	return func(a *asked) {
		a.request.Owner = &owner
		a.lifetimes = append(a.lifetimes, wire.Lifetime_LIFETIME_BOUND)
	}
}

func lifetime(of wire.Lifetime) Option {
	return func(a *asked) { a.lifetimes = append(a.lifetimes, of) }
}

// Units says how many units or resources; 1 if left out.
func Units(units uint32) Option { return func(a *asked) { a.request.Units = &units } }

// All asks for everything there is: the writer of a read-write lock.
func All() Option { return func(a *asked) { a.request.All = true } }

// Select says which resources, by their labels: `gpu && mem >= 80 && !old`.
func Select(selector string) Option { return func(a *asked) { a.request.Select = &selector } }

// Size is the size the pool must have; an unknown pool is made with it.
func Size(size uint32) Option { return func(a *asked) { a.request.Size = &size } }

// Dirty asks for resources that have to be cleaned, in order to clean them: releasing them returns them clean, losing them
// does not.
func Dirty() Option { return func(a *asked) { a.request.Dirty = true } }

// Part is what is wanted of one more pool.
type Part struct {
	Pool string
	// Units says how many units or resources; 1 if left out.
	Units uint32
	// All asks for everything there is. Not together with Units.
	All bool
	// Select says which resources, by their labels.
	Select string
	// Size is the size the pool must have; an unknown pool is made with it.
	Size uint32
}

// And asks for something of further pools too: all is granted together, as one hold with one token, or none of it. A place
// in a rate window is not given back with the rest, but ends by itself.
//
//	client.Hold(ctx, "db", tenure.And(tenure.Part{Pool: "gpus", Units: 2, Select: "mem >= 80"}, tenure.Part{Pool: "api"}))
func And(parts ...Part) Option { return func(a *asked) { a.also = append(a.also, parts...) } }

// HoldsOn says that the holder, under whose id nobody else works, lets go of nothing it holds while this waits. Then a wait
// that could never end, because others wait for what the holder has, is refused at once: errors.Is(err, tenure.Deadlock).
func HoldsOn() Option { return func(a *asked) { a.request.HoldsOn = true } }

// Wait limits how long to wait for room. The error is then the server's, and says who was in the way; that of a context
// whose time is up does not.
func Wait(most time.Duration) Option { return func(a *asked) { a.wait = &most } }

// Priority puts it before those with a lower one, from -1000 to 1000.
func Priority(priority int32) Option { return func(a *asked) { a.request.Priority = priority } }

// Holder is who asks, if it is not the client's.
func Holder(holder string) Option { return func(a *asked) { a.request.Holder = holder } }

// Meta is more about the holder.
func Meta(meta map[string]string) Option { return func(a *asked) { a.request.Meta = meta } }

// RequestID names the request: another one with the same id gets the same hold. It is as good as a key to whoever knows
// it, so take a random one. Without it the client makes one.
func RequestID(id string) Option { return func(a *asked) { a.request.RequestId = &id } }

// OnQueued is called with the place in the queue if the request has to wait, and again after a reconnect; on the goroutine
// that waits.
func OnQueued(call func(position uint64)) Option { return func(a *asked) { a.onQueued = call } }

// OnLost is called when the hold is lost, on a goroutine of its own. Not when it is released or kept.
func OnLost(call func(*HoldLost)) Option { return func(a *asked) { a.onLost = call } }

func newAsked(pool string, options []Option) (*asked, error) {
	a := &asked{request: &wire.AcquireRequest{Pool: pool}}
	for _, option := range options {
		option(a)
	}
	return a, a.settle()
}

// settle makes of what was said what the wire has.
func (a *asked) settle() error {
	if a.request.All && a.request.Units != nil {
		return &Unusable{Why: "Units and All cannot both be given"}
	}
	for _, part := range a.also {
		said, err := part.said()
		if err != nil {
			return err
		}
		a.request.Also = append(a.request.Also, said)
	}
	lifetime := wire.Lifetime_LIFETIME_LEASED
	if len(a.lifetimes) > 0 {
		lifetime = a.lifetimes[0]
	}
	withTime := lifetime == wire.Lifetime_LIFETIME_LEASED || lifetime == wire.Lifetime_LIFETIME_SESSION
	if len(a.lifetimes) > 1 || (a.ttl != nil && !withTime && lifetime != wire.Lifetime_LIFETIME_WINDOW) {
		return &Unusable{Why: "a hold has one lifetime: TTL, UntilSessionEnds, Kept, Owner or that of a rate window"}
	}
	a.request.Lifetime = lifetime
	if a.ttl == nil && lifetime == wire.Lifetime_LIFETIME_LEASED {
		length := ttlDefault
		a.ttl = &length
	}
	if a.ttl != nil {
		a.request.TtlMs = proto.Uint64(inMS(*a.ttl))
	}
	switch {
	case a.wait == nil:
		a.request.WaitForever = true
	case *a.wait > 0:
		a.request.WaitMs = proto.Uint64(inMS(*a.wait))
	}
	return nil
}

// said is it as the wire has it.
func (p Part) said() (*wire.Part, error) {
	if p.All && p.Units != 0 {
		return nil, &Unusable{Why: "a Part cannot have both Units and All"}
	}
	said := &wire.Part{Pool: p.Pool, All: p.All}
	if p.Units != 0 {
		said.Units = &p.Units
	}
	if p.Select != "" {
		said.Select = &p.Select
	}
	if p.Size != 0 {
		said.Size = &p.Size
	}
	return said, nil
}

// ask is it as the session has it.
func (a *asked) ask(ctx context.Context) *ask {
	var end moment
	if a.wait != nil && *a.wait > 0 {
		end = now().plus(*a.wait)
	}
	return newAsk(ctx, a.request, end)
}

// defaultHolder is who this process is to others if it does not say.
func defaultHolder() string {
	name := ""
	if who, err := user.Current(); err == nil {
		name = who.Username
	}
	host, _ := os.Hostname()
	return part(name, "somebody") + "@" + part(host, "localhost") + ":" + strconv.Itoa(os.Getpid())
}

// part: names of holders have a limit on the server; a made-up one keeps well below it.
func part(text, otherwise string) string {
	shown := []rune(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, text))
	if len(shown) == 0 {
		return otherwise
	}
	return string(shown[:min(len(shown), 64)])
}
