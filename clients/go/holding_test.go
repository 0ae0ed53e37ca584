package tenure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"tenure.dev/go/wire"
)

func TestOneHoldsAndTheNextGetsItWhenItIsReleased(t *testing.T) {
	s := inMemory(t)
	alice, bob, pool := s.client("alice"), s.client("bob"), name(t)
	first, err := alice.Hold(soon(t), pool, TTL(30*time.Second))
	must(t, err)
	places := make(chan uint64, 10)
	got := make(chan *Hold, 1)
	go func() {
		hold, err := bob.Hold(soon(t), pool, OnQueued(func(position uint64) { places <- position }))
		if err != nil {
			t.Error(err)
		}
		got <- hold
	}()
	if place := <-places; place != 1 {
		t.Fatalf("bob is at place %d", place)
	}
	if got := holders(t, alice, pool); !slices.Equal(got, []string{"alice"}) {
		t.Fatalf("%v hold it", got)
	}
	must(t, first.Release(soon(t)))
	second := <-got
	if second.Token() <= first.Token() {
		t.Fatalf("token %d came after %d", second.Token(), first.Token())
	}
	if lost := first.Lost(); lost == nil || lost.Reason != LostLetGo {
		t.Fatalf("the first was let go, and says %v", lost)
	}
	must(t, second.Release(soon(t)))
	must(t, second.Release(soon(t)))
	if got := holders(t, alice, pool); len(got) != 0 {
		t.Fatalf("%v hold it", got)
	}
}

func TestWhoOnlyTriesIsToldWhoIsInTheWay(t *testing.T) {
	s := inMemory(t)
	alice, bob, pool := s.client("alice"), s.client("bob"), name(t)
	held(alice.Hold(soon(t), pool))(t)
	_, err := bob.TryHold(soon(t), pool)
	var refused *Refused
	if !errors.As(err, &refused) || !errors.Is(err, Busy) || errors.Is(err, TimedOut) {
		t.Fatalf("refused as %v", err)
	}
	if len(refused.Holders()) != 1 || refused.Holders()[0].GetHolder() != "alice" || refused.Advice() == "" {
		t.Fatalf("%v says too little", refused.Refusal)
	}
	var failure Error
	if !errors.As(err, &failure) || !failure.Retry() || failure.MayHaveHappened() || failure.Code() != Busy {
		t.Fatalf("%v is of a wrong kind", err)
	}
}

func TestAWaitEndsWhenItsTimeHasPassedAndTellsWhoWasInTheWay(t *testing.T) {
	s := inMemory(t)
	alice, bob, pool := s.client("alice"), s.client("bob"), name(t)
	held(alice.Hold(soon(t), pool))(t)
	_, err := bob.Hold(soon(t), pool, Wait(50*time.Millisecond))
	var refused *Refused
	if !errors.Is(err, TimedOut) || !errors.As(err, &refused) || refused.Holders()[0].GetHolder() != "alice" {
		t.Fatalf("refused as %v", err)
	}
}

func TestAContextThatEndsLeavesTheQueue(t *testing.T) {
	s := inMemory(t)
	alice, bob, pool := s.client("alice"), s.client("bob"), name(t)
	hold := held(alice.Hold(soon(t), pool))(t)
	ctx, cancel := context.WithCancel(soon(t))
	_, err := bob.Hold(ctx, pool, OnQueued(func(uint64) { cancel() }))
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("ended as %v", err)
	}
	until(t, "nobody waits", func() bool { return waiters(t, alice, pool) == 0 })
	ctx, end := context.WithTimeout(soon(t), 20*time.Millisecond)
	defer end()
	if _, err := bob.Hold(ctx, pool); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("ended as %v", err)
	}
	until(t, "nobody waits", func() bool { return waiters(t, alice, pool) == 0 })
	must(t, hold.Release(soon(t)))
	held(bob.TryHold(soon(t), pool))(t)
}

func TestASelectorChoosesTheResource(t *testing.T) {
	s := inMemory(t)
	client, pool := s.client("alice"), name(t)
	created, err := client.SetPool(soon(t), pool, &wire.PoolSpec{Resources: []*wire.Resource{
		{Name: "small", Labels: map[string]string{"mem": "40"}},
		{Name: "large", Labels: map[string]string{"mem": "80"}, Properties: map[string]string{"host": "large.example"}},
	}})
	must(t, err)
	if !created {
		t.Fatal("the pool was there")
	}
	hold := held(client.Hold(soon(t), pool, Select("mem >= 80")))(t)
	if hold.Resource().GetName() != "large" || hold.Resource().GetProperties()["host"] != "large.example" {
		t.Fatalf("got %v", hold.Resources())
	}
	if _, err := client.Hold(soon(t), pool, Select("mem >=")); !errors.Is(err, Code("invalid_argument")) {
		t.Fatalf("refused as %v", err)
	}
	both := held(client.Hold(soon(t), name(t), Size(3), Units(2)))(t)
	if both.Units() != 2 || both.Resource() != nil {
		t.Fatalf("got %v", both.Grant())
	}
}

func TestARateWindowLetsThroughAsManyAsItSays(t *testing.T) {
	s := inMemory(t)
	client, pool := s.client("alice"), name(t)
	for range 2 {
		place, err := client.TryRate(soon(t), pool, 2, time.Hour)
		must(t, err)
		if place.Token == 0 || place.CertainFor <= 0 {
			t.Fatalf("got %+v", place)
		}
	}
	if _, err := client.TryRate(soon(t), pool, 2, time.Hour); !errors.Is(err, Busy) {
		t.Fatalf("the third was answered with %v", err)
	}
	if _, err := client.Rate(soon(t), pool, 3, time.Hour); !errors.Is(err, Code("size_mismatch")) {
		t.Fatalf("another size was answered with %v", err)
	}
	// One that waits gets the next place.
	short := name(t)
	for range 3 {
		_, err := client.Rate(soon(t), short, 1, 20*time.Millisecond)
		must(t, err)
	}
}

func TestALeaderLeadsUntilItsClientIsClosed(t *testing.T) {
	s := inMemory(t)
	alice, bob, pool := s.client("alice"), s.client("bob"), name(t)
	if leader, err := bob.Leader(soon(t), pool); leader != nil || err != nil {
		t.Fatalf("%v leads (%v)", leader, err)
	}
	term := held(alice.Elect(soon(t), pool))(t)
	leader, err := bob.Leader(soon(t), pool)
	must(t, err)
	if leader.GetHolder() != "alice" || leader.GetToken() != term.Token() {
		t.Fatalf("%v leads", leader)
	}
	must(t, alice.Close(soon(t)))
	if lost := term.Lost(); lost == nil || lost.Reason != LostClosed {
		t.Fatalf("the term ended as %v", lost)
	}
	next := held(bob.Elect(soon(t), pool))(t)
	if next.Token() <= term.Token() {
		t.Fatal("terms rise")
	}
	if _, err := alice.Hold(soon(t), pool); !errors.Is(err, Closed) {
		t.Fatalf("a closed client says %v", err)
	}
}

func TestAWatcherHearsWhatHappensAlsoOverALostConnection(t *testing.T) {
	s := inMemory(t)
	client, pool := s.client("alice"), name(t)
	ctx, end := context.WithCancel(soon(t))
	defer end()
	must(t, held(client.Hold(soon(t), pool))(t).Release(soon(t)))
	var heard []wire.EventKind
	for event, err := range client.Watch(ctx, Watching{Pool: pool, After: proto.Uint64(0)}) {
		if err != nil {
			// It ends with its context, and not before.
			if !errors.Is(err, context.Canceled) || ctx.Err() == nil {
				t.Fatal(err)
			}
			break
		}
		heard = append(heard, event.GetKind())
		switch len(heard) {
		case 3:
			s.door.cut()
			must(t, held(client.Hold(soon(t), pool))(t).Release(soon(t)))
		case 5:
			end()
		}
	}
	granted, ended := wire.EventKind_EVENT_KIND_GRANTED, wire.EventKind_EVENT_KIND_ENDED
	if !slices.Equal(heard, []wire.EventKind{wire.EventKind_EVENT_KIND_POOL_SET, granted, ended, granted, ended}) {
		t.Fatalf("heard %v", heard)
	}
}

func TestManyGoroutinesShareOneConnection(t *testing.T) {
	s := inMemory(t)
	client, pool := s.client("alice"), name(t)
	var inside, most, done atomic.Int64
	var all sync.WaitGroup
	for range 64 {
		all.Add(1)
		go func() {
			defer all.Done()
			for range 10 {
				err := client.WithHold(soon(t), pool, func(ctx context.Context, hold *Hold) error {
					if now := inside.Add(1); now > most.Load() {
						most.Store(now)
					}
					defer inside.Add(-1)
					done.Add(1)
					return ctx.Err()
				}, Size(3))
				if err != nil {
					t.Error(err)
				}
			}
		}()
	}
	all.Wait()
	if done.Load() != 640 || most.Load() > 3 {
		t.Fatalf("%d were done, %d at once", done.Load(), most.Load())
	}
	sessions, err := client.API().ListSessions(soon(t), &wire.ListSessionsRequest{})
	must(t, err)
	if len(sessions.GetSessions()) != 1 {
		t.Fatalf("%d sessions", len(sessions.GetSessions()))
	}
}

func TestWithHoldGivesBackWhateverComesOfIt(t *testing.T) {
	s := inMemory(t)
	client, pool := s.client("alice"), name(t)
	mine := errors.New("the work failed")
	err := client.WithHold(soon(t), pool, func(context.Context, *Hold) error { return mine })
	if !errors.Is(err, mine) {
		t.Fatalf("failed as %v", err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("it panics")
			}
		}()
		_ = client.WithHold(soon(t), pool, func(context.Context, *Hold) error { panic("no") })
	}()
	ctx, cancel := context.WithCancel(soon(t))
	err = client.WithHold(ctx, pool, func(within context.Context, _ *Hold) error {
		cancel()
		<-within.Done()
		return within.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("failed as %v", err)
	}
	held(client.TryHold(soon(t), pool))(t)
}

func TestTheSameRequestGetsTheSameHold(t *testing.T) {
	s := inMemory(t)
	alice, pool := s.client("alice"), name(t)
	one := held(alice.Hold(soon(t), pool, RequestID("the-one")))(t)
	two := held(alice.Hold(soon(t), pool, RequestID("the-one")))(t)
	if one.Token() != two.Token() || one.Key() != two.Key() {
		t.Fatal("they are two")
	}
}

func TestAnotherNamespaceIsAnotherWorld(t *testing.T) {
	s := inMemory(t)
	ours, theirs, pool := s.client("a"), s.clientWith(Config{Holder: "b", Namespace: "theirs"}), name(t)
	held(ours.TryHold(soon(t), pool))(t)
	if hold := held(theirs.TryHold(soon(t), pool))(t); hold.Namespace() != "theirs" {
		t.Fatal(hold.Namespace())
	}
	if got := holders(t, theirs, pool); fmt.Sprint(got) != "[b]" {
		t.Fatalf("%v hold it there", got)
	}
}

func TestWhatCannotBeMeantIsSaidBeforeAnythingIsSent(t *testing.T) {
	client, err := New(Config{Address: "127.0.0.1:1"})
	must(t, err)
	for _, options := range [][]Option{
		{Units(1), All()}, {Kept(), UntilSessionEnds()}, {TTL(time.Second), Kept()}, {And(Part{Pool: "a", Units: 1, All: true})},
	} {
		var unusable *Unusable
		if _, err := client.Hold(soon(t), "db", options...); !errors.As(err, &unusable) {
			t.Errorf("it is answered with %v", err)
		}
	}
	for _, address := range []string{"", "a b", "host:0", "host:99999", "host:", "[::1"} {
		var unusable *Unusable
		if _, err := New(Config{Address: address}); !errors.As(err, &unusable) {
			t.Errorf("%q is taken for an address (%v)", address, err)
		}
	}
	for _, address := range []string{"host", "::1", "[::1]:3144", "http://host:1/", "https://host"} {
		if _, err := New(Config{Address: address}); err != nil {
			t.Errorf("%q is not taken for an address: %v", address, err)
		}
	}
}

func TestAFenceRefusesWhoComesLate(t *testing.T) {
	var fence Fence
	must(t, fence.Check("report", 5))
	must(t, fence.Check("report", 5))
	must(t, fence.Check("other", 1))
	var stale *StaleToken
	if err := fence.Check("report", 4); !errors.As(err, &stale) || stale.Highest != 5 {
		t.Fatalf("it is answered with %v", err)
	}
	must(t, fence.Check("report", 6))
	// What is done with a token is done before a higher one passes.
	inside, goOn, order := make(chan struct{}), make(chan struct{}), make(chan uint64, 2)
	write := func(token uint64) func() error {
		return func() error {
			if token == 7 {
				close(inside)
				<-goOn
			}
			order <- token
			return nil
		}
	}
	var both sync.WaitGroup
	both.Add(2)
	go func() {
		defer both.Done()
		if err := fence.CheckAnd("report", 7, write(7)); err != nil {
			t.Error(err)
		}
	}()
	<-inside
	go func() {
		defer both.Done()
		if err := fence.CheckAnd("report", 8, write(8)); err != nil {
			t.Error(err)
		}
	}()
	must(t, fence.CheckAnd("other", 2, func() error { return nil }))
	close(goOn)
	both.Wait()
	if first, second := <-order, <-order; first != 7 || second != 8 {
		t.Fatalf("%d came before %d", first, second)
	}
	if err := fence.CheckAnd("report", 7, write(7)); !errors.As(err, &stale) || stale.Highest != 8 {
		t.Fatalf("it is answered with %v", err)
	}
}
