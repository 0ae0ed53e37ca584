package tenure

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tenure.dev/go/wire"
)

// What a slow machine may take for what happens at once.
const patience = 60 * time.Second

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// server is the real one as a child process, TENURE_PROGRAM, and a door in front of it, so that it can be killed and
// started again where its clients look for it.
type server struct {
	t       testing.TB
	options []string
	process *exec.Cmd
	grpc    string
	http    string
	door    *door
}

func startServer(t testing.TB, options ...string) *server {
	s := &server{t: t, options: append([]string{"--data", t.TempDir()}, options...)}
	s.start()
	s.door = newDoor(t, s.grpc)
	t.Cleanup(s.kill)
	return s
}

// inMemory is a server for those who do not restart it.
func inMemory(t testing.TB) *server { return startServer(t, "--durability", "memory") }

func (s *server) start() {
	program := os.Getenv("TENURE_PROGRAM")
	if program == "" {
		s.t.Skip("TENURE_PROGRAM does not say where the server is")
	}
	arguments := append([]string{"serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"}, s.options...)
	s.process = exec.Command(program, arguments...)
	s.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "TENURE_") {
			s.process.Env = append(s.process.Env, variable)
		}
	}
	stdout, err := s.process.StdoutPipe()
	must(s.t, err)
	must(s.t, s.process.Start())
	lines := bufio.NewScanner(stdout)
	s.grpc, s.http = "", ""
	for (s.grpc == "" || s.http == "") && lines.Scan() {
		if told, ok := strings.CutPrefix(lines.Text(), "grpc "); ok {
			s.grpc = strings.TrimSpace(told)
		} else if told, ok := strings.CutPrefix(lines.Text(), "http "); ok {
			s.http = strings.TrimSpace(told)
		}
	}
	if s.grpc == "" || s.http == "" {
		s.t.Fatal("the server ended before it said where it listens")
	}
}

func (s *server) kill() {
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
}

func (s *server) restart() {
	s.kill()
	s.start()
	s.door.leadsTo(s.grpc)
}

// client connects to it through its door.
func (s *server) client(holder string) *Client { return s.clientWith(Config{Holder: holder}) }

func (s *server) clientWith(config Config) *Client {
	config.Address, config.Logger = s.door.address, quiet
	client, err := Connect(context.Background(), config)
	must(s.t, err)
	s.t.Cleanup(func() {
		ctx, end := context.WithTimeout(context.Background(), time.Second)
		defer end()
		_ = client.Close(ctx)
	})
	return client
}

// door is an address that passes on to a server, or to nobody.
type door struct {
	address  string
	listener net.Listener
	mu       sync.Mutex
	server   string
	open     []net.Conn
}

func newDoor(t testing.TB, server string) *door {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	d := &door{address: listener.Addr().String(), listener: listener, server: server}
	go d.listen()
	t.Cleanup(d.close)
	return d
}

// leadsTo: whoever knocks from now on gets to this server; with none, is hung up on.
func (d *door) leadsTo(server string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.server = server
}

func (d *door) isOpen() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.server != ""
}

// cut ends all connections there are.
func (d *door) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, conn := range d.open {
		_ = conn.Close()
	}
	d.open = nil
}

func (d *door) close() {
	d.leadsTo("")
	_ = d.listener.Close()
	d.cut()
}

func (d *door) listen() {
	for {
		outer, err := d.listener.Accept()
		if err != nil {
			return
		}
		d.mu.Lock()
		server := d.server
		d.mu.Unlock()
		inner, err := net.Dial("tcp", server)
		if server == "" || err != nil {
			_ = outer.Close()
			continue
		}
		d.mu.Lock()
		d.open = append(d.open, outer, inner)
		d.mu.Unlock()
		for _, way := range [][2]net.Conn{{outer, inner}, {inner, outer}} {
			go func() {
				_, _ = io.Copy(way[0], way[1])
				_ = way[0].Close()
				_ = way[1].Close()
			}()
		}
	}
}

var names atomic.Int64

// name is a pool of this test alone.
func name(t testing.TB) string { return fmt.Sprintf("%s %d", t.Name(), names.Add(1)) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// held is for what is granted: held(client.Hold(…))(t).
func held(hold *Hold, err error) func(testing.TB) *Hold {
	return func(t testing.TB) *Hold {
		t.Helper()
		must(t, err)
		return hold
	}
}

// until waits until it is so, and fails if that takes absurdly long.
func until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for begun := time.Now(); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > patience {
			t.Fatalf("it does not come about that %s", what)
		}
	}
}

// soon is a context for what happens at once.
func soon(t testing.TB) context.Context {
	ctx, end := context.WithTimeout(context.Background(), patience)
	t.Cleanup(end)
	return ctx
}

func holders(t testing.TB, client *Client, pool string) []string {
	t.Helper()
	listed, err := client.API().ListHolds(soon(t), &wire.ListHoldsRequest{Pool: &pool})
	if errors.Is(err, UnknownPool) {
		return nil
	}
	must(t, err)
	var holders []string
	for _, hold := range listed.GetHolds() {
		holders = append(holders, hold.GetHolder())
	}
	return holders
}

// waiters are those whose client is there; -1 if nobody can tell, because the connection was lost.
func waiters(t testing.TB, client *Client, pool string) int {
	t.Helper()
	queue, err := client.API().ListQueue(soon(t), &wire.ListQueueRequest{Pool: pool})
	var unreachable *Unreachable
	if errors.As(err, &unreachable) {
		return -1
	}
	if errors.Is(err, UnknownPool) {
		return 0
	}
	must(t, err)
	count := 0
	for _, waiter := range queue.GetWaiters() {
		if waiter.Position != nil {
			count++
		}
	}
	return count
}

func isOpen(client *Client) bool {
	client.mu.Lock()
	connection := client.connection
	client.mu.Unlock()
	connection.mu.Lock()
	defer connection.mu.Unlock()
	return connection.session.open != nil
}

func sessionKey(client *Client) string {
	client.connection.mu.Lock()
	defer client.connection.mu.Unlock()
	return client.connection.session.key
}
