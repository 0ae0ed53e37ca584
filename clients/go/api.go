package tenure

import (
	"context"
	"errors"
	"iter"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"tenure.dev/go/wire"
)

// API is every call of the server with its own messages, over a connection of its own and without a session, which a client
// that only looks and changes never opens. Its errors are those of this package. Calls are not tried again: an error says
// whether what was asked may have happened. A request that names no namespace means the client's.
func (c *Client) API() wire.TenureClient { return wire.NewTenureClient(&caller{client: c}) }

// Watching says what to watch: one pool or holder, or the whole namespace; with After, everything after the event of that
// number.
type Watching struct {
	Pool   string
	Holder string
	After  *uint64
}

// Watch tells what happens, as it does. It goes on by itself after a lost connection, without a gap, and ends with ctx or
// with an error: EventsGone, if those events are no longer kept.
//
//	for event, err := range client.Watch(ctx, tenure.Watching{Pool: "db"}) { … }
func (c *Client) Watch(ctx context.Context, what Watching) iter.Seq2[*wire.Event, error] {
	return func(yield func(*wire.Event, error) bool) {
		request := &wire.WatchRequest{After: what.After}
		if what.Pool != "" {
			request.Pool = &what.Pool
		}
		if what.Holder != "" {
			request.Holder = &what.Holder
		}
		failures := 0
		for {
			going, err := c.watchOnce(ctx, request, &failures, yield)
			if !going {
				return
			}
			var away *Unreachable
			if ctx.Err() != nil {
				err = ctx.Err()
			} else if err == nil || errors.As(err, &away) {
				failures++
				select {
				case <-time.After(pause(failures, pauseFirst, pauseMost)):
					continue
				case <-ctx.Done():
					err = ctx.Err()
				}
			}
			yield(nil, err)
			return
		}
	}
}

// watchOnce is over one connection; false if nobody wants to hear more.
func (c *Client) watchOnce(
	ctx context.Context, request *wire.WatchRequest, failures *int, yield func(*wire.Event, error) bool,
) (bool, error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	stream, err := c.API().Watch(ctx, proto.Clone(request).(*wire.WatchRequest))
	if err != nil {
		return true, err
	}
	for {
		watched, err := stream.Recv()
		if err != nil {
			return true, c.meaning(ctx, err, stream.Trailer())
		}
		*failures = 0
		request.After = proto.Uint64(watched.GetSeq())
		if watched.GetEvent() != nil && !yield(watched.GetEvent(), nil) {
			return false, nil
		}
	}
}

// caller makes calls over a connection that is made when it is first needed.
type caller struct{ client *Client }

func (c *caller) Invoke(ctx context.Context, method string, request, answer any, options ...grpc.CallOption) error {
	conn, asked, err := c.client.callsConn(ctx)
	if err != nil {
		return err
	}
	var header, trailer metadata.MD
	options = append(options[:len(options):len(options)], grpc.Header(&header), grpc.Trailer(&trailer))
	err = conn.Invoke(asked, method, c.client.inNamespace(request), answer, options...)
	if err == nil {
		return nil
	}
	return c.client.failed(ctx, conn, err, header, trailer)
}

func (c *caller) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	conn, asked, err := c.client.callsConn(ctx)
	if err != nil {
		return nil, err
	}
	stream, err := conn.NewStream(asked, desc, method, options...)
	if err != nil {
		return nil, c.client.failed(ctx, conn, err)
	}
	return &namespaced{ClientStream: stream, client: c.client}, nil
}

type namespaced struct {
	grpc.ClientStream
	client *Client
}

func (n *namespaced) SendMsg(message any) error {
	return n.ClientStream.SendMsg(n.client.inNamespace(message))
}

func (c *Client) callsConn(ctx context.Context) (*grpc.ClientConn, context.Context, error) {
	asked, err := c.target.letIn(ctx)
	if err != nil {
		return nil, nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, closedError{}
	}
	if c.calls == nil {
		conn, err := c.target.dial()
		if err != nil {
			return nil, nil, err
		}
		c.calls = conn
	}
	return c.calls, asked, nil
}

// failed: the next call is to try at once again.
func (c *Client) failed(ctx context.Context, conn *grpc.ClientConn, err error, said ...metadata.MD) error {
	conn.ResetConnectBackoff()
	meaning := c.meaning(ctx, err, said...)
	var away *Unreachable
	if errors.As(meaning, &away) {
		return c.target.diagnose(err, said...)
	}
	return meaning
}

func (c *Client) meaning(ctx context.Context, err error, said ...metadata.MD) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return closedError{}
	}
	return c.target.meaning(err, said...)
}

// inNamespace is the message in the client's namespace, if it names none and has room for one.
func (c *Client) inNamespace(message any) any {
	request, ok := message.(proto.Message)
	if !ok || c.identity.namespace == "" {
		return message
	}
	field := request.ProtoReflect().Descriptor().Fields().ByName("namespace")
	if field == nil || request.ProtoReflect().Has(field) {
		return message
	}
	within := proto.Clone(request)
	within.ProtoReflect().Set(field, protoreflect.ValueOfString(c.identity.namespace))
	return within
}
