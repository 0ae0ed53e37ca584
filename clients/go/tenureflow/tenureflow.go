// Package tenureflow has holds for Temporal workflows.
//
//	err := tenureflow.WithHold(ctx, "gpu-pool", tenureflow.Options{Select: "mem >= 80", MaxWait: 10 * time.Minute},
//		func(ctx workflow.Context, hold *tenureflow.Hold) error {
//			return workflow.ExecuteActivity(ctx, "train", hold.Resource().Name, hold.Token()).Get(ctx, nil)
//		})
//
// Everything here is to be called from workflow code. It talks to the server through the activities that
// `tenure serve --temporal` offers, keeps no state outside the workflow, and is deterministic. A hold ends with its
// release, and at the latest when the workflow has closed, however it closed.
package tenureflow

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

const (
	// TaskQueue is where a server offers its activities, unless it was told otherwise.
	TaskQueue = "tenure"

	// After this long without a sign of the server the request is made again, and finds its place or its hold.
	heartbeatTimeout = 10 * time.Second
	// For what the server answers at once.
	answerTimeout = 10 * time.Second
	// One attempt waits so long at most; the next goes on where it was. The server's own limit of a wait.
	waitLimit = 366 * 24 * time.Hour
	// The server ends a wait and says who was in the way. Temporal ends it, so much later, only if the server cannot.
	waitMargin = 5 * time.Second
)

// A server that is away comes back. What it refuses it refuses for good, and says so in its answer.
var retryPolicy = &temporal.RetryPolicy{InitialInterval: 500 * time.Millisecond, MaximumInterval: 5 * time.Second}

// Options are what is wanted, for how long, and how long to wait. What the words mean is in docs/concepts.md of the server.
type Options struct {
	// Select says which resources, by their labels: `gpu && mem >= 80 && !old`.
	Select string
	// Units says how many units or resources; 1 if left out.
	Units uint32
	// All asks for everything there is: the writer of a read-write lock.
	All bool
	// Size is the size the pool must have; an unknown pool is made with it.
	Size uint32
	// And is what is wanted of further pools: all is granted together, as one hold with one token, or none of it.
	And []Part
	// Dirty asks for resources that have to be cleaned, in order to clean them: releasing them returns them clean.
	Dirty bool
	// HoldsOn says that the holder lets go of nothing it holds while this waits: a wait that could never end is then
	// refused at once, with the code `deadlock`.
	HoldsOn bool
	// MaxWait is how long to wait at most; for ever if left out.
	MaxWait time.Duration
	// TTL makes the hold a lease of this length, renewed every third of it while a WithHold runs; each renewal adds some
	// eleven events to the workflow's history. Without it the hold is bound to the workflow.
	TTL time.Duration
	// Lifetime is `bound`, `leased`, `window` or `kept`, if it is not to be bound to the workflow, nor a lease.
	Lifetime string
	// Priority puts it before those with a lower one, from -1000 to 1000.
	Priority int
	// Holder is who holds, as others see it; the workflow's id if left out.
	Holder string
	// Meta is more about the holder.
	Meta map[string]string
	// Namespace is the server's, which has nothing to do with that of Temporal.
	Namespace string
	// TaskQueue is where the server offers its activities; TaskQueue if left out.
	TaskQueue string
}

// Part is what is wanted of one more pool.
type Part struct {
	Pool string `json:"pool"`
	// Units says how many units or resources; 1 if left out.
	Units uint32 `json:"units,omitempty"`
	// All asks for everything there is.
	All bool `json:"all,omitempty"`
	// Select says which resources, by their labels.
	Select string `json:"select,omitempty"`
	// Size is the size the pool must have; an unknown pool is made with it.
	Size uint32 `json:"size,omitempty"`
}

// Granted is what a hold has of one more pool. A place in a rate window is not given back, but ends by itself.
type Granted struct {
	Pool      string     `json:"pool"`
	Units     uint32     `json:"units,omitempty"`
	Resources []Resource `json:"resources,omitempty"`
}

// Resource is a named thing in a pool.
type Resource struct {
	Name       string            `json:"name"`
	Labels     map[string]string `json:"labels,omitempty"`
	Properties map[string]string `json:"properties,omitempty"`
}

// Detached is a hold on its way to the next run of its workflow: an argument like any other, for a continue-as-new error.
// Whoever has the key can end the hold, so it should not be shown around.
type Detached struct {
	Pool      string     `json:"pool"`
	Token     uint64     `json:"token"`
	Key       string     `json:"key"`
	Namespace string     `json:"namespace,omitempty"`
	Units     uint32     `json:"units,omitempty"`
	Resources []Resource `json:"resources,omitempty"`
	Also      []Granted  `json:"also,omitempty"`
	Lifetime  string     `json:"lifetime,omitempty"`
	TTLMS     *uint64    `json:"ttl_ms,omitempty"`
	TaskQueue string     `json:"task_queue,omitempty"`
}

// String leaves the key out.
func (d Detached) String() string { return fmt.Sprintf("Detached(pool=%q, token=%d)", d.Pool, d.Token) }

// Hold is what is held.
type Hold struct {
	grant Detached
	done  bool
}

// Pool is the pool it is of. If it is of several, the first that was asked for and is no rate window.
func (h *Hold) Pool() string { return h.grant.Pool }

// Namespace is whose pool that is.
func (h *Hold) Namespace() string { return h.grant.Namespace }

// Token rises with every grant. What the hold protects should refuse a lower one than the highest it has seen.
func (h *Hold) Token() uint64 { return h.grant.Token }

// Key is secret: whoever has it may release the hold.
func (h *Hold) Key() string { return h.grant.Key }

// Units says how many units, or how many resources.
func (h *Hold) Units() uint32 { return h.grant.Units }

// Resources are those that are held, if the pool is one of named resources.
func (h *Hold) Resources() []Resource { return h.grant.Resources }

// Also is what it has of further pools; see Options.And.
func (h *Hold) Also() []Granted { return h.grant.Also }

// Resource is the one that is held. It is without a name if there is not just one.
func (h *Hold) Resource() Resource {
	if len(h.grant.Resources) != 1 {
		return Resource{}
	}
	return h.grant.Resources[0]
}

// Detach leaves the hold to the next run: it is no longer given back here. See Reattach. If nobody goes on with it, it ends
// when the workflow has closed.
func (h *Hold) Detach() Detached {
	h.done = true
	return h.grant
}

// Acquire waits in the pool's queue, for ever or for MaxWait, and holds until Release. If the workflow, or ctx, is
// cancelled while it waits, it has left the queue before the cancellation goes on.
//
// Prefer WithHold, which also renews leases and gives back by itself.
func Acquire(ctx workflow.Context, pool string, options Options) (*Hold, error) {
	body := options.request(pool)
	if options.MaxWait == 0 {
		return ask(ctx, "tenure.acquire", body, options, waitLimit, 0)
	}
	// Also if there is no time left to wait: then it is granted at once or not at all.
	wait := max(options.MaxWait, time.Millisecond)
	body["wait_ms"] = inMS(wait)
	return ask(ctx, "tenure.acquire", body, options, wait+waitMargin, wait+waitMargin)
}

// TryAcquire is as Acquire, but does not wait in the queue: without room it is a *Refused with the code `busy`. A server
// that is away is waited for.
func TryAcquire(ctx workflow.Context, pool string, options Options) (*Hold, error) {
	return ask(ctx, "tenure.try_acquire", options.request(pool), options, answerTimeout, 0)
}

// Reattach goes on with what an earlier run of this workflow has detached.
func Reattach(detached Detached) *Hold { return &Hold{grant: detached} }

// WithHold waits, holds while do runs, and gives back. The context of do is within ctx, and is cancelled if the hold is a
// lease that is lost. If the hold was over before do, the error is a *HoldLost.
func WithHold(ctx workflow.Context, pool string, options Options, do func(workflow.Context, *Hold) error) error {
	hold, err := Acquire(ctx, pool, options)
	if err != nil {
		return err
	}
	return hold.While(ctx, do)
}

// TryWithHold is as WithHold, but does not wait in the queue.
func TryWithHold(ctx workflow.Context, pool string, options Options, do func(workflow.Context, *Hold) error) error {
	hold, err := TryAcquire(ctx, pool, options)
	if err != nil {
		return err
	}
	return hold.While(ctx, do)
}

// While runs do, renews the hold meanwhile if it is a lease, and gives it back unless do has detached it.
func (h *Hold) While(ctx workflow.Context, do func(workflow.Context, *Hold) error) error {
	within, cancel := workflow.WithCancel(ctx)
	renewal := h.renew(within, cancel)
	err := do(within, h)
	cancel()
	lost := renewal()
	if !h.done {
		if released := h.Release(ctx); released != nil {
			var over *HoldLost
			if errors.As(released, &over) && lost == nil {
				lost = over
			} else if lost == nil && err == nil {
				return released
			}
		}
	}
	// The renewal has cancelled the work, if nobody else has.
	if lost != nil && (err == nil || (temporal.IsCanceledError(err) && ctx.Err() == nil)) {
		return lost
	}
	return err
}

// Release gives back, also if ctx is cancelled. A *HoldLost says that it was over already. A place in a rate window counts
// for its time, whether or not it is still wanted.
func (h *Hold) Release(ctx workflow.Context) error {
	if h.done || h.grant.Lifetime == "window" {
		return nil
	}
	h.done = true
	// What is held is given back, whatever is cancelled.
	free, end := workflow.NewDisconnectedContext(ctx)
	defer end()
	free = workflow.WithActivityOptions(free, workflow.ActivityOptions{
		TaskQueue:           h.grant.TaskQueue,
		StartToCloseTimeout: answerTimeout,
		RetryPolicy:         retryPolicy,
		Summary:             summary("release", h.grant.Pool),
	})
	err := workflow.ExecuteActivity(free, "tenure.release", h.named()).Get(free, nil)
	refused := refusal(err)
	if refused == nil {
		return err
	}
	if refused.Code == "not_held" {
		return &HoldLost{Refused: *refused}
	}
	return refused
}

func (h *Hold) named() map[string]any {
	named := map[string]any{"pool": h.grant.Pool, "key": h.grant.Key}
	if h.grant.Namespace != "" {
		named["namespace"] = h.grant.Namespace
	}
	return named
}

// renew goes on until ctx is cancelled. What it gives waits for its end, and says whether the hold was lost.
func (h *Hold) renew(ctx workflow.Context, cancel workflow.CancelFunc) func() *HoldLost {
	if h.grant.Lifetime != "leased" || h.grant.TTLMS == nil {
		return func() *HoldLost { return nil }
	}
	third := time.Duration(*h.grant.TTLMS) * time.Millisecond / 3
	var lost *HoldLost
	ended := false
	workflow.Go(ctx, func(ctx workflow.Context) {
		defer func() { ended = true }()
		// What was granted, or renewed, a third ago is over when two more have passed.
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			TaskQueue:              h.grant.TaskQueue,
			StartToCloseTimeout:    min(2*third, answerTimeout),
			ScheduleToCloseTimeout: 2 * third,
			RetryPolicy:            retryPolicy,
			Summary:                summary("renew", h.grant.Pool),
		})
		// At once: what comes from an earlier run may have little time left.
		for ctx.Err() == nil {
			err := workflow.ExecuteActivity(ctx, "tenure.renew", h.named()).Get(ctx, nil)
			if err != nil {
				if ctx.Err() != nil || temporal.IsCanceledError(err) {
					return
				}
				lost = h.lostBy(err)
				cancel()
				return
			}
			if workflow.Sleep(ctx, third) != nil {
				return
			}
		}
	})
	return func() *HoldLost {
		free, end := workflow.NewDisconnectedContext(ctx)
		defer end()
		_ = workflow.Await(free, func() bool { return ended })
		return lost
	}
}

func (h *Hold) lostBy(err error) *HoldLost {
	if refused := refusal(err); refused != nil {
		return &HoldLost{Refused: *refused}
	}
	message := fmt.Sprintf("the hold on pool `%s` could not be renewed in time", h.grant.Pool)
	return &HoldLost{Refused: Refused{Code: "not_held", Message: message}}
}

func ask(
	ctx workflow.Context, activity string, body map[string]any, options Options, attempt, limit time.Duration,
) (*Hold, error) {
	queue := options.TaskQueue
	if queue == "" {
		queue = TaskQueue
	}
	pool := body["pool"].(string)
	asked := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              queue,
		StartToCloseTimeout:    attempt,
		ScheduleToCloseTimeout: limit,
		HeartbeatTimeout:       heartbeatTimeout,
		RetryPolicy:            retryPolicy,
		// The queue is left before the cancellation goes on, and a grant that crosses it is not overlooked.
		WaitForCancellation: true,
		Summary:             summary("hold", pool),
	})
	var grant *Detached
	err := workflow.ExecuteActivity(asked, activity, body).Get(asked, &grant)
	var timeout *temporal.TimeoutError
	switch refused := refusal(err); {
	case err == nil && grant != nil:
	case err == nil:
		return nil, &Refused{Code: "busy", Message: fmt.Sprintf("pool `%s` has no room", pool), Retry: true}
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case refused != nil:
		return nil, refused
	case limit > 0 && errors.As(err, &timeout):
		message := fmt.Sprintf("pool `%s` was not granted in time, and its server did not say why", pool)
		return nil, &Refused{Code: "timed_out", Message: message, Retry: true}
	default:
		return nil, err
	}
	grant.TaskQueue = queue
	hold := &Hold{grant: *grant}
	if ctx.Err() != nil {
		_ = hold.Release(ctx)
		return nil, ctx.Err()
	}
	return hold, nil
}

// request is as the server has it: a field that says nothing is left out.
func (o *Options) request(pool string) map[string]any {
	body := map[string]any{"pool": pool}
	put := func(name string, value any, said bool) {
		if said {
			body[name] = value
		}
	}
	put("select", o.Select, o.Select != "")
	put("units", o.Units, o.Units != 0)
	put("all", true, o.All)
	put("size", o.Size, o.Size != 0)
	put("also", o.And, len(o.And) > 0)
	put("dirty", true, o.Dirty)
	put("holds_on", true, o.HoldsOn)
	put("ttl_ms", inMS(o.TTL), o.TTL != 0)
	put("lifetime", o.Lifetime, o.Lifetime != "")
	put("priority", o.Priority, o.Priority != 0)
	put("holder", o.Holder, o.Holder != "")
	put("meta", o.Meta, len(o.Meta) > 0)
	put("namespace", o.Namespace, o.Namespace != "")
	return body
}

func inMS(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

func summary(verb, pool string) string {
	text := []rune(verb + " " + pool)
	return string(text[:min(len(text), 200)])
}
