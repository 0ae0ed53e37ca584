package tenure

import (
	"context"
	"sync"

	"tenure.dev/go/wire"
)

// standing is how a hold stands, as the connection knows it and any goroutine may ask.
type standing struct {
	pool  string
	token uint64
	// It ends by time whatever is done.
	fixed bool

	mu sync.Mutex
	// Until when it is certainly ours; none if it does not end by time.
	until     moment
	lost      *HoldLost
	listeners []func(*HoldLost)

	context context.Context
	end     context.CancelCauseFunc
}

func newStanding(grant *wire.Grant, until moment, within context.Context) *standing {
	// The context is that of the hold, and not that of the call which asked for it: only what it carries is kept.
	ctx, end := context.WithCancelCause(context.WithoutCancel(within))
	return &standing{
		pool:    grant.GetPool(),
		token:   grant.GetToken(),
		fixed:   grant.GetLifetime() == wire.Lifetime_LIFETIME_WINDOW,
		until:   until,
		context: ctx,
		end:     end,
	}
}

// loss looks at the clock too: after a pause of the whole process it is the first to know.
func (s *standing) loss() *HoldLost {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost == nil && s.until != 0 && s.until <= now() {
		return &HoldLost{Pool: s.pool, Token: s.token, Reason: s.lostByTime()}
	}
	return s.lost
}

// told is the loss that was noticed, without a look at the clock.
func (s *standing) told() *HoldLost {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

func (s *standing) isLost() bool { return s.told() != nil }

func (s *standing) lostByTime() LostReason {
	if s.fixed {
		return LostExpired
	}
	return LostUnreachable
}

func (s *standing) setUntil(until moment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost == nil {
		s.until = until
	}
}

func (s *standing) certainUntil() moment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.until
}

func (s *standing) lose(at moment, reason LostReason, note string) {
	s.mu.Lock()
	if s.lost != nil {
		s.mu.Unlock()
		return
	}
	lost := &HoldLost{Pool: s.pool, Token: s.token, Reason: reason, Note: note}
	s.lost = lost
	s.until = earliest(s.until, at)
	listeners := s.listeners
	s.listeners = nil
	s.mu.Unlock()
	s.end(lost)
	for _, listener := range listeners {
		listener(lost)
	}
}

// listen calls it once when the hold is lost, at once if it is. It must be quick.
func (s *standing) listen(listener func(*HoldLost)) {
	s.mu.Lock()
	lost := s.lost
	if lost == nil {
		s.listeners = append(s.listeners, listener)
	}
	s.mu.Unlock()
	if lost != nil {
		listener(lost)
	}
}
