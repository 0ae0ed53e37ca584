package tenure

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"tenure.dev/go/wire"
)

func TestAHoldSurvivesAKillAndARestart(t *testing.T) {
	s := startServer(t)
	client, pool, led := s.client("alice"), name(t), name(t)
	hold := held(client.Hold(soon(t), pool, TTL(5*time.Minute)))(t)
	term := held(client.Elect(soon(t), led))(t)
	key := sessionKey(client)
	s.restart()
	until(t, "it comes back", func() bool { return isOpen(client) && client.Trouble() == nil })
	if sessionKey(client) != key {
		t.Fatal("it is another session")
	}
	for _, it := range []*Hold{hold, term} {
		must(t, it.Check())
		if got := holders(t, client, it.Pool()); len(got) != 1 || got[0] != "alice" {
			t.Fatalf("%v hold %s", got, it.Pool())
		}
		must(t, it.Release(soon(t)))
	}
}

func TestAWaiterKeepsItsPlaceOverLostConnectionsAndARestart(t *testing.T) {
	s := startServer(t)
	alice, bob, carol, pool := s.client("alice"), s.client("bob"), s.client("carol"), name(t)
	first := held(alice.Hold(soon(t), pool, TTL(5*time.Minute)))(t)
	got := map[string]chan *Hold{"bob": make(chan *Hold, 1), "carol": make(chan *Hold, 1)}
	for i, client := range []*Client{bob, carol} {
		go func() {
			hold, err := client.Hold(context.Background(), pool)
			if err != nil {
				t.Error(err)
			}
			got[client.Holder()] <- hold
		}()
		until(t, "it waits", func() bool { return waiters(t, alice, pool) == i+1 })
	}
	s.door.cut()
	until(t, "both are back", func() bool { return waiters(t, alice, pool) == 2 })
	s.restart()
	until(t, "all are back", func() bool {
		return isOpen(alice) && isOpen(bob) && isOpen(carol) && waiters(t, alice, pool) == 2
	})
	must(t, first.Release(soon(t)))
	second := <-got["bob"]
	must(t, second.Release(soon(t)))
	third := <-got["carol"]
	if second.Token() >= third.Token() {
		t.Fatal("carol came after bob")
	}
	must(t, third.Release(soon(t)))
}

func TestAHoldThatAnOperatorEndsIsToldAtOnce(t *testing.T) {
	s := inMemory(t)
	client, operator, pool := s.client("alice"), s.client("operator"), name(t)
	type key struct{}
	told := make(chan *HoldLost, 1)
	ctx, end := context.WithCancel(context.WithValue(soon(t), key{}, "mine"))
	hold := held(client.Hold(ctx, pool, OnLost(func(lost *HoldLost) { told <- lost })))(t)
	end()
	if hold.Context().Err() != nil || hold.Context().Value(key{}) != "mine" {
		t.Fatal("the hold's context is not that of the wait, but has its values")
	}
	within, done := hold.With(soon(t))
	defer done()
	_, err := operator.API().ForceRelease(soon(t), &wire.ForceReleaseRequest{
		Pool: pool, Holder: "alice", Token: hold.Token(), Reason: "moving house",
	})
	must(t, err)
	<-hold.Context().Done()
	<-within.Done()
	for _, err := range []error{context.Cause(hold.Context()), context.Cause(within), <-told, hold.Check(), hold.Release(soon(t))} {
		var lost *HoldLost
		if !errors.As(err, &lost) || lost.Reason != LostForced || lost.Note != "moving house" || !errors.Is(err, NotHeld) {
			t.Fatalf("it was lost as %v", err)
		}
	}
}

func TestWithHoldSaysThatTheHoldWasLost(t *testing.T) {
	s := inMemory(t)
	client, pool := s.client("alice"), name(t)
	err := client.WithHold(soon(t), pool, func(ctx context.Context, hold *Hold) error {
		_, err := client.API().ForceRelease(soon(t), &wire.ForceReleaseRequest{
			Pool: pool, Holder: "alice", Token: hold.Token(), Reason: "no",
		})
		must(t, err)
		<-ctx.Done()
		return nil
	})
	var lost *HoldLost
	if !errors.As(err, &lost) || lost.Reason != LostForced {
		t.Fatalf("it ended as %v", err)
	}
}

func TestALeaseIsRenewedForAsLongAsItIsHeld(t *testing.T) {
	s := inMemory(t)
	client, pool := s.client("alice"), name(t)
	hold := held(client.Hold(soon(t), pool, TTL(2*time.Second)))(t)
	renewed := 0
	for event, err := range client.Watch(soon(t), Watching{Pool: pool, After: proto.Uint64(0)}) {
		must(t, err)
		if event.GetKind() == wire.EventKind_EVENT_KIND_RENEWED {
			renewed++
		}
		if renewed == 4 {
			break
		}
	}
	// Four times a third of it have passed.
	must(t, hold.Check())
	if left, ok := hold.CertainFor(); !ok || left > 2*time.Second {
		t.Fatalf("it is certain for %v", left)
	}
	must(t, hold.Release(soon(t)))
}

func TestAHoldWhoseServerIsAwayForTooLongIsTakenForLost(t *testing.T) {
	s := inMemory(t)
	client, pool, led := s.clientWith(Config{Holder: "alice", SessionGrace: time.Second}), name(t), name(t)
	lease := held(client.Hold(soon(t), pool, TTL(time.Second)))(t)
	term := held(client.Elect(soon(t), led))(t)
	s.kill()
	for _, hold := range []*Hold{lease, term} {
		<-hold.Context().Done()
		if lost := hold.Lost(); lost.Reason != LostUnreachable {
			t.Fatalf("it was lost as %v", lost)
		}
	}
	until(t, "it says what is in the way", func() bool { return client.Trouble() != nil })
	ctx, end := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer end()
	if err := lease.Release(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a release that nobody hears of ends as %v", err)
	}
}

func TestWhatIsReleasedWhileTheServerIsAwayIsReleasedWhenItIsBack(t *testing.T) {
	s := startServer(t)
	client, pool := s.client("alice"), name(t)
	hold := held(client.Hold(soon(t), pool, TTL(5*time.Minute)))(t)
	s.kill()
	released := make(chan error, 1)
	go func() { released <- hold.Release(context.Background()) }()
	<-hold.Context().Done()
	s.restart()
	must(t, <-released)
	if got := holders(t, client, pool); len(got) != 0 {
		t.Fatalf("%v hold it", got)
	}
}

func TestTheFirstConnectionFailsAtOnceAndSaysWhy(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	nobody := listener.Addr().String()
	must(t, listener.Close())
	_, err = Connect(soon(t), Config{Address: nobody, Logger: quiet})
	var unreachable *Unreachable
	if !errors.As(err, &unreachable) || !strings.Contains(err.Error(), "nothing listens there") {
		t.Fatalf("it fails as %v", err)
	}
	s := inMemory(t)
	_, err = Connect(soon(t), Config{Address: s.http, Logger: quiet})
	var foreign *ForeignServer
	if !errors.As(err, &foreign) || !strings.Contains(err.Error(), "HTTP and not gRPC") {
		t.Fatalf("it fails as %v", err)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer silent.Close()
	_, err = Connect(soon(t), Config{Address: silent.Addr().String(), ConnectTimeout: 50 * time.Millisecond, Logger: quiet})
	if !errors.As(err, &unreachable) {
		t.Fatalf("it fails as %v", err)
	}
	// A client that could not be connected tries again when it is asked again.
	client, err := New(Config{Address: s.door.address, Logger: quiet})
	must(t, err)
	s.door.leadsTo("")
	if _, err := client.Hold(soon(t), "db"); !errors.As(err, &unreachable) {
		t.Fatalf("it fails as %v", err)
	}
	s.door.leadsTo(s.grpc)
	must(t, held(client.Hold(soon(t), "db"))(t).Release(soon(t)))
	must(t, client.Close(soon(t)))
}
