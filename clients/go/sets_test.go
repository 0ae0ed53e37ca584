package tenure

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"tenure.dev/go/wire"
)

func TestASetIsGrantedTogetherAndGivenBackTogether(t *testing.T) {
	s := inMemory(t)
	alice, bob := s.client("alice"), s.client("bob")
	db, machines, calls := name(t), name(t), name(t)
	_, err := alice.SetPool(soon(t), machines, &wire.PoolSpec{Resources: []*wire.Resource{
		{Name: "a", Labels: map[string]string{"mem": "40"}},
		{Name: "b", Labels: map[string]string{"mem": "80"}},
		{Name: "c", Labels: map[string]string{"mem": "80"}},
	}})
	must(t, err)
	_, err = alice.SetPool(soon(t), calls, &wire.PoolSpec{Units: proto.Uint32(10), WindowMs: proto.Uint64(60_000)})
	must(t, err)
	wanted := And(Part{Pool: machines, Units: 2, Select: "mem >= 80"}, Part{Pool: calls, Units: 5})
	hold := held(alice.Hold(soon(t), db, wanted))(t)
	if hold.Pool() != db || len(hold.Also()) != 2 || hold.Part("other") != nil {
		t.Fatalf("it has %v and %v", hold.Pool(), hold.Also())
	}
	var names []string
	for _, resource := range hold.Part(machines).GetResources() {
		names = append(names, resource.GetName())
	}
	if !slices.Equal(names, []string{"b", "c"}) || hold.Part(db).GetUnits() != 1 || hold.Part(db).DeadlineMs != nil {
		t.Fatalf("it has %v, and of the first %v", names, hold.Part(db))
	}
	if part := hold.Part(calls); part.GetUnits() != 5 || part.DeadlineMs == nil {
		t.Fatalf("it has %v of the rate window", part)
	}
	// One of the pools has no room, so nothing is taken of the other.
	other := name(t)
	_, err = bob.TryHold(soon(t), other, And(Part{Pool: db}, Part{Pool: machines, All: true}))
	var refused *Refused
	if !errors.As(err, &refused) || refused.Code() != Busy || refused.Refusal.GetPool() != db ||
		len(refused.Refusal.GetAlso()) != 1 || refused.Refusal.GetAlso()[0].GetPool() != machines {
		t.Fatalf("refused as %v", err)
	}
	if got := holders(t, bob, other); len(got) != 0 {
		t.Fatalf("%v hold it", got)
	}
	must(t, hold.Release(soon(t)))
	must(t, held(bob.TryHold(soon(t), db, And(Part{Pool: machines, All: true})))(t).Release(soon(t)))
	// Places in a rate window are used up.
	if got := holders(t, bob, calls); !slices.Equal(got, []string{"alice"}) {
		t.Fatalf("%v have places", got)
	}
}

func TestASetSurvivesARestartAsAWhole(t *testing.T) {
	s := startServer(t)
	alice, bob := s.client("alice"), s.client("bob")
	first, second := name(t), name(t)
	hold := held(alice.Hold(soon(t), first, And(Part{Pool: second})))(t)
	s.restart()
	_, err := bob.TryHold(soon(t), second)
	if !errors.Is(err, Busy) {
		t.Fatalf("after the restart it is answered with %v", err)
	}
	must(t, hold.Check())
	must(t, hold.Release(soon(t)))
	must(t, held(bob.Hold(soon(t), second, And(Part{Pool: first})))(t).Release(soon(t)))
}

func TestAWaitThatCouldNeverEndIsRefusedWithItsCycle(t *testing.T) {
	s := inMemory(t)
	alice, bob, left, right := s.client("alice"), s.client("bob"), name(t), name(t)
	held(alice.Hold(soon(t), left))(t)
	inBobsHands := held(bob.Hold(soon(t), right))(t)
	got := make(chan *Hold, 1)
	go func() {
		hold, err := alice.Hold(soon(t), right, HoldsOn())
		if err != nil {
			t.Error(err)
		}
		got <- hold
	}()
	until(t, "alice waits", func() bool { return waiters(t, bob, right) == 1 })
	_, err := bob.Hold(soon(t), left, HoldsOn())
	var refused *Refused
	if !errors.As(err, &refused) || !errors.Is(err, Deadlock) {
		t.Fatalf("refused as %v", err)
	}
	var cycle []string
	for _, blocked := range refused.Cycle() {
		cycle = append(cycle, blocked.GetHolder()+" for "+blocked.GetPool())
	}
	if !slices.Equal(cycle, []string{"bob for " + left, "alice for " + right}) {
		t.Fatalf("the cycle is %v", cycle)
	}
	if text := err.Error(); !strings.Contains(text, "alice") || !strings.Contains(text, "bob") {
		t.Fatalf("it says %q", text)
	}
	// Whoever is refused lets go, and the other goes on.
	must(t, inBobsHands.Release(soon(t)))
	if hold := <-got; hold == nil || hold.Pool() != right {
		t.Fatalf("alice has %v", hold)
	}
}

func TestAJanitorCleansByReleasing(t *testing.T) {
	s := inMemory(t)
	client, pool := s.client("alice"), name(t)
	_, err := client.SetPool(soon(t), pool, &wire.PoolSpec{Resources: []*wire.Resource{{Name: "a"}}, Cleaning: true})
	must(t, err)
	_, err = client.TryHold(soon(t), pool, Dirty())
	if !errors.Is(err, Busy) {
		t.Fatalf("there is something to clean: %v", err)
	}
	must(t, held(client.Hold(soon(t), pool))(t).Release(soon(t)))
	_, err = client.TryHold(soon(t), pool)
	var refused *Refused
	if !errors.As(err, &refused) || refused.Code() != Busy || refused.Refusal.GetDirty() != 1 {
		t.Fatalf("what is dirty is answered with %v", err)
	}
	clean := make(chan *Hold, 1)
	go func() {
		hold, err := client.Hold(soon(t), pool, Wait(patience))
		if err != nil {
			t.Error(err)
		}
		clean <- hold
	}()
	until(t, "somebody waits for a clean one", func() bool { return waiters(t, client, pool) == 1 })
	janitor := held(client.Hold(soon(t), pool, Dirty(), TTL(time.Minute)))(t)
	if janitor.Resource().GetName() != "a" {
		t.Fatalf("the janitor has %v", janitor.Resources())
	}
	must(t, janitor.Release(soon(t)))
	if hold := <-clean; hold.Resource().GetName() != "a" {
		t.Fatalf("what was cleaned is %v", hold.Resources())
	}
}
