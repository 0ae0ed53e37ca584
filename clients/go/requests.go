package tenure

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"tenure.dev/go/wire"
)

// How long the server may take to say that a wait is over, and who stands in its way.
const lastWordPatience = 2 * time.Second

type kind int

const (
	kindAcquire kind = iota
	kindRenew
	kindRelease
	kindWithdraw
	kindPing
	kindEnd
)

// request is kept until it is answered for good, said again after a reconnect, and tried again when the server has no time
// for it.
type request struct {
	kind kind
	// On this connection.
	said bool
	// Known to the server, such as a wait that is in the queue.
	answered bool
	// On whichever connection.
	firstSaid, lastSaid moment
	// It was said, and whether it was done is not known: the line broke, or the server itself cannot tell.
	mayHaveHappened bool
	// How often in a row the server had no time for it.
	failures int
	// Until when somebody waits for the answer.
	giveUp moment
	// Not to be said before.
	retryAt moment
	// Its entry in the agenda.
	due moment

	// Of an acquire, and how many grants for it were over when they were heard of.
	ask        *ask
	grantsOver int
	// Of a renewal.
	hold holdID
	// Of a renewal and a release.
	key string
	// Of a release, if anybody waits for it.
	done func(error)
	// Of a withdrawal.
	requestID string
}

// ask is an acquire as it comes from the application.
type ask struct {
	id      uint64
	request *wire.AcquireRequest
	// Whether the request id is made here, and another will do.
	ownID bool
	// It does not wait for room.
	tries bool
	// Of the wait, if it has one.
	end moment
	// Of the call, whose values the hold's context has.
	context context.Context
	answer  func(*granted, error)
	queued  func(uint64)
}

// granted is a hold in the hands of the application.
type granted struct {
	id       holdID
	grant    *wire.Grant
	standing *standing
}

func newAsk(ctx context.Context, acquire *wire.AcquireRequest, end moment) *ask {
	ownID := acquire.RequestId == nil
	if ownID {
		acquire.RequestId = proto.String(randomID())
	}
	return &ask{
		request: acquire,
		ownID:   ownID,
		tries:   !acquire.WaitForever && acquire.WaitMs == nil,
		end:     end,
		context: ctx,
	}
}

func (r *request) isReady() bool { return !r.said && r.retryAt == 0 }

// isUrgent is what holds depend on; acquires come after it.
func (r *request) isUrgent() bool { return r.kind != kindAcquire }

func (r *request) say(at moment, id uint64) *wire.ClientRequest {
	r.said, r.answered = true, false
	if r.firstSaid == 0 {
		r.firstSaid = at
	}
	r.lastSaid = at
	said := &wire.ClientRequest{Id: id}
	switch r.kind {
	case kindAcquire:
		said.Request = &wire.ClientRequest_Acquire{Acquire: r.acquire(at)}
	case kindRenew:
		// The namespace is that of the session.
		said.Request = &wire.ClientRequest_Renew{Renew: &wire.RenewRequest{Key: r.key}}
	case kindRelease:
		said.Request = &wire.ClientRequest_Release{Release: &wire.ReleaseRequest{Key: r.key}}
	case kindWithdraw:
		said.Request = &wire.ClientRequest_Withdraw{Withdraw: &wire.WithdrawRequest{RequestId: r.requestID}}
	case kindPing:
		said.Request = &wire.ClientRequest_Ping{Ping: &wire.Ping{}}
	case kindEnd:
		said.Request = &wire.ClientRequest_End{End: &wire.EndSession{}}
	}
	return said
}

// acquire is it with what is left of its wait. One that is over still has a moment: it is told who stands in its way.
func (r *request) acquire(at moment) *wire.AcquireRequest {
	if r.ask.end == 0 && r.ask.ownID && r.firstSaid == r.lastSaid {
		return r.ask.request
	}
	// What was said before may still be on its way out.
	again := proto.Clone(r.ask.request).(*wire.AcquireRequest)
	if r.ask.end != 0 {
		// Never more than was asked for, which may be the most the server takes.
		left := max(1, min(r.ask.request.GetWaitMs(), inMS(r.ask.end.since(at))))
		again.WaitMs = &left
	}
	return again
}

// laterEnd is until when the server may take to say that a wait is over; none if that has passed too.
func (r *request) laterEnd(at moment) moment {
	if r.ask.end == 0 {
		return 0
	}
	if later := r.ask.end.plus(lastWordPatience); later > at {
		return later
	}
	return 0
}

// anew is the same acquire under another request id, as if it had not been asked yet.
func (r *request) anew() *request {
	again := *r.ask
	again.request = proto.Clone(r.ask.request).(*wire.AcquireRequest)
	again.request.RequestId = proto.String(randomID())
	return &request{kind: kindAcquire, ask: &again, grantsOver: r.grantsOver, giveUp: r.giveUp}
}
