package tenure

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"tenure.dev/go/wire"
)

// The server and the clients of a scenario.

func (s *scene) opens(told map[string]any) {
	s.grpc, s.isRunning = told["grpc"].(string), true
	face, err := New(Config{Address: s.grpc, Logger: quiet})
	must(s.t, err)
	s.face = face
}

func (s *scene) start() { s.opens(s.theatre.ask("start", map[string]any{})) }

func (s *scene) stop() {
	for _, own := range s.actors {
		if own.door != nil {
			own.door.leadsTo("")
		}
	}
	s.theatre.ask("kill", map[string]any{})
	s.isRunning = false
	for _, own := range s.actors {
		if own.door != nil {
			own.door.cut()
			s.untilCut(own)
		}
		// What was asked beside a session is gone with its connection.
		for _, it := range slices.Clone(own.calls) {
			if it.client == nil {
				own.remove(it)
				it.hangUp()
			}
		}
	}
	_ = s.face.Close(s.ctx)
}

func (s *scene) close() {
	for _, own := range s.actors {
		for _, it := range own.calls {
			it.hangUp()
		}
		if own.door != nil {
			own.door.close()
		}
		if own.client != nil {
			// Its server is about to be gone: nobody is to be told of its end.
			own.client.connection.do(func(s *session, _ moment) { s.end(nil) })
		}
	}
	_ = s.face.Close(s.ctx)
}

func (s *scene) api() wire.TenureClient { return s.face.API() }

func (s *scene) settle() {
	if s.isRunning {
		s.theatre.ask("settle", map[string]any{})
	}
}

// counts are commands and hang-ups that have reached the engine.
func (s *scene) counts() (int, int) {
	told := s.theatre.ask("counts", map[string]any{})
	return int(told["commands"].(float64)), int(told["hang_ups"].(float64))
}

func (s *scene) until(what string, condition func() bool) {
	begun := time.Now()
	for !condition() {
		if time.Since(begun) > patience {
			s.t.Fatalf("it does not come about that %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// Requests.

func (s *scene) actor(name string) *actor {
	if s.actors[name] == nil {
		s.actors[name] = &actor{holds: map[uint64]*Hold{}}
	}
	return s.actors[name]
}

func (a *actor) remove(it *call) {
	a.calls = slices.DeleteFunc(a.calls, func(other *call) bool { return other == it })
}

// done is its outcome, if there is one.
func (c *call) done() (outcome, bool) {
	select {
	case told := <-c.answer:
		return told, true
	default:
		return outcome{}, false
	}
}

func (s *scene) acquire(name string, request *wire.AcquireRequest, session string) (outcome, error) {
	own := s.actor(name)
	var client *Client
	switch {
	case session == "own" && own.isCarried():
		client = own.client
	case session == "own":
		request.SessionKey = &own.sessionKey
	case session == "wrong":
		request.SessionKey = proto.String(sessionOfNobody)
	}
	pool, namespace, id := request.GetPool(), request.GetNamespace(), request.GetRequestId()
	for _, again := range own.calls {
		if client != nil && id != "" && again.request == id {
			// A client that comes back makes its requests again by itself.
			own.remove(again)
			return s.outcomeOrPlace(own, again, pool, namespace, s.places(pool, namespace)), nil
		}
	}
	before := s.places(pool, namespace)
	commands, _ := s.counts()
	ctx, hangUp := context.WithCancel(s.ctx)
	it := &call{request: id, client: client, hangUp: hangUp, answer: make(chan outcome, 1)}
	go s.ask(ctx, own, it, request)
	var told *outcome
	s.until("the server hears of it", func() bool {
		if outcome, ok := it.done(); ok {
			told = &outcome
			return true
		}
		now, _ := s.counts()
		return now > commands
	})
	if told != nil {
		return *told, nil
	}
	return s.outcomeOrPlace(own, it, pool, namespace, before), nil
}

func (s *scene) ask(ctx context.Context, own *actor, it *call, request *wire.AcquireRequest) {
	if it.client == nil {
		grant, err := s.api().Acquire(ctx, request)
		it.answer <- told(err, func() outcome { return grantedWords(grant) })
		return
	}
	asked := &asked{request: request}
	if request.WaitMs != nil {
		wait := milliseconds(request.GetWaitMs())
		asked.wait = &wait
	}
	// The stream's own session has its namespace, and needs no naming.
	request.Namespace = ""
	hold, err := it.client.acquire(ctx, asked)
	it.answer <- told(err, func() outcome {
		s.t.Helper()
		holdsMu.Lock()
		defer holdsMu.Unlock()
		own.holds[hold.Token()] = hold
		return grantedWords(hold.Grant())
	})
}

func (s *scene) outcomeOrPlace(
	own *actor, it *call, pool, namespace string, before map[uint64]outcome,
) outcome {
	s.settle()
	after := s.places(pool, namespace)
	waiter := s.waiters[[2]string{namespace, it.request}]
	for number := range after {
		if _, ok := before[number]; !ok {
			waiter = number
		}
	}
	// An answer that was given gets time to come here.
	for range 4 {
		s.roundTrip(own)
		if outcome, ok := it.done(); ok {
			return outcome
		}
	}
	place, ok := after[waiter]
	if !ok {
		select {
		case outcome := <-it.answer:
			return outcome
		case <-time.After(patience):
			s.t.Fatal("it is neither answered nor in the queue")
		}
	}
	if it.request != "" {
		s.waiters[[2]string{namespace, it.request}] = waiter
	}
	own.calls = append(own.calls, it)
	return place
}

// places are who waits, by number, and what they would be told.
func (s *scene) places(pool, namespace string) map[uint64]outcome {
	queue, err := s.api().ListQueue(s.ctx, &wire.ListQueueRequest{Pool: pool, Namespace: namespace})
	if err != nil {
		return nil
	}
	places := map[uint64]outcome{}
	for _, waiter := range queue.GetWaiters() {
		if waiter.Position != nil {
			places[waiter.GetWaiter()] = queuedWords(waiter)
		}
	}
	return places
}

// release is by the hold, if it is one of this actor's own client; else by its key.
func (s *scene) release(name string, token *uint64, request *wire.ReleaseRequest) outcome {
	own := s.actor(name)
	var hold *Hold
	if token != nil {
		holdsMu.Lock()
		hold = own.holds[*token]
		delete(own.holds, *token)
		holdsMu.Unlock()
	}
	if hold == nil || hold.Key() != request.GetKey() || hold.Pool() != request.GetPool() || !own.isCarried() {
		released, err := s.api().Release(s.ctx, request)
		return told(err, func() outcome { return releasedWords(released.GetToken()) })
	}
	return told(hold.Release(s.ctx), func() outcome { return releasedWords(hold.Token()) })
}

// late is the next thing that comes of what this actor waits with.
func (s *scene) late(name string) (outcome, bool) {
	own := s.actor(name)
	for begun := time.Now(); time.Since(begun) < patience/6 && len(own.calls) > 0; time.Sleep(time.Millisecond) {
		for _, it := range own.calls {
			if told, ok := it.done(); ok {
				own.remove(it)
				return told, true
			}
		}
	}
	return outcome{}, false
}

// roundTrip: whatever the server has said by now is here afterwards.
func (s *scene) roundTrip(own *actor) {
	if !s.isRunning {
		return
	}
	_, _ = s.api().ListPools(s.ctx, &wire.ListPoolsRequest{})
	if own.client != nil && own.isCarried() && isOpen(own.client) {
		connection := own.client.connection
		connection.do(func(session *session, at moment) { session.ping(at) })
		s.until("the stream answers", func() bool {
			connection.mu.Lock()
			defer connection.mu.Unlock()
			return connection.session.open == nil || connection.session.open.pinged == 0
		})
	}
}
