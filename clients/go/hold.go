package tenure

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"tenure.dev/go/wire"
)

// Hold is what is held. It is renewed in the background until it is released or kept, or the client is closed.
type Hold struct {
	connection *connection
	granted    *granted
	// It was released, or given up.
	done atomic.Bool
}

// Pool is the pool it is of. If it is of several, the first that was asked for and is no rate window.
func (h *Hold) Pool() string { return h.granted.grant.GetPool() }

// Namespace is whose pool that is.
func (h *Hold) Namespace() string { return h.granted.grant.GetNamespace() }

// Token rises with every grant. What the hold protects should refuse a lower one than the highest it has seen; see Fence.
func (h *Hold) Token() uint64 { return h.granted.grant.GetToken() }

// Key is secret: whoever has it may renew or release the hold.
func (h *Hold) Key() string { return h.granted.grant.GetKey() }

// Units says how many units, or how many resources.
func (h *Hold) Units() uint32 { return h.granted.grant.GetUnits() }

// Resources are those that are held, if the pool is one of named resources.
func (h *Hold) Resources() []*wire.Resource { return h.granted.grant.GetResources() }

// Resource is the one that is held. It is nil, whose name is empty, if there is not just one.
func (h *Hold) Resource() *wire.Resource {
	if resources := h.Resources(); len(resources) == 1 {
		return resources[0]
	}
	return nil
}

// Also is what it has of further pools; see And.
func (h *Hold) Also() []*wire.GrantedPart { return h.granted.grant.GetAlso() }

// Part is what it has of one of its pools, whichever that is; nil if it has nothing of it.
func (h *Hold) Part(pool string) *wire.GrantedPart {
	if grant := h.granted.grant; grant.GetPool() == pool {
		part := &wire.GrantedPart{Pool: pool, Units: grant.GetUnits(), Resources: grant.GetResources()}
		if grant.GetLifetime() == wire.Lifetime_LIFETIME_WINDOW {
			part.DeadlineMs = grant.DeadlineMs
		}
		return part
	}
	for _, part := range h.Also() {
		if part.GetPool() == pool {
			return part
		}
	}
	return nil
}

// Grant is all that the server said of it.
func (h *Hold) Grant() *wire.Grant { return h.granted.grant }

// Context ends when the hold is lost or released; context.Cause says how, as a *HoldLost. It has the values of the context
// that the hold was asked with, but does not end with it: that one was for the wait. See With.
func (h *Hold) Context() context.Context { return h.granted.standing.context }

// With is a context within ctx that also ends when the hold is lost or released.
func (h *Hold) With(ctx context.Context) (context.Context, context.CancelFunc) {
	within, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(h.Context(), func() { end(context.Cause(h.Context())) })
	return within, func() {
		stop()
		end(nil)
	}
}

// Lost is how the hold was lost; nil if it was not. It looks at the clock: it is right also if this process was paused and
// nothing else in it has noticed yet.
func (h *Hold) Lost() *HoldLost { return h.granted.standing.loss() }

// Check is a *HoldLost if the hold is lost, as Lost says.
func (h *Hold) Check() error {
	if lost := h.Lost(); lost != nil {
		return lost
	}
	return nil
}

// CertainFor is how long the hold is certainly ours if nothing is heard of the server, counted from before it was asked;
// false if it does not end by time.
func (h *Hold) CertainFor() (time.Duration, bool) {
	until := h.granted.standing.certainUntil()
	if until == 0 {
		return 0, false
	}
	return max(0, until.since(now())), true
}

// Release ends the hold, and waits until the server has confirmed it: a *HoldLost says that it was over already, an
// *Unreachable that the server does not answer and is told as soon as it does. So it is if ctx ends meanwhile. A place in a
// rate window cannot be given back, and is left to end by itself. A second Release does nothing.
func (h *Hold) Release(ctx context.Context) error {
	if h.done.Swap(true) {
		return nil
	}
	lost := h.Lost()
	released := make(chan error, 1)
	h.connection.do(func(s *session, at moment) {
		s.release(at, h.granted.id, func(err error) { released <- err }, LostLetGo)
	})
	select {
	case err := <-released:
		var refused *Refused
		if errors.As(err, &refused) && refused.Code() == NotHeld {
			if lost == nil {
				lost = &HoldLost{Pool: h.Pool(), Token: h.Token(), Reason: LostReleased}
			}
			return lost
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Keep gives up looking after the hold and not the hold, which goes on as long as its lifetime says: a lease is no longer
// renewed. It gives the key: whoever has it may renew or release it.
func (h *Hold) Keep() string {
	if !h.done.Swap(true) {
		h.connection.do(func(s *session, _ moment) { s.letGo(h.granted.id) })
	}
	return h.Key()
}

// Place is one in a rate window, until it ends by itself.
type Place struct {
	Pool  string
	Token uint64
	Units uint32
	// CertainFor is how long the place was certainly taken when it was granted.
	CertainFor time.Duration
}
