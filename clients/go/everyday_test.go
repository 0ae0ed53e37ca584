package tenure_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tenure.dev/go"
	"tenure.dev/go/wire"
)

// The programs of the README, word for word, and what is around them.

var ctx = context.Background()

var client *tenure.Client

func serve(ctx context.Context) error {
	term, err := client.Elect(ctx, "orders-primary")
	if err != nil {
		return err
	}
	defer term.Release(context.WithoutCancel(ctx))
	for term.Context().Err() == nil && ctx.Err() == nil {
		processNextOrder(term.Context(), term.Token())
	}
	return term.Check()
}

func nightlyReport(ctx context.Context) error {
	hold, err := client.TryHold(ctx, "nightly-report")
	var refused *tenure.Refused
	if errors.As(err, &refused) && refused.Code() == tenure.Busy {
		fmt.Println(refused.Holders()[0].GetHolder(), "does it")
		return nil
	}
	if err != nil {
		return err
	}
	defer hold.Release(ctx)
	return writeReport(hold.Context(), hold.Token())
}

func resize(ctx context.Context, image string) (small string, err error) {
	err = client.WithHold(ctx, "image-resizing", func(ctx context.Context, hold *tenure.Hold) error {
		small, err = resized(ctx, image)
		return err
	}, tenure.Size(3))
	return small, err
}

func callPartner(ctx context.Context, request string) (string, error) {
	if _, err := client.Rate(ctx, "partner-api", 30, time.Minute); err != nil {
		return "", err
	}
	return partnerAnswers(ctx, request)
}

func handle(ctx context.Context, user string) int {
	_, err := client.TryRate(ctx, "requests/"+user, 5, time.Second)
	if errors.Is(err, tenure.Busy) {
		return 429
	}
	return 200
}

func train(ctx context.Context) error {
	wanted := tenure.And(tenure.Part{Pool: "gpus", Units: 2, Select: "mem >= 80"}, tenure.Part{Pool: "licences"})
	return client.WithHold(ctx, "dataset", func(ctx context.Context, hold *tenure.Hold) error {
		return trainOn(ctx, hold.Part("gpus").GetResources(), hold.Token())
	}, wanted)
}

var (
	processNextOrder func(context.Context, uint64)
	writeReport      func(context.Context, uint64) error
	resized          func(context.Context, string) (string, error)
	partnerAnswers   func(context.Context, string) (string, error)
	trainOn          func(context.Context, []*wire.Resource, uint64) error
)

func TestFailover(t *testing.T) {
	first, second := connect(t, "first"), connect(t, "second")
	var terms []uint64
	// The first serves an order and is gone; the second goes on.
	client = first
	processNextOrder = func(_ context.Context, token uint64) {
		terms = append(terms, token)
		if err := first.Close(ctx); err != nil {
			t.Error(err)
		}
	}
	if err := serve(ctx); !errors.Is(err, tenure.NotHeld) {
		t.Fatalf("the first ended as %v", err)
	}
	client = second
	going, stop := context.WithCancel(ctx)
	processNextOrder = func(_ context.Context, token uint64) {
		terms = append(terms, token)
		stop()
	}
	if err := serve(going); err != nil {
		t.Fatal(err)
	}
	if len(terms) != 2 || terms[0] >= terms[1] {
		t.Fatalf("the terms were %v", terms)
	}
}

func TestATaskIsDoneOnce(t *testing.T) {
	client = connect(t, "somebody")
	done := 0
	writeReport = func(context.Context, uint64) error {
		done++
		// Another is told to do it meanwhile.
		return nightlyReport(ctx)
	}
	if err := nightlyReport(ctx); err != nil || done != 1 {
		t.Fatalf("it was done %d times (%v)", done, err)
	}
}

func TestNoMoreThanThreeAtATime(t *testing.T) {
	client = connect(t, "somebody")
	var mu sync.Mutex
	var all sync.WaitGroup
	inside, most := 0, 0
	resized = func(_ context.Context, image string) (string, error) {
		mu.Lock()
		inside++
		most = max(most, inside)
		mu.Unlock()
		defer func() {
			mu.Lock()
			inside--
			mu.Unlock()
		}()
		return "small " + image, nil
	}
	for i := range 20 {
		all.Add(1)
		go func() {
			defer all.Done()
			if small, err := resize(ctx, fmt.Sprint(i)); err != nil || small != fmt.Sprint("small ", i) {
				t.Errorf("%s, %v", small, err)
			}
		}()
	}
	all.Wait()
	if most > 3 {
		t.Fatalf("%d at a time", most)
	}
}

func TestNoMoreThanThirtyCallsInAMinute(t *testing.T) {
	client = connect(t, "somebody")
	partnerAnswers = func(_ context.Context, request string) (string, error) { return "re: " + request, nil }
	for range 30 {
		if answer, err := callPartner(ctx, "hello"); err != nil || answer != "re: hello" {
			t.Fatal(answer, err)
		}
	}
	// The next one waits, for longer than this.
	short, end := context.WithTimeout(ctx, 50*time.Millisecond)
	defer end()
	if _, err := callPartner(short, "hello"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("the next ended as %v", err)
	}
}

func TestWhoCallsTooOftenIsRefused(t *testing.T) {
	client = connect(t, "somebody")
	var answers []int
	for len(answers) < 1000 && !slices.Contains(answers, 429) {
		answers = append(answers, handle(ctx, "alice"))
	}
	if len(answers) < 6 || answers[len(answers)-1] != 429 {
		t.Fatalf("answered %v", answers)
	}
	if handle(ctx, "bob") != 200 {
		t.Fatal("bob is refused for alice")
	}
}

func TestSeveralAreHadAtOnce(t *testing.T) {
	client = connect(t, "somebody")
	spec := &wire.PoolSpec{}
	for name, mem := range map[string]string{"a": "80", "b": "40", "c": "80"} {
		spec.Resources = append(spec.Resources, &wire.Resource{Name: name, Labels: map[string]string{"mem": mem}})
	}
	if _, err := client.SetPool(ctx, "gpus", spec); err != nil {
		t.Fatal(err)
	}
	var names []string
	trainOn = func(_ context.Context, gpus []*wire.Resource, _ uint64) error {
		for _, gpu := range gpus {
			names = append(names, gpu.GetName())
		}
		_, err := client.TryHold(ctx, "licences")
		if !errors.Is(err, tenure.Busy) {
			t.Errorf("the licence is free: %v", err)
		}
		return nil
	}
	if err := train(ctx); err != nil {
		t.Fatal(err)
	}
	if slices.Sort(names); !slices.Equal(names, []string{"a", "c"}) {
		t.Fatalf("it was given %v", names)
	}
}

func TestTheReadmeHasThesePrograms(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.ReadFile("everyday_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)<!-- runs -->\n```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(blocks) != 6 {
		t.Fatalf("it has %d programs", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(string(here), block[1]) {
			t.Errorf("this is not run:\n%s", block[1])
		}
	}
}

// connect starts a server of its own and connects to it. Both end with the test.
func connect(t *testing.T, holder string) *tenure.Client {
	t.Helper()
	address := server(t)
	client, err := tenure.Connect(ctx, tenure.Config{Address: address, Holder: holder})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close(ctx) })
	return client
}

var servers = map[*testing.T]string{}

// server is one for each test.
func server(t *testing.T) string {
	if address, ok := servers[t]; ok {
		return address
	}
	program := os.Getenv("TENURE_PROGRAM")
	if program == "" {
		t.Skip("TENURE_PROGRAM does not say where the server is")
	}
	serve := exec.Command(program, "serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--durability", "memory",
		"--data", t.TempDir())
	stdout, err := serve.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = serve.Process.Kill()
		_ = serve.Wait()
	})
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if told, ok := strings.CutPrefix(lines.Text(), "grpc "); ok {
			servers[t] = strings.TrimSpace(told)
			return servers[t]
		}
	}
	t.Fatal("the server ended before it said where it listens")
	return ""
}
