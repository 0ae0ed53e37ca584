package tenure

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"tenure.dev/go/wire"
)

// opened is a session that is open since moment 1 s, and what it is to be told.
func opened(t *testing.T) (*session, moment) {
	t.Helper()
	s := newSession(identity{address: "here", holder: "alice", grace: 30 * time.Second, connectTimeout: time.Second}, func(error) {})
	at := moment(time.Second)
	opens(t, s, at)
	return s, at
}

func opens(t *testing.T, s *session, at moment) *wire.ClientRequest {
	t.Helper()
	first := s.connecting(at).GetRequests()[0]
	must(t, s.hear(at, answer(first.GetId(), &wire.ServerAnswer_Opened{
		Opened: &wire.SessionOpened{Session: 1, SessionKey: "session", GraceMs: 30_000},
	})))
	return first
}

func answer(id uint64, what any) *wire.ServerMessage {
	it := &wire.ServerAnswer{Id: id}
	switch what := what.(type) {
	case *wire.ServerAnswer_Opened:
		it.Answer = what
	case *wire.Grant:
		it.Answer = &wire.ServerAnswer_Granted{Granted: what}
	case *wire.Refusal:
		it.Answer = &wire.ServerAnswer_Refused{Refused: what}
	case *wire.Renewed:
		it.Answer = &wire.ServerAnswer_Renewed{Renewed: what}
	case *wire.Pong:
		it.Answer = &wire.ServerAnswer_Pong{Pong: what}
	default:
		panic("what?")
	}
	return &wire.ServerMessage{Answers: []*wire.ServerAnswer{it}}
}

type answered struct {
	granted *granted
	err     error
}

// asks an acquire, and gives what it is answered with.
func asks(s *session, at moment, request *wire.AcquireRequest) (*ask, *answered) {
	ask, got := newAsk(context.Background(), request, 0), &answered{}
	ask.answer = func(granted *granted, err error) { got.granted, got.err = granted, err }
	s.ask(at, ask)
	return ask, got
}

// said is what the session says now, by kind.
func said[Kind any](t *testing.T, s *session, at moment) *wire.ClientRequest {
	t.Helper()
	var found *wire.ClientRequest
	for message := s.say(at); message != nil; message = s.say(at) {
		for _, request := range message.GetRequests() {
			if _, ok := any(request.GetRequest()).(Kind); ok {
				found = request
			}
		}
	}
	if found == nil {
		t.Fatalf("it does not say %T", *new(Kind))
	}
	return found
}

func leased(token uint64) *wire.Grant {
	return &wire.Grant{
		Pool: "db", Token: token, Key: "key", Units: 1, Lifetime: wire.Lifetime_LIFETIME_LEASED, TtlMs: proto.Uint64(10_000),
	}
}

func TestALeaseIsCountedFromBeforeItWasAskedAndRenewedInTime(t *testing.T) {
	s, at := opened(t)
	ping := said[*wire.ClientRequest_Ping](t, s, at)
	must(t, s.hear(at, answer(ping.GetId(), &wire.Pong{AtMs: 1})))
	_, got := asks(s, at, &wire.AcquireRequest{Pool: "db", WaitForever: true})
	acquire := said[*wire.ClientRequest_Acquire](t, s, at)
	must(t, s.hear(at.plus(2*time.Second), answer(acquire.GetId(), leased(5))))
	if until := got.granted.standing.until; until != certain(at, 10*time.Second) {
		t.Fatalf("it is certain until %v", time.Duration(until))
	}
	// With two thirds of it left it is renewed, and counted from before that was said.
	later := at.plus(4 * time.Second)
	must(t, s.tick(later))
	renew := said[*wire.ClientRequest_Renew](t, s, later)
	must(t, s.hear(later.plus(time.Second), answer(renew.GetId(), &wire.Renewed{Token: 5, TtlMs: 10_000})))
	if until := got.granted.standing.until; until != certain(later, 10*time.Second) {
		t.Fatalf("it is certain until %v", time.Duration(until))
	}
}

func TestWhatIsUnansweredIsAskedAgainUnderTheSameRequestID(t *testing.T) {
	s, at := opened(t)
	_, got := asks(s, at, &wire.AcquireRequest{Pool: "db", WaitForever: true})
	first := said[*wire.ClientRequest_Acquire](t, s, at).GetAcquire().GetRequestId()
	s.disconnected(at, errors.New("cut"))
	if s.hasToSay() {
		t.Fatal("there is nobody to say it to")
	}
	if resume := opens(t, s, at.plus(time.Second)); resume.GetResume().GetSessionKey() != "session" {
		t.Fatalf("it does not resume: %v", resume)
	}
	again := said[*wire.ClientRequest_Acquire](t, s, at.plus(time.Second)).GetAcquire().GetRequestId()
	if again != first || got.granted != nil || got.err != nil {
		t.Fatalf("%s was asked as %s", first, again)
	}
}

func TestAServerThatHasNoTimeIsAskedAgainLater(t *testing.T) {
	s, at := opened(t)
	_, got := asks(s, at, &wire.AcquireRequest{Pool: "db"})
	acquire := said[*wire.ClientRequest_Acquire](t, s, at)
	must(t, s.hear(at, answer(acquire.GetId(), &wire.Refusal{Code: "overloaded", Retry: true})))
	if got.err != nil || s.hasToSay() {
		t.Fatal("it is neither told nor asked at once")
	}
	must(t, s.tick(at.plus(retryFirst)))
	again := said[*wire.ClientRequest_Acquire](t, s, at.plus(retryFirst))
	must(t, s.hear(at.plus(retryFirst), answer(again.GetId(), &wire.Refusal{Code: "busy"})))
	if !errors.Is(got.err, Busy) {
		t.Fatalf("it is answered with %v", got.err)
	}
}

func TestAGrantThatIsOverWhenItIsHeardOfIsAskedAnew(t *testing.T) {
	s, at := opened(t)
	_, got := asks(s, at, &wire.AcquireRequest{Pool: "db", WaitForever: true})
	acquire := said[*wire.ClientRequest_Acquire](t, s, at)
	first := acquire.GetAcquire().GetRequestId()
	late := at.plus(20 * time.Second)
	must(t, s.hear(late, answer(acquire.GetId(), leased(5))))
	if got.granted != nil {
		t.Fatal("it was handed out")
	}
	message := s.say(late)
	var withdrawn, anew string
	for _, request := range message.GetRequests() {
		if it := request.GetWithdraw(); it != nil {
			withdrawn = it.GetRequestId()
		}
		if it := request.GetAcquire(); it != nil {
			anew = it.GetRequestId()
		}
	}
	if withdrawn != first || anew == "" || anew == first {
		t.Fatalf("%s was withdrawn as %s and asked as %s", first, withdrawn, anew)
	}
}

func TestASessionThatIsTakenOverTwiceIsGivenUp(t *testing.T) {
	s, at := opened(t)
	taken := &wire.Refusal{Code: "session_taken_over", Message: "taken over"}
	for range 2 {
		if err := s.hear(at, answer(s.open.id, taken)); err == nil {
			t.Fatal("the stream goes on")
		}
		s.disconnected(at, errors.New("taken over"))
		at = at.plus(time.Second)
		if s.key != "" {
			opens(t, s, at)
		}
	}
	if s.key != "" || s.connecting(at).GetRequests()[0].GetOpen() == nil {
		t.Fatal("it takes it back for ever")
	}
}

func TestAConnectionThatDoesNotAnswerItsPingIsGivenUp(t *testing.T) {
	s, at := opened(t)
	ping := said[*wire.ClientRequest_Ping](t, s, at)
	must(t, s.hear(at, answer(ping.GetId(), &wire.Pong{AtMs: 1})))
	at = at.plus(pingIntervalMax)
	must(t, s.tick(at))
	said[*wire.ClientRequest_Ping](t, s, at)
	must(t, s.tick(s.nextDue()-1))
	if err := s.tick(s.nextDue()); err == nil {
		t.Fatal("it is taken for good")
	}
}

func TestARequestThatNobodyAwaitsIsWithdrawn(t *testing.T) {
	s, at := opened(t)
	ask, _ := asks(s, at, &wire.AcquireRequest{Pool: "db", WaitForever: true})
	id := said[*wire.ClientRequest_Acquire](t, s, at).GetAcquire().GetRequestId()
	if !s.forget(ask.id) || s.forget(ask.id) {
		t.Fatal("it is forgotten once")
	}
	if withdrawn := said[*wire.ClientRequest_Withdraw](t, s, at).GetWithdraw().GetRequestId(); withdrawn != id {
		t.Fatalf("%s was withdrawn", withdrawn)
	}
	// One that the server cannot know of needs no words.
	ask, _ = asks(s, at, &wire.AcquireRequest{Pool: "db", WaitForever: true})
	if !s.forget(ask.id) || s.say(at) != nil {
		t.Fatal("it says something")
	}
}
