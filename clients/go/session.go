package tenure

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"tenure.dev/go/wire"
)

const (
	// How long a call that does not wait for room waits for the server: a try, a release, a close.
	callPatience = 10 * time.Second
	// The server reads no more from a stream with 4,096 unanswered requests. Below that, pings always reach it.
	unansweredMax = 4_000
	// Acquires leave room for the renewals and releases of what is held.
	asksUnansweredMax     = 2_048
	requestsPerMessageMax = 1_024
	messageBytesMax       = 1024 * 1024
	// More than anything with names within the server's limits takes, and little enough that a message of many stays within
	// what the server reads at once. What it does not read ends the stream, and would do so again after each reconnect.
	acquireBytesMax = 64 * 1024
	// A session that is taken over twice within this time has two clients, and one of them must give it up.
	takeoverCalm = 60 * time.Second
	// A connection is asked whether it is there at least this often, and at a sixth of the shortest lifetime there is: so a
	// dead one is noticed when two thirds of it are left. Below the least, a slow machine would look like a dead one.
	pingIntervalMax   = 5 * time.Second
	pingIntervalMin   = 500 * time.Millisecond
	pingIntervalLeast = 20 * time.Millisecond
	pongPatienceMin   = time.Second
	// The pause before something is asked again that the server had no time for.
	retryFirst = 100 * time.Millisecond
	retryMost  = 2 * time.Second
	// A renewal that the server had no time for is repeated after a tenth of the lease, or this.
	renewAgainMax = time.Second
	renewAgainMin = 50 * time.Millisecond
	// How many grants in a row may be over when they are heard of. After that a lease is too short for the way to the
	// server, and the next one is handed out as it is: lost.
	grantsOverMax = 3
)

// broken says that the connection cannot be used any more, and why.
type broken struct{ why string }

func (b *broken) Error() string { return b.why }

// identity is whose session it is.
type identity struct {
	address        string
	holder         string
	meta           map[string]string
	namespace      string
	grace          time.Duration
	connectTimeout time.Duration
}

// session is what there is to say, what an answer means and what is due when, as the client sees it. It has no sockets, no
// goroutines and no clock: time comes in with every call, messages go in and out, and connection does the rest. A request
// stays here until it is answered for good, so whatever is unanswered when a connection breaks is said again on the next.
// crates/client/src/session is the same in Rust.
type session struct {
	identity identity
	isOver   bool
	// The session's, if there is one to resume.
	key string
	// A connection on which it is being opened, or is open.
	opening *opening
	open    *open

	greeting func(error)
	lastID   uint64
	// Until when the session, and what lives as long as it, is certainly there.
	certain    moment
	takenOver  moment
	requests   map[uint64]*request
	urgent     line
	asks       line
	unanswered int
	holds      map[holdID]*heldHold
	byToken    map[uint64][]holdID
	agenda     agenda
	serverTime *serverTime
	ending     *ending
	why        string
}

type opening struct {
	id   uint64
	said moment
}

type open struct {
	// The request that opened or resumed the session: what happens to it is told under this id.
	id       uint64
	interval time.Duration
	pingAt   moment
	heardAt  moment
	// Since when a ping is not answered.
	pinged moment
}

type ending struct {
	giveUp  moment
	said    bool
	answers []func(error)
}

func newSession(who identity, greeting func(error)) *session {
	return &session{
		identity: who,
		greeting: greeting,
		requests: map[uint64]*request{},
		holds:    map[holdID]*heldHold{},
		byToken:  map[uint64][]holdID{},
		why:      "not connected yet",
	}
}

// silentAt is when a connection that has not answered its ping is given up.
func (o *open) silentAt() moment {
	if o.pinged == 0 {
		return 0
	}
	return max(o.pinged, o.heardAt).plus(max(o.interval, pongPatienceMin))
}

// The connection.

// connecting gives the first message of a connection that is about to be made.
func (s *session) connecting(at moment) *wire.ClientMessage {
	id, it := s.nextID(), s.identity
	s.opening, s.open = &opening{id: id, said: at}, nil
	first := &wire.ClientRequest{Id: id}
	if s.key != "" {
		first.Request = &wire.ClientRequest_Resume{Resume: &wire.ResumeSession{
			Namespace: it.namespace, SessionKey: s.key, Holder: it.holder, Meta: it.meta,
		}}
	} else {
		first.Request = &wire.ClientRequest_Open{Open: &wire.OpenSessionRequest{
			Namespace: it.namespace, Holder: it.holder, Meta: it.meta, GraceMs: proto.Uint64(inMS(it.grace)),
		}}
	}
	return &wire.ClientMessage{Requests: []*wire.ClientRequest{first}}
}

// disconnected: the connection is gone, or did not come about.
func (s *session) disconnected(at moment, err error) {
	if greeting := s.greeting; greeting != nil {
		s.greeting = nil
		s.end(nil)
		greeting(err)
		return
	}
	s.why = err.Error()
	var unreachable *Unreachable
	if errors.As(err, &unreachable) {
		s.why = unreachable.Why
	}
	if s.isOver {
		return
	}
	s.opening, s.open = nil, nil
	s.unanswered = 0
	s.serverTime = nil
	s.urgent.clear()
	s.asks.clear()
	if s.ending != nil {
		s.ending.said = false
	}
	// What is asked about holds and the connection is asked anew on the next one.
	for id, request := range s.requests {
		switch request.kind {
		case kindRenew, kindPing, kindEnd:
			delete(s.requests, id)
			continue
		}
		request.mayHaveHappened = request.mayHaveHappened || request.said
		request.said, request.answered = false, false
		// Without a connection nobody says that a wait is over.
		if request.kind == kindAcquire && request.ask.end != 0 && request.ask.end <= at {
			s.failAcquire(id, s.unreachable())
		}
	}
	for _, hold := range s.holds {
		hold.renewing = false
	}
}

// say gives what there is to say, as much as fits into one message.
func (s *session) say(at moment) *wire.ClientMessage {
	if s.mayEnd() {
		s.ending.said = true
		s.request(&request{kind: kindEnd})
	}
	message := &wire.ClientMessage{}
	size := 0
	for len(message.Requests) < requestsPerMessageMax && size < messageBytesMax {
		id, ok := s.nextToSay()
		if !ok {
			break
		}
		request := s.requests[id]
		// Forgotten meanwhile.
		if request == nil || !request.isReady() {
			continue
		}
		said := request.say(at, id)
		if request.kind == kindAcquire {
			size += proto.Size(said)
		} else {
			size += 128
		}
		s.unanswered++
		message.Requests = append(message.Requests, said)
	}
	if len(message.Requests) == 0 {
		return nil
	}
	return message
}

func (s *session) hasToSay() bool {
	urgent := !s.urgent.isEmpty() && s.unanswered < unansweredMax
	asks := !s.asks.isEmpty() && s.unanswered < asksUnansweredMax
	return s.open != nil && (urgent || asks || s.mayEnd())
}

func (s *session) nextToSay() (uint64, bool) {
	if s.open == nil {
		return 0, false
	}
	if !s.urgent.isEmpty() && s.unanswered < unansweredMax {
		return s.urgent.take(), true
	}
	if !s.asks.isEmpty() && s.unanswered < asksUnansweredMax {
		return s.asks.take(), true
	}
	return 0, false
}

// hear takes in a message. The rest of it is heard even if one of its answers ends the stream: it may have grants.
func (s *session) hear(at moment, message *wire.ServerMessage) error {
	if s.open != nil {
		s.open.heardAt = at
	}
	var first error
	for _, answer := range message.GetAnswers() {
		// A newer server may have something to say that is not known here.
		if answer.GetAnswer() == nil {
			continue
		}
		var err error
		switch {
		case s.opening != nil && s.opening.id == answer.GetId():
			err = s.hearOpening(at, s.opening, answer)
		case s.open != nil && s.open.id == answer.GetId():
			err = s.hearAboutSession(at, answer)
		default:
			err = s.hearAboutRequest(at, answer)
		}
		if first == nil {
			first = err
		}
	}
	return first
}

func (s *session) hearOpening(at moment, opening *opening, answer *wire.ServerAnswer) error {
	switch told := answer.GetAnswer().(type) {
	case *wire.ServerAnswer_Opened:
		s.key = told.Opened.GetSessionKey()
		s.identity.grace = milliseconds(told.Opened.GetGraceMs())
		s.opening, s.open = nil, &open{id: opening.id, interval: s.pingInterval(), pingAt: at, heardAt: at}
		s.sessionIsCertain(opening.said)
		// First of all, so that the server's time is known when the first grant comes.
		s.ping(at)
		s.askAboutHolds()
		for _, id := range s.readyInOrder() {
			s.queue(id, s.requests[id])
		}
		if greeting := s.greeting; greeting != nil {
			s.greeting = nil
			greeting(nil)
		}
		return nil
	case *wire.ServerAnswer_Refused:
		if told.Refused.GetCode() == "unknown_session" {
			s.sessionEnded(at)
		} else if greeting := s.greeting; greeting != nil {
			s.greeting = nil
			s.end(nil)
			greeting(&Refused{Refusal: told.Refused})
		}
		return &broken{told.Refused.GetMessage()}
	}
	// Not what it is: it may contain a key.
	return &broken{"the server gave an answer that does not fit"}
}

func (s *session) hearAboutSession(at moment, answer *wire.ServerAnswer) error {
	switch told := answer.GetAnswer().(type) {
	case *wire.ServerAnswer_Lost:
		s.holdLost(at, told.Lost)
	case *wire.ServerAnswer_Refused:
		switch told.Refused.GetCode() {
		case "session_taken_over":
			// Usually by an earlier connection of our own, whose words came late: then resuming mends it. Twice in a row it is
			// a copy of this process, and both would go on taking it from each other.
			if s.takenOver != 0 && at < s.takenOver.plus(takeoverCalm) {
				s.sessionEnded(at)
			}
			s.takenOver = at
		case "unknown_session":
			s.sessionEnded(at)
		}
		return &broken{told.Refused.GetMessage()}
	}
	return nil
}

// sessionEnded: the session is no more, and what lived as long as it. The next connection opens a new one.
func (s *session) sessionEnded(at moment) {
	s.key = ""
	s.certain = 0
	s.loseAllOfSession(at, LostSessionEnded)
	// Places in queues are lost. A grant that was on its way belongs to the old session, so the request is withdrawn.
	for id, request := range s.requests {
		if request.kind == kindAcquire && request.ask.ownID && request.firstSaid != 0 {
			s.takeRequest(id)
			s.askAnew(id, request)
		}
	}
	if s.ending != nil && s.isSettled() {
		s.end(nil)
	}
}

// Time.

// nextDue is when tick has something to do, at the latest.
func (s *session) nextDue() moment {
	due := earliest(s.agenda.first(s.isCurrent), s.certain)
	if s.ending != nil {
		due = earliest(due, s.ending.giveUp)
	}
	if s.opening != nil {
		due = earliest(due, s.opening.said.plus(s.identity.connectTimeout))
	}
	if s.open != nil {
		if silent := s.open.silentAt(); silent != 0 {
			return earliest(due, silent)
		}
		return earliest(due, s.open.pingAt)
	}
	return due
}

// tick does what is due.
func (s *session) tick(at moment) error {
	for _, entry := range s.agenda.takeDue(at) {
		if !s.isCurrent(entry) {
			continue
		}
		if entry.request != 0 {
			s.requestDue(at, entry.request)
		} else {
			s.holdDue(at, entry.hold)
		}
	}
	if s.certain != 0 && s.certain <= at {
		s.certain = 0
		s.loseAllOfSession(at, LostUnreachable)
	}
	if s.ending != nil && s.ending.giveUp <= at {
		s.end(s.unreachable())
	}
	if s.opening != nil && s.opening.said.plus(s.identity.connectTimeout) <= at {
		return &broken{fmt.Sprintf("it does not answer within %v", s.identity.connectTimeout)}
	}
	if s.open != nil {
		if silent := s.open.silentAt(); silent != 0 && silent <= at {
			return &broken{"the connection is silent"}
		}
		if s.open.pinged == 0 && s.open.pingAt <= at {
			s.ping(at)
		}
	}
	return nil
}

func (s *session) isCurrent(entry entry) bool {
	if entry.request != 0 {
		request := s.requests[entry.request]
		return request != nil && request.due == entry.at
	}
	hold := s.holds[entry.hold]
	return hold != nil && hold.due == entry.at
}

func (s *session) putInAgenda(entry entry) {
	s.agenda.put(entry)
	// Most holds end long before they would be renewed.
	if s.agenda.len() > 1_000+4*(len(s.requests)+len(s.holds)) {
		s.agenda.keep(s.isCurrent)
	}
}

// Pings.

func (s *session) ping(at moment) {
	s.request(&request{kind: kindPing})
	if s.open != nil {
		s.open.pinged = at
	}
}

func (s *session) pong(at, said moment, serverMS uint64) {
	newer := serverTime{asked: said, atMS: serverMS}
	if s.serverTime != nil {
		newer = s.serverTime.orSharper(newer)
	}
	s.serverTime = &newer
	s.sessionIsCertain(said)
	if s.open != nil {
		s.open.pinged = 0
		s.open.interval = s.pingInterval()
		s.open.pingAt = max(said.plus(s.open.interval), at)
	}
}

func (s *session) pingInterval() time.Duration {
	shortest := s.identity.grace
	for _, hold := range s.holds {
		if length := hold.renewedFor(); length != 0 && length < shortest {
			shortest = length
		}
	}
	return intervalFor(shortest)
}

// pingFor looks after the connection as closely as a hold of this length needs.
func (s *session) pingFor(at moment, length time.Duration) {
	if interval := intervalFor(length); s.open != nil && interval < s.open.interval {
		s.open.interval = interval
		s.open.pingAt = min(s.open.pingAt, at.plus(interval))
	}
}

func intervalFor(length time.Duration) time.Duration {
	least := max(min(pingIntervalMin, length/3), pingIntervalLeast)
	return min(max(length/6, least), pingIntervalMax)
}

// sessionIsCertain: the server had the session no earlier than said, so it keeps it for its grace from then at least.
func (s *session) sessionIsCertain(said moment) {
	until := certain(said, s.identity.grace)
	if s.certain != 0 && s.certain >= until {
		return
	}
	s.certain = until
	for _, hold := range s.holds {
		if hold.lifetime == wire.Lifetime_LIFETIME_SESSION {
			hold.standing.setUntil(earliest(hold.timedUntil, until))
		}
	}
}

// The end.

// close lets go of everything and ends the session, as soon as the server can be told.
func (s *session) close(at moment, answer func(error)) {
	if s.isOver {
		answer(nil)
		return
	}
	if s.ending == nil {
		s.refuseAllAsks()
		for id := range s.holds {
			s.release(at, id, nil, LostClosed)
		}
		s.ending = &ending{giveUp: at.plus(callPatience)}
	}
	s.ending.answers = append(s.ending.answers, answer)
}

func (s *session) end(err error) {
	s.isOver = true
	s.opening, s.open = nil, nil
	s.refuseAllAsks()
	for _, hold := range s.holds {
		hold.standing.lose(0, LostClosed, "")
	}
	for _, request := range s.requests {
		if request.done != nil {
			request.done(s.unreachable())
		}
	}
	s.holds = map[holdID]*heldHold{}
	s.byToken = map[uint64][]holdID{}
	s.requests = map[uint64]*request{}
	if ending := s.ending; ending != nil {
		s.ending = nil
		for _, answer := range ending.answers {
			answer(err)
		}
	}
}

func (s *session) refuseAllAsks() {
	for id, request := range s.requests {
		if request.kind == kindAcquire {
			s.failAcquire(id, closedError{})
		}
	}
}

// mayEnd: the end is said when everything else has been answered. The server listens to nothing after it.
func (s *session) mayEnd() bool {
	return s.ending != nil && !s.ending.said && s.open != nil && s.isSettled()
}

// isSettled: nothing waits for an answer that anybody would miss.
func (s *session) isSettled() bool {
	for _, request := range s.requests {
		switch request.kind {
		case kindPing, kindRenew, kindEnd:
		default:
			return false
		}
	}
	return true
}

func (s *session) unreachable() error {
	why := s.why
	if s.open != nil {
		why = "it does not answer"
	}
	return &Unreachable{Address: s.identity.address, Why: why}
}
