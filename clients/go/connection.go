package tenure

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"

	"tenure.dev/go/wire"
)

const (
	// The pause before the next attempt to connect.
	pauseFirst = 50 * time.Millisecond
	pauseMost  = 2 * time.Second
	// A timer that is so late was paused with the process; what was heard meanwhile gets a moment to be read first, because
	// it may have what the clock says is missing.
	lateTimer   = 100 * time.Millisecond
	lateReading = 10 * time.Millisecond
)

// connection is one stream after another, and between them and the session whatever either has for the other. Renewals
// depend on no goroutine of the application. All decisions are the session's.
type connection struct {
	target *target
	logger *slog.Logger
	// Told when there may be something to say.
	something chan struct{}
	// Closed when the first connection has come about, or not; greetingErr is why.
	greeted     chan struct{}
	greetingErr error
	// Closed when the session is over.
	over chan struct{}

	mu      sync.Mutex
	session *session
	// Ends the stream that there is.
	breakOff context.CancelCauseFunc
	timer    *time.Timer
	timerAt  moment
	// Why there is no connection just now.
	trouble error
	// Attempts in a row that came to nothing, or not for long.
	failures int
	paused   time.Duration
	// Since when the session is open on this connection.
	opened moment
}

func newConnection(target *target, who identity, logger *slog.Logger) *connection {
	c := &connection{
		target:    target,
		logger:    logger,
		something: make(chan struct{}, 1),
		greeted:   make(chan struct{}),
		over:      make(chan struct{}),
		breakOff:  func(error) {},
	}
	c.session = newSession(who, func(err error) {
		c.greetingErr = err
		close(c.greeted)
	})
	go c.run()
	return c
}

// do lets the session do something, and sees to what comes of it.
func (c *connection) do(what func(s *session, at moment)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	what(c.session, now())
	c.after()
}

// after says what there is to say, and looks when there is something to do again.
func (c *connection) after() {
	if c.session.isOver {
		select {
		case <-c.over:
		default:
			close(c.over)
			if c.timer != nil {
				c.timer.Stop()
			}
			c.breakOff(closedError{})
		}
		return
	}
	if c.session.hasToSay() {
		select {
		case c.something <- struct{}{}:
		default:
		}
	}
	due := c.session.nextDue()
	if due == 0 {
		return
	}
	at := now()
	delay := min(max(due.since(at), 0), napMax)
	wake := at.plus(delay)
	if c.timerAt != 0 && c.timerAt <= wake.plus(500*time.Microsecond) {
		return
	}
	c.timerAt = wake
	if c.timer == nil {
		c.timer = time.AfterFunc(delay, c.tick)
	} else {
		c.timer.Reset(delay)
	}
}

func (c *connection) tick() {
	c.mu.Lock()
	late := c.timerAt != 0 && now().since(c.timerAt) > lateTimer
	c.mu.Unlock()
	if late {
		time.Sleep(lateReading)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timerAt = 0
	if c.session.isOver {
		return
	}
	if err := c.session.tick(now()); err != nil {
		c.breakOff(err)
	}
	c.after()
}

// run makes one connection after another until the session is over.
func (c *connection) run() {
	for {
		err := c.carry()
		wait, over := c.broken(err)
		if over {
			return
		}
		select {
		case <-time.After(wait):
		case <-c.over:
			return
		}
	}
}

// carry goes from the dialing to the end of one stream.
func (c *connection) carry() error {
	ctx, breakOff := context.WithCancelCause(context.Background())
	defer breakOff(nil)
	c.mu.Lock()
	if c.session.isOver {
		c.mu.Unlock()
		return closedError{}
	}
	first := c.session.connecting(now())
	c.breakOff = breakOff
	c.after()
	c.mu.Unlock()

	asked, err := c.target.letIn(ctx)
	if err != nil {
		return err
	}
	conn, err := c.target.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	stream, err := wire.NewTenureClient(conn).Session(asked)
	if err != nil {
		return c.failure(ctx, err, nil)
	}
	// What cannot be sent any more has an end that is told to whoever receives.
	_ = stream.Send(first)
	message, err := stream.Recv()
	if err != nil {
		return c.failure(ctx, err, stream)
	}
	var writing sync.WaitGroup
	defer writing.Wait()
	defer breakOff(nil)
	writing.Add(1)
	go func() {
		defer writing.Done()
		c.write(ctx, stream)
	}()
	for {
		if err := c.hear(message); err != nil {
			return c.target.unreachable(err.Error())
		}
		if message, err = stream.Recv(); err != nil {
			if cause := c.cause(ctx); cause != nil {
				return cause
			}
			return c.target.meaning(err, stream.Trailer())
		}
	}
}

type sessionStream = grpc.BidiStreamingClient[wire.ClientMessage, wire.ServerMessage]

// failure is why a stream did not come about.
func (c *connection) failure(ctx context.Context, err error, stream sessionStream) error {
	if cause := c.cause(ctx); cause != nil {
		return cause
	}
	if stream == nil {
		return c.target.diagnose(err)
	}
	header, _ := stream.Header()
	return c.target.diagnose(err, header, stream.Trailer())
}

// cause is why we ourselves have ended the stream.
func (c *connection) cause(ctx context.Context) error {
	var why *broken
	if errors.As(context.Cause(ctx), &why) {
		return c.target.unreachable(why.why)
	}
	return nil
}

func (c *connection) hear(message *wire.ServerMessage) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := now()
	err := c.session.hear(at, message)
	if c.session.open != nil && c.opened == 0 {
		c.opened, c.trouble = at, nil
		if c.failures > 0 {
			c.logger.Info("connected again", "server", c.target.given)
		}
	}
	c.after()
	return err
}

func (c *connection) write(ctx context.Context, stream sessionStream) {
	for {
		c.mu.Lock()
		message := c.session.say(now())
		c.mu.Unlock()
		if message != nil {
			// Whoever receives hears of a failure too, and why.
			if stream.Send(message) != nil {
				return
			}
			continue
		}
		select {
		case <-c.something:
		case <-ctx.Done():
			return
		}
	}
}

// broken says how long to pause before the next connection, or that there will be none.
func (c *connection) broken(err error) (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.after()
	at := now()
	// A connection that lasted longer than it was waited for is no sign of trouble; one that never lasts is.
	if c.opened != 0 && at >= c.opened.plus(c.paused) {
		c.failures = 0
	}
	c.opened = 0
	c.failures++
	c.paused = pause(c.failures, pauseFirst, pauseMost)
	c.session.disconnected(at, err)
	if c.session.isOver {
		return 0, true
	}
	// A server that is away is expected to come back; what keeps us out when it is there has to be mended by somebody.
	var away *Unreachable
	isNews := !errors.As(err, &away) && (c.trouble == nil || c.trouble.Error() != err.Error())
	c.trouble = err
	level := slog.LevelDebug
	if c.failures == 1 || isNews {
		level = slog.LevelWarn
	}
	c.logger.Log(context.Background(), level, "not connected, trying again", "server", c.target.given, "why", err)
	return c.paused, false
}
