package tenure

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"

	"tenure.dev/go/wire"
)

// Client has one session and one stream for any number of goroutines.
type Client struct {
	target   *target
	identity identity
	logger   *slog.Logger

	mu         sync.Mutex
	closed     bool
	connection *connection
	calls      *grpc.ClientConn
}

// New is a client that connects when it is first needed.
func New(config Config) (*Client, error) {
	timeout := config.ConnectTimeout
	if timeout <= 0 {
		timeout = connectTimeoutDefault
	}
	target, err := newTarget(config, timeout)
	if err != nil {
		return nil, err
	}
	who := identity{
		address:        config.Address,
		holder:         config.Holder,
		meta:           config.Meta,
		namespace:      config.Namespace,
		grace:          config.SessionGrace,
		connectTimeout: timeout,
	}
	if who.holder == "" {
		who.holder = defaultHolder()
	}
	if who.grace <= 0 {
		who.grace = graceDefault
	}
	logger := config.Logger
	if logger == nil {
		logger = slog.Default()
	}
	return &Client{target: target, identity: who, logger: logger}, nil
}

// Connect is New, and waits until the session is open. It fails at once if nobody listens (*Unreachable), somebody else
// does (*ForeignServer), or the server does not let us in (*Unauthenticated); only connections that break later are mended.
func Connect(ctx context.Context, config Config) (*Client, error) {
	client, err := New(config)
	if err != nil {
		return nil, err
	}
	if _, err := client.connected(ctx); err != nil {
		_ = client.Close(ctx)
		return nil, err
	}
	return client, nil
}

// Hold waits in the pool's queue until it has what is asked, ctx ends, or Wait has passed. A pool that nobody declared
// comes to be: any name is a mutex, with Size it is a semaphore. Release what it gives.
func (c *Client) Hold(ctx context.Context, pool string, options ...Option) (*Hold, error) {
	asked, err := newAsked(pool, options)
	if err != nil {
		return nil, err
	}
	return c.acquire(ctx, asked)
}

// TryHold is as Hold, but without waiting: if there is no room, errors.Is(err, tenure.Busy).
func (c *Client) TryHold(ctx context.Context, pool string, options ...Option) (*Hold, error) {
	return c.Hold(ctx, pool, append(options[:len(options):len(options)], Wait(0))...)
}

// WithHold holds while do runs, and gives back. The context of do is within ctx and ends when the hold is lost. If do went
// well and the hold was over before it, the error is a *HoldLost.
func (c *Client) WithHold(
	ctx context.Context, pool string, do func(ctx context.Context, hold *Hold) error, options ...Option,
) (err error) {
	hold, err := c.Hold(ctx, pool, options...)
	if err != nil {
		return err
	}
	within, end := hold.With(ctx)
	defer end()
	defer func() {
		// Also if ctx is over by now: what is held is given back all the same.
		released := hold.Release(context.WithoutCancel(ctx))
		var away *Unreachable
		// The hold was good until now, and the server is told as soon as it can be.
		if err == nil && !errors.As(released, &away) {
			err = released
		}
	}()
	return do(within, hold)
}

// Elect waits to become the leader. The hold's token is the number of the term. Leadership lives as long as this client's
// session, and outlives a lost connection by the session's grace, unless an option says otherwise.
func (c *Client) Elect(ctx context.Context, pool string, options ...Option) (*Hold, error) {
	a := &asked{request: &wire.AcquireRequest{Pool: pool}}
	for _, option := range options {
		option(a)
	}
	if a.ttl == nil && len(a.lifetimes) == 0 {
		a.lifetimes = []wire.Lifetime{wire.Lifetime_LIFETIME_SESSION}
	}
	if err := a.settle(); err != nil {
		return nil, err
	}
	return c.acquire(ctx, a)
}

// Leader is who leads now; nil if nobody does.
func (c *Client) Leader(ctx context.Context, pool string) (*wire.Hold, error) {
	one := uint32(1)
	listed, err := c.API().ListHolds(ctx, &wire.ListHoldsRequest{Pool: &pool, Limit: &one})
	if errors.Is(err, UnknownPool) || (err == nil && len(listed.GetHolds()) == 0) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return listed.GetHolds()[0], nil
}

// Rate takes a place in a rate window: at most limit of them in any time of length per. It waits for it. A place ends by
// itself, and cannot be given back.
func (c *Client) Rate(
	ctx context.Context, pool string, limit uint32, per time.Duration, options ...Option,
) (*Place, error) {
	options = append(options[:len(options):len(options)],
		Size(limit), TTL(per), lifetime(wire.Lifetime_LIFETIME_WINDOW))
	hold, err := c.Hold(ctx, pool, options...)
	if err != nil {
		return nil, err
	}
	certainFor, _ := hold.CertainFor()
	hold.Keep()
	return &Place{Pool: hold.Pool(), Token: hold.Token(), Units: hold.Units(), CertainFor: certainFor}, nil
}

// TryRate is as Rate, but without waiting: if there is no place, errors.Is(err, tenure.Busy).
func (c *Client) TryRate(
	ctx context.Context, pool string, limit uint32, per time.Duration, options ...Option,
) (*Place, error) {
	return c.Rate(ctx, pool, limit, per, append(options[:len(options):len(options)], Wait(0))...)
}

// SetPool declares a pool, or changes it. No hold is dropped: what is too much drains. It says whether it had to be made.
func (c *Client) SetPool(ctx context.Context, pool string, spec *wire.PoolSpec) (bool, error) {
	set, err := c.API().SetPool(ctx, &wire.SetPoolRequest{Pool: pool, Spec: spec})
	return set.GetCreated(), err
}

// Holder is who asks, unless a request says otherwise.
func (c *Client) Holder() string { return c.identity.holder }

// Trouble is why there is no connection to the server just now, although one is being made; nil if there is one.
func (c *Client) Trouble() error {
	c.mu.Lock()
	connection := c.connection
	c.mu.Unlock()
	if connection == nil {
		return nil
	}
	connection.mu.Lock()
	defer connection.mu.Unlock()
	return connection.trouble
}

// Close ends the session in good order: waits end with Closed, what is held is released and lost as LostClosed. Places in
// rate windows go on until they end by themselves. An *Unreachable says that the server could not be told; what was held
// then ends with its lease or the session's grace. So it is if ctx ends meanwhile.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	connection, calls := c.connection, c.calls
	c.calls = nil
	c.mu.Unlock()
	if calls != nil {
		_ = calls.Close()
	}
	if connection == nil {
		return nil
	}
	ended := make(chan error, 1)
	connection.do(func(s *session, at moment) {
		if s.greeting != nil {
			// Nobody has opened it yet, so there is nothing to end.
			s.disconnected(at, closedError{})
		}
		s.close(at, func(err error) { ended <- err })
	})
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Client) connected(ctx context.Context) (*connection, error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, closedError{}
	}
	if c.connection == nil {
		c.connection = newConnection(c.target, c.identity, c.logger)
	}
	connection := c.connection
	c.mu.Unlock()
	select {
	case <-connection.greeted:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := connection.greetingErr; err != nil {
		c.mu.Lock()
		if c.connection == connection {
			// The next who asks tries again.
			c.connection = nil
		}
		c.mu.Unlock()
		return nil, err
	}
	return connection, nil
}

func (c *Client) acquire(ctx context.Context, asked *asked) (*Hold, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	connection, err := c.connected(ctx)
	if err != nil {
		return nil, err
	}
	type answer struct {
		granted *granted
		err     error
	}
	answers := make(chan answer, 1)
	ask := asked.ask(ctx)
	ask.answer = func(granted *granted, err error) { answers <- answer{granted, err} }
	var places chan uint64
	if asked.onQueued != nil {
		places = make(chan uint64, 1)
		ask.queued = func(position uint64) {
			// Only the newest is of interest. Nobody else puts any in.
			select {
			case <-places:
			default:
			}
			places <- position
		}
	}
	connection.do(func(s *session, at moment) { s.ask(at, ask) })
	for {
		select {
		case answer := <-answers:
			if answer.err != nil {
				return nil, answer.err
			}
			hold := &Hold{connection: connection, granted: answer.granted}
			if onLost := asked.onLost; onLost != nil {
				hold.granted.standing.listen(func(lost *HoldLost) {
					if lost.Reason != LostLetGo {
						go onLost(lost)
					}
				})
			}
			return hold, nil
		case position := <-places:
			asked.onQueued(position)
		case <-ctx.Done():
			connection.do(func(s *session, at moment) {
				if s.forget(ask.id) {
					return
				}
				// It was answered in the same moment.
				if answer := <-answers; answer.granted != nil {
					s.release(at, answer.granted.id, nil, LostLetGo)
				}
			})
			return nil, fmt.Errorf("pool `%s` was not granted in time: %w", asked.request.GetPool(), ctx.Err())
		}
	}
}
