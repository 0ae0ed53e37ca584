package tenure

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"tenure.dev/go/wire"
)

// What the actors of a scenario do with their sessions.

// holdsMu guards what actors hold: a grant may come while the next step is taken.
var holdsMu sync.Mutex

func (s *scene) sessionDoes(name string, a *arguments) (outcome, error) {
	switch what := a.word(); what {
	case "open":
		return s.openSession(name, a), nil
	case "keep-alive":
		own := s.actor(name)
		kept, err := s.api().KeepAlive(s.ctx, &wire.KeepAliveRequest{Namespace: own.namespace, SessionKey: own.sessionKey})
		return told(err, func() outcome { return openedWords(kept) }), nil
	case "drop":
		s.dropSession(name)
		return outcome{word: "done"}, nil
	case "resume":
		return s.resumeSession(name)
	case "end":
		return s.endSession(name), nil
	default:
		return outcome{}, fmt.Errorf("`session %s` is not something that this client can do, and it is not listed", what)
	}
}

func (s *scene) openSession(name string, a *arguments) outcome {
	own := s.actor(name)
	own.namespace = a.namespace()
	grace := a.duration("grace")
	if grace == nil {
		grace = proto.Uint64(0)
	}
	if a.flag("polled") {
		request := &wire.OpenSessionRequest{Namespace: own.namespace, Holder: name, GraceMs: grace}
		opened, err := s.api().OpenSession(s.ctx, request)
		return told(err, func() outcome {
			own.sessionKey = opened.GetSessionKey()
			return openedWords(opened)
		})
	}
	own.door = newDoor(s.t, s.grpc)
	client, err := Connect(s.ctx, Config{
		Address: own.door.address, Holder: name, Namespace: own.namespace, SessionGrace: milliseconds(*grace),
		ConnectTimeout: patience, Logger: quiet,
	})
	return told(err, func() outcome {
		own.client, own.sessionKey = client, sessionKey(client)
		return words("open", "grace", length{grace}, "until", "none")
	})
}

// dropSession waits until both ends have heard of what is lost, but not for what the server makes of it.
func (s *scene) dropSession(name string) {
	own := s.actor(name)
	commands, _ := s.counts()
	if !own.isCarried() {
		return
	}
	own.door.leadsTo("")
	own.door.cut()
	s.until("the server hears of it", func() bool {
		now, _ := s.counts()
		return now > commands
	})
	s.untilCut(own)
}

// untilCut waits until the client has heard of it too: it would still look open to whoever waits for it to be so again.
func (s *scene) untilCut(own *actor) {
	s.until("the client hears of it", func() bool { return own.client == nil || !isOpen(own.client) })
}

func (s *scene) resumeSession(name string) (outcome, error) {
	own := s.actor(name)
	if own.client == nil || own.door == nil {
		return outcome{}, fmt.Errorf("a session that lives by keep-alives is not resumed by this client; list it")
	}
	if own.door.isOpen() {
		return outcome{}, fmt.Errorf("this client gives up a connection before it makes the next; list it")
	}
	key := sessionKey(own.client)
	own.door.leadsTo(s.grpc)
	s.until("it is open", func() bool { return isOpen(own.client) })
	s.roundTrip(own)
	s.settle()
	if sessionKey(own.client) != key {
		return words("refused unknown_session"), nil
	}
	connection := own.client.connection
	connection.mu.Lock()
	grace := uint64(connection.session.identity.grace / time.Millisecond)
	connection.mu.Unlock()
	return words("open", "grace", length{&grace}, "until", "none"), nil
}

func (s *scene) endSession(name string) outcome {
	own := s.actor(name)
	if own.client != nil && own.isCarried() {
		// What does not end with the session is not the client's business any more.
		holdsMu.Lock()
		for _, hold := range own.holds {
			hold.Keep()
		}
		holdsMu.Unlock()
		err := own.client.Close(s.ctx)
		own.client = nil
		return told(err, func() outcome { return outcome{word: "done"} })
	}
	_, err := s.api().EndSession(s.ctx, &wire.EndSessionRequest{Namespace: own.namespace, SessionKey: own.sessionKey})
	return told(err, func() outcome { return outcome{word: "done"} })
}

func (s *scene) hangUp(name string) error {
	own := s.actor(name)
	_, before := s.counts()
	gone := 0
	for _, it := range slices.Clone(own.calls) {
		if it.client == nil {
			own.remove(it)
			it.hangUp()
			gone++
		}
	}
	s.until("the server hears of it", func() bool {
		_, now := s.counts()
		return now >= before+gone
	})
	return nil
}
