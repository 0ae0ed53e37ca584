package tenure

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"tenure.dev/go/wire"
)

func TestANewerServerSaysMoreAndThatIsIgnored(t *testing.T) {
	s := inMemory(t)
	// A field that nobody knows in every message, and in the stream an answer of an unknown kind to a request that is there.
	more := protowire.AppendVarint(protowire.AppendTag(nil, 500, protowire.VarintType), 7)
	unknown := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1)
	unknown = protowire.AppendString(protowire.AppendTag(unknown, 99, protowire.BytesType), "news")
	address := otherVersion(t, s.grpc, "9.9.9", nil, func(method string, message []byte) []byte {
		message = append(message, more...)
		if strings.HasSuffix(method, "/Session") {
			message = protowire.AppendBytes(protowire.AppendTag(message, 1, protowire.BytesType), unknown)
		}
		return message
	})
	client, err := Connect(soon(t), Config{Address: address, Holder: "alice", Logger: quiet})
	must(t, err)
	hold := held(client.Hold(soon(t), "db"))(t)
	_, err = client.TryHold(soon(t), "db")
	if !errors.Is(err, Busy) {
		t.Fatalf("it is answered with %v", err)
	}
	if got := holders(t, client, "db"); len(got) != 1 {
		t.Fatalf("%v hold it", got)
	}
	must(t, hold.Release(soon(t)))
	must(t, client.Close(soon(t)))
}

func TestACodeThatIsNotKnownIsARefusalAllTheSame(t *testing.T) {
	err := error(&Refused{Refusal: &wire.Refusal{Code: "of_tomorrow", Message: "not today", Retry: true}})
	var failure Error
	if !errors.As(err, &failure) || failure.Code() != "of_tomorrow" || !failure.Retry() || err.Error() != "not today" {
		t.Fatalf("it is %v", err)
	}
}

func TestACallThatAnOlderServerDoesNotKnowNamesBothVersions(t *testing.T) {
	s := inMemory(t)
	same := func(_ string, message []byte) []byte { return message }
	address := otherVersion(t, s.grpc, "0.0.1", []string{"Session", "ListQueue"}, same)
	client, err := New(Config{Address: address, Logger: quiet})
	must(t, err)
	if got := holders(t, client, "db"); len(got) != 0 {
		t.Fatalf("%v hold it", got)
	}
	_, listing := client.API().ListQueue(soon(t), &wire.ListQueueRequest{Pool: "db"})
	_, holding := client.Hold(soon(t), "db")
	for _, err := range []error{listing, holding} {
		var foreign *ForeignServer
		if !errors.As(err, &foreign) || !strings.Contains(err.Error(), "0.0.1") || !strings.Contains(err.Error(), Version) {
			t.Fatalf("it is answered with %v", err)
		}
	}
}

// otherVersion is the real server, behind somebody who says more than it does, or knows less.
func otherVersion(t *testing.T, address, version string, unknown []string, change func(string, []byte) []byte) string {
	behind, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(bytesCodec{})))
	must(t, err)
	pass := func(_ any, outer grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(outer)
		if err := outer.SetHeader(metadata.Pairs("server", "tenure/"+version)); err != nil {
			return err
		}
		for _, name := range unknown {
			if strings.HasSuffix(method, "/"+name) {
				return status.Error(codes.Unimplemented, "")
			}
		}
		ctx, end := context.WithCancel(outer.Context())
		defer end()
		desc := &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
		inner, err := behind.NewStream(ctx, desc, method)
		if err != nil {
			return err
		}
		go func() {
			for {
				var message []byte
				if outer.RecvMsg(&message) != nil {
					_ = inner.CloseSend()
					return
				}
				if inner.SendMsg(message) != nil {
					return
				}
			}
		}()
		for {
			var message []byte
			if err := inner.RecvMsg(&message); err != nil {
				if errors.Is(err, context.Canceled) || err.Error() == "EOF" {
					return nil
				}
				return err
			}
			if err := outer.SendMsg(change(method, message)); err != nil {
				return err
			}
		}
	}
	server := grpc.NewServer(grpc.ForceServerCodec(bytesCodec{}), grpc.UnknownServiceHandler(pass))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		_ = behind.Close()
	})
	return listener.Addr().String()
}

// bytesCodec passes messages on as they are.
type bytesCodec struct{}

var _ encoding.Codec = bytesCodec{}

func (bytesCodec) Marshal(message any) ([]byte, error) { return message.([]byte), nil }

func (bytesCodec) Unmarshal(data []byte, message any) error {
	*message.(*[]byte) = append([]byte(nil), data...)
	return nil
}

func (bytesCodec) Name() string { return "proto" }
