package tenureflow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// What a slow machine may take for what happens at once.
const patience = 60 * time.Second

type wish struct {
	Pool    string
	Options Options
	Tries   bool
}

// uses holds until it is told to go on, and says what it held.
func uses(ctx workflow.Context, it wish) (uint64, error) {
	var token uint64
	with := WithHold
	if it.Tries {
		with = TryWithHold
	}
	err := with(ctx, it.Pool, it.Options, func(ctx workflow.Context, hold *Hold) error {
		token = hold.Token()
		return toldToGoOn(ctx)
	})
	var refused *Refused
	if errors.As(err, &refused) {
		return 0, refused.Failure()
	}
	return token, err
}

// toldToGoOn waits for the signal, or for the end of ctx, which a channel alone does not mind.
func toldToGoOn(ctx workflow.Context) error {
	told := workflow.NewSelector(ctx)
	told.AddReceive(workflow.GetSignalChannel(ctx, "go on"), func(signals workflow.ReceiveChannel, _ bool) {
		signals.Receive(ctx, nil)
	})
	told.AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) {})
	told.Select(ctx)
	return ctx.Err()
}

type round struct {
	Pool   string
	Left   int
	Held   *Detached
	Tokens []uint64
}

// continues keeps one hold over some runs.
func continues(ctx workflow.Context, now round) ([]uint64, error) {
	var hold *Hold
	if now.Held != nil {
		hold = Reattach(*now.Held)
	} else {
		var err error
		if hold, err = Acquire(ctx, now.Pool, Options{}); err != nil {
			return nil, err
		}
	}
	tokens := append(now.Tokens, hold.Token())
	err := hold.While(ctx, func(ctx workflow.Context, hold *Hold) error {
		if now.Left == 0 {
			return nil
		}
		held := hold.Detach()
		return workflow.NewContinueAsNewError(ctx, continues, round{now.Pool, now.Left - 1, &held, tokens})
	})
	return tokens, err
}

func TestWorkflowsGetItInTheOrderInWhichTheyCame(t *testing.T) {
	s := newStage(t)
	outside := s.take()
	var runs []client.WorkflowRun
	for place := 1; place <= 3; place++ {
		runs = append(runs, s.start(uses, wish{Pool: s.pool}))
		s.until("it waits", func() bool { return s.count("pools/"+s.quoted()+"/queue", "waiters") == place })
	}
	s.giveBack(outside)
	last := uint64(0)
	for _, run := range runs {
		s.signal(run)
		var token uint64
		must(t, run.Get(s.ctx, &token))
		if token <= last {
			t.Fatalf("token %d came after %d", token, last)
		}
		last = token
	}
	if s.holds() != 0 {
		t.Fatal("something is held")
	}
}

func TestWhatIsRefusedFailsTheWorkflowWithItsCode(t *testing.T) {
	s := newStage(t)
	s.take()
	for code, it := range map[string]wish{
		"busy":             {Pool: s.pool, Tries: true},
		"timed_out":        {Pool: s.pool, Options: Options{MaxWait: 300 * time.Millisecond}},
		"invalid_argument": {Pool: s.pool, Options: Options{Select: "mem >="}},
	} {
		err := s.start(uses, it).Get(s.ctx, nil)
		var failed *temporal.ApplicationError
		if !errors.As(err, &failed) || failed.Type() != code {
			t.Errorf("%s is %v", code, err)
		}
	}
}

// together holds a set, and says what it has of it.
func together(ctx workflow.Context, it wish) (Detached, error) {
	var held Detached
	err := WithHold(ctx, it.Pool, it.Options, func(ctx workflow.Context, hold *Hold) error {
		held = Detached{Pool: hold.Pool(), Token: hold.Token(), Also: hold.Also()}
		return toldToGoOn(ctx)
	})
	return held, err
}

func TestASetIsHeldAndGivenBackTogether(t *testing.T) {
	s := newStage(t)
	machines := s.pool + " machines"
	spec := map[string]any{"resources": []any{
		map[string]any{"name": "a"},
		map[string]any{"name": "b", "labels": map[string]any{"big": ""}},
	}}
	s.api("PUT", "pools/"+quoted(machines), spec, nil)
	run := s.start(together, wish{Pool: s.pool, Options: Options{And: []Part{{Pool: machines, Select: "big"}}}})
	s.until("it holds", func() bool { return s.holds() == 1 })
	if held := s.count("holds?pool="+quoted(machines), "holds"); held != 1 {
		t.Fatalf("%d are held of the machines", held)
	}
	s.signal(run)
	var held Detached
	must(t, run.Get(s.ctx, &held))
	if held.Pool != s.pool || len(held.Also) != 1 || held.Also[0].Pool != machines || held.Also[0].Resources[0].Name != "b" {
		t.Fatalf("it had %+v", held)
	}
	if s.holds()+s.count("holds?pool="+quoted(machines), "holds") != 0 {
		t.Fatal("something is held")
	}
}

func TestAWorkflowThatIsCancelledLeavesTheQueueOrGivesBack(t *testing.T) {
	s := newStage(t)
	holder := s.start(uses, wish{Pool: s.pool})
	s.until("it holds", func() bool { return s.holds() == 1 })
	waiter := s.start(uses, wish{Pool: s.pool})
	s.until("it waits", func() bool { return s.count("pools/"+s.quoted()+"/queue", "waiters") == 1 })
	must(t, s.client.CancelWorkflow(s.ctx, waiter.GetID(), ""))
	var cancelled *temporal.CanceledError
	if err := waiter.Get(s.ctx, nil); !errors.As(err, &cancelled) {
		t.Fatalf("it ended as %v", err)
	}
	if waiting := s.count("pools/"+s.quoted()+"/queue", "waiters"); waiting != 0 {
		t.Fatalf("%d wait", waiting)
	}
	must(t, s.client.CancelWorkflow(s.ctx, holder.GetID(), ""))
	if err := holder.Get(s.ctx, nil); !errors.As(err, &cancelled) {
		t.Fatalf("it ended as %v", err)
	}
	if s.holds() != 0 {
		t.Fatal("something is held")
	}
}

func TestAWorkflowThatIsTerminatedHoldsNothingSoonAfter(t *testing.T) {
	s := newStage(t)
	holder := s.start(uses, wish{Pool: s.pool})
	s.until("it holds", func() bool { return s.holds() == 1 })
	must(t, s.client.TerminateWorkflow(s.ctx, holder.GetID(), "", "no more"))
	s.until("nothing is held", func() bool { return s.holds() == 0 })
}

func TestWhatWasDoneCanBeReplayed(t *testing.T) {
	s := newStage(t)
	run := s.start(uses, wish{Pool: s.pool, Options: Options{TTL: 3 * time.Second}})
	s.until("it was renewed", func() bool { return s.happened("renewed") >= 1 })
	s.signal(run)
	must(t, run.Get(s.ctx, nil))
	events := s.client.GetWorkflowHistory(s.ctx, run.GetID(), "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	var told history.History
	for events.HasNext() {
		event, err := events.Next()
		must(t, err)
		told.Events = append(told.Events, event)
	}
	replayer := worker.NewWorkflowReplayer()
	replayer.RegisterWorkflow(uses)
	must(t, replayer.ReplayWorkflowHistory(silent{}, &told))
}

func TestOneHoldIsKeptOverManyRuns(t *testing.T) {
	s := newStage(t)
	var tokens []uint64
	must(t, s.start(continues, round{Pool: s.pool, Left: 2}).Get(s.ctx, &tokens))
	if len(tokens) != 3 || tokens[0] != tokens[1] || tokens[1] != tokens[2] {
		t.Fatalf("the tokens were %v", tokens)
	}
	if s.holds() != 0 {
		t.Fatal("something is held")
	}
}

func TestALeaseIsRenewedAndItsLossEndsTheWork(t *testing.T) {
	s := newStage(t)
	run := s.start(uses, wish{Pool: s.pool, Options: Options{TTL: 3 * time.Second}})
	var held struct{ Holds []struct{ Token uint64 } }
	s.until("it holds", func() bool { return s.holds() == 1 })
	s.until("it was renewed twice", func() bool { return s.happened("renewed") >= 2 })
	s.api("GET", "holds?pool="+s.quoted(), nil, &held)
	force := map[string]any{"pool": s.pool, "holder": run.GetID(), "token": held.Holds[0].Token, "reason": "no"}
	s.api("POST", "force-release", force, nil)
	var failed *temporal.ApplicationError
	if err := run.Get(s.ctx, nil); !errors.As(err, &failed) || failed.Type() != "not_held" {
		t.Fatalf("it ended as %v", err)
	}
}

// stage is a worker with these workflows, and the server as an operator sees it. TEMPORAL_ADDRESS and TENURE_API (the REST
// interface) say where they are; the project's own tests start both.
type stage struct {
	t      *testing.T
	ctx    context.Context
	client client.Client
	pool   string
	number int
}

func newStage(t *testing.T) *stage {
	address := os.Getenv("TEMPORAL_ADDRESS")
	if address == "" {
		t.Skip("TEMPORAL_ADDRESS does not say where Temporal is")
	}
	ctx, end := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(end)
	temporal, err := client.Dial(client.Options{
		HostPort: address, Namespace: os.Getenv("TEMPORAL_NAMESPACE"), Logger: silent{},
	})
	must(t, err)
	t.Cleanup(temporal.Close)
	s := &stage{t: t, ctx: ctx, client: temporal, pool: fmt.Sprintf("%s %d", t.Name(), time.Now().UnixNano())}
	it := worker.New(temporal, s.pool, worker.Options{})
	it.RegisterWorkflow(uses)
	it.RegisterWorkflow(continues)
	it.RegisterWorkflow(together)
	must(t, it.Start())
	t.Cleanup(it.Stop)
	return s
}

func (s *stage) start(function any, argument any) client.WorkflowRun {
	s.number++
	options := client.StartWorkflowOptions{ID: fmt.Sprintf("%s %d", s.pool, s.number), TaskQueue: s.pool}
	run, err := s.client.ExecuteWorkflow(s.ctx, options, function, argument)
	must(s.t, err)
	return run
}

func (s *stage) signal(run client.WorkflowRun) {
	must(s.t, s.client.SignalWorkflow(s.ctx, run.GetID(), "", "go on", nil))
}

// take takes the whole pool, by somebody who has nothing to do with Temporal.
func (s *stage) take() string {
	var grant struct{ Key string }
	s.api("POST", "acquire", map[string]any{"pool": s.pool, "holder": "operator", "lifetime": "kept", "all": true}, &grant)
	return grant.Key
}

func (s *stage) giveBack(key string) { s.api("POST", "release", map[string]any{"key": key}, nil) }

func (s *stage) holds() int { return s.count("holds?pool="+s.quoted(), "holds") }

func (s *stage) happened(kind string) int {
	var history struct{ Events []struct{ Kind string } }
	s.api("GET", "history?limit=1000&pool="+s.quoted(), nil, &history)
	count := 0
	for _, event := range history.Events {
		if event.Kind == kind {
			count++
		}
	}
	return count
}

func (s *stage) count(path, what string) int {
	var listed map[string]any
	s.api("GET", path, nil, &listed)
	items, _ := listed[what].([]any)
	return len(items)
}

func (s *stage) quoted() string { return quoted(s.pool) }

func quoted(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

// api calls the server. What is not there has nothing in it.
func (s *stage) api(method, path string, body any, answer any) {
	s.t.Helper()
	encoded, err := json.Marshal(body)
	must(s.t, err)
	if body == nil {
		encoded = nil
	}
	request, err := http.NewRequestWithContext(s.ctx, method, api()+"/api/v1/"+path, bytes.NewReader(encoded))
	must(s.t, err)
	if body != nil {
		request.Header.Set("content-type", "application/json")
	}
	response, err := http.DefaultClient.Do(request)
	must(s.t, err)
	defer response.Body.Close()
	if response.StatusCode == http.StatusNotFound {
		return
	}
	if response.StatusCode != http.StatusOK {
		s.t.Fatalf("%s %s: %s", method, path, response.Status)
	}
	if answer != nil {
		must(s.t, json.NewDecoder(response.Body).Decode(answer))
	}
}

func api() string {
	address := os.Getenv("TENURE_API")
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	return address
}

func (s *stage) until(what string, condition func() bool) {
	s.t.Helper()
	for begun := time.Now(); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Since(begun) > patience {
			s.t.Fatalf("it does not come about that %s", what)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}
