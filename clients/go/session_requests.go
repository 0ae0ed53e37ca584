package tenure

import (
	"container/heap"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"tenure.dev/go/wire"
)

func (s *session) nextID() uint64 {
	s.lastID++
	return s.lastID
}

func (s *session) request(request *request) {
	s.requestWithID(s.nextID(), request)
}

func (s *session) requestWithID(id uint64, request *request) {
	s.requests[id] = request
	s.schedule(id, request)
	if request.isReady() {
		s.queue(id, request)
	}
}

// queue: while there is no connection nothing stands in line; the next one starts with everything there is.
func (s *session) queue(id uint64, request *request) {
	if s.open == nil {
		return
	}
	if request.isUrgent() {
		s.urgent.put(id)
	} else {
		s.asks.put(id)
	}
}

// readyInOrder is what waits to be said, in the order in which it was asked, without what is in line already.
func (s *session) readyInOrder() []uint64 {
	var ready []uint64
	for id, request := range s.requests {
		if request.isReady() && request.kind != kindPing && request.kind != kindRenew {
			ready = append(ready, id)
		}
	}
	slices.Sort(ready)
	return ready
}

func (s *session) takeRequest(id uint64) *request {
	request := s.requests[id]
	delete(s.requests, id)
	if request != nil && request.said && !request.answered {
		s.unanswered = max(0, s.unanswered-1)
	}
	return request
}

func (s *session) schedule(id uint64, request *request) {
	request.due = earliest(request.giveUp, request.retryAt)
	if request.due != 0 {
		s.putInAgenda(entry{at: request.due, request: id})
	}
}

func (s *session) requestDue(at moment, id uint64) {
	request := s.requests[id]
	if request.retryAt != 0 && request.retryAt <= at {
		request.retryAt = 0
		s.queue(id, request)
	}
	if request.giveUp != 0 && request.giveUp <= at {
		s.giveUp(at, id, request)
	}
	if s.requests[id] == request {
		s.schedule(id, request)
	}
}

func (s *session) giveUp(at moment, id uint64, request *request) {
	request.giveUp = 0
	switch {
	case request.kind == kindAcquire:
		// The server is about to say that the time is up, and who holds it.
		if later := request.laterEnd(at); s.open != nil && later != 0 {
			request.giveUp = later
		} else {
			s.failAcquire(id, s.unreachable())
		}
	case request.kind == kindRelease && request.done != nil:
		// It goes on trying, though nobody listens.
		done := request.done
		request.done = nil
		done(s.unreachable())
	}
}

// again asks again after a pause: the server had no time for it.
func (s *session) again(at moment, id uint64, request *request) {
	request.said, request.answered = false, false
	request.failures++
	request.retryAt = at.plus(pause(request.failures, retryFirst, retryMost))
	s.requestWithID(id, request)
}

func (s *session) hearAboutRequest(at moment, answer *wire.ServerAnswer) error {
	id := answer.GetId()
	if told, ok := answer.GetAnswer().(*wire.ServerAnswer_Queued); ok {
		request := s.requests[id]
		if request == nil || request.kind != kindAcquire {
			return nil
		}
		if request.ask.queued != nil {
			request.ask.queued(told.Queued.GetPosition())
		}
		if !request.answered {
			request.answered = true
			s.unanswered = max(0, s.unanswered-1)
		}
		return nil
	}
	request := s.takeRequest(id)
	// Forgotten meanwhile.
	if request == nil {
		return nil
	}
	refusal := answer.GetRefused()
	if refusal != nil && hasNoTime(refusal) && request.kind != kindRenew {
		request.mayHaveHappened = request.mayHaveHappened || refusal.GetCode() == "lost"
		s.again(at, id, request)
		return nil
	}
	unfit := &broken{"the server gave an answer that does not fit"}
	switch request.kind {
	case kindAcquire:
		if refusal != nil {
			return s.acquireRefused(id, request, refusal)
		}
		if answer.GetGranted() == nil {
			return unfit
		}
		s.granted(at, id, request, answer.GetGranted())
	case kindRenew:
		if refusal != nil {
			s.notRenewed(at, request.hold, refusal)
		} else if answer.GetRenewed() != nil {
			s.renewed(at, request.hold, request.lastSaid, answer.GetRenewed())
		} else {
			return unfit
		}
	case kindRelease:
		if request.done == nil {
			return nil
		}
		// An earlier attempt whose answer was lost may have done it.
		if refusal == nil || (request.mayHaveHappened && refusal.GetCode() == "not_held") {
			request.done(nil)
		} else {
			request.done(&Refused{Refusal: refusal})
		}
	case kindPing:
		if answer.GetPong() == nil {
			return unfit
		}
		s.pong(at, request.lastSaid, answer.GetPong().GetAtMs())
	case kindEnd:
		// Or it ended by itself meanwhile, which is told to the stream too.
		if answer.GetEnded() != nil {
			s.end(nil)
		}
	}
	return nil
}

// Acquires.

func (s *session) ask(at moment, ask *ask) {
	if s.ending != nil || s.isOver {
		ask.answer(nil, closedError{})
		return
	}
	if size := proto.Size(ask.request); size > acquireBytesMax {
		ask.answer(nil, &Refused{Refusal: &wire.Refusal{
			Code:    "invalid_argument",
			Message: fmt.Sprintf("the request has %d bytes; the most is %d", size, acquireBytesMax),
			Advice:  "use shorter names and less metadata",
		}})
		return
	}
	ask.id = s.nextID()
	request := &request{kind: kindAcquire, ask: ask, giveUp: ask.end}
	if ask.tries {
		request.giveUp = at.plus(callPatience)
	}
	s.requestWithID(ask.id, request)
}

// forget: nobody awaits it any more. If the server may know of it, it must not be granted.
func (s *session) forget(id uint64) bool {
	request := s.requests[id]
	if request == nil || request.kind != kindAcquire {
		return false
	}
	s.takeRequest(id)
	s.withdrawIfSaid(request)
	return true
}

func (s *session) withdrawIfSaid(acquire *request) {
	if acquire.firstSaid != 0 {
		s.request(&request{kind: kindWithdraw, requestID: acquire.ask.request.GetRequestId()})
	}
}

func (s *session) failAcquire(id uint64, err error) {
	request := s.takeRequest(id)
	if request != nil && request.kind == kindAcquire {
		s.withdrawIfSaid(request)
		request.ask.answer(nil, err)
	}
}

func (s *session) askAnew(id uint64, acquire *request) {
	s.withdrawIfSaid(acquire)
	s.requestWithID(id, acquire.anew())
}

func (s *session) acquireRefused(id uint64, acquire *request, refusal *wire.Refusal) error {
	// The session is over, and the stream is about to be told.
	if refusal.GetCode() == "unknown_session" && acquire.ask.ownID {
		s.askAnew(id, acquire)
		return &broken{refusal.GetMessage()}
	}
	// It was granted while nobody could be told, and is over by now.
	if refusal.GetCode() == "request_ended" && acquire.ask.ownID && acquire.mayHaveHappened {
		s.askAnew(id, acquire)
		return nil
	}
	acquire.ask.answer(nil, &Refused{Refusal: refusal})
	return nil
}

// line is first in, first out.
type line struct {
	ids  []uint64
	head int
}

func (l *line) put(id uint64) { l.ids = append(l.ids, id) }

func (l *line) isEmpty() bool { return l.head == len(l.ids) }

func (l *line) take() uint64 {
	id := l.ids[l.head]
	l.head++
	if l.isEmpty() {
		l.clear()
	}
	return id
}

func (l *line) clear() { l.ids, l.head = l.ids[:0], 0 }

// entry of the agenda: what is due when.
type entry struct {
	at      moment
	request uint64
	hold    holdID
}

// agenda is a heap. What is no longer due at that time is left in it, and passed over.
type agenda struct{ entries entries }

type entries []entry

func (e entries) Len() int           { return len(e) }
func (e entries) Less(i, j int) bool { return e[i].at < e[j].at }
func (e entries) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *entries) Push(x any)        { *e = append(*e, x.(entry)) }
func (e *entries) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func (a *agenda) len() int { return len(a.entries) }

func (a *agenda) put(entry entry) { heap.Push(&a.entries, entry) }

func (a *agenda) first(isCurrent func(entry) bool) moment {
	for len(a.entries) > 0 && !isCurrent(a.entries[0]) {
		heap.Pop(&a.entries)
	}
	if len(a.entries) == 0 {
		return 0
	}
	return a.entries[0].at
}

func (a *agenda) takeDue(at moment) []entry {
	var due []entry
	for len(a.entries) > 0 && a.entries[0].at <= at {
		due = append(due, heap.Pop(&a.entries).(entry))
	}
	return due
}

func (a *agenda) keep(isCurrent func(entry) bool) {
	a.entries = slices.DeleteFunc(a.entries, func(entry entry) bool { return !isCurrent(entry) })
	heap.Init(&a.entries)
}
