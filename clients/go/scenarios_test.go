package tenure

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

const (
	keyOfNobody     = "00000000-0000-4000-8000-000000000000"
	sessionOfNobody = "00000000-0000-4000-8000-000000000001"

	oneConnection   = "the client gives up a connection before it makes the next, so that a session never has two"
	asksAboutHolds  = "a client that comes back asks whether it still has what it held, which renews it"
	goesOnInAnother = "a client whose session has ended opens another and goes on in that"
)

// Claims that are not played, and why. `only:` in the files keeps others off every socket.
var leftOut = map[string]string{
	"curator 1121: after a reconnect the old and the new connection of a session do not both get the lock": oneConnection,
	"The old connection of a resumed session may be missed late without harm":                              oneConnection,
	"A waiter keeps its place though the old connection is missed only after the session was resumed":      oneConnection,
	"A restart neither shortens nor restarts the time of a session's hold":                                 asksAboutHolds,
	"A session's hold that has a time is still its session's after a restart":                              asksAboutHolds,
	"A hold that became a lease after a restart does not end with its session":                             asksAboutHolds,
	"A hold that became a lease is still what its request was granted":                                     asksAboutHolds,
	"A session that has ended cannot be resumed, and nothing can be done in it":                            goesOnInAnother,
	"A session that is ended refuses its waits at once":                                                    "a client that is closed ends its waits itself, with an error of its own",
	"A waiter whose connection is lost leaves the queue if it cannot say later which request it was":       "every request of the client has an id, so its wait keeps its place",
	"A waiter that comes back to a free pool is granted at once":                                           "a client that comes back makes its requests again by itself, before the operator can look",
	"Turns survive a restart":                       "a client that comes back makes all its requests again by itself, and not one of them",
	"A waiter that is away leaves with its session": "a client whose session has ended makes its requests again in the next, and hears what came of them",
}

// TestScenariosAreAsTheySay plays the project's scenario files through this client. The server is in the test that starts
// this, crates/cli/tests/go_client, because its clock is moved from here: a line of JSON on stdout asks for something, a
// line on stdin answers. TENURE_SCENARIOS is their folder, TENURE_SCENARIO may be words of a claim.
func TestScenariosAreAsTheySay(t *testing.T) {
	folder, wanted := os.Getenv("TENURE_SCENARIOS"), os.Getenv("TENURE_SCENARIO")
	if folder == "" {
		t.Skip("it is run by the project's own tests")
	}
	all, err := readScenarios(folder)
	must(t, err)
	theatre := &theatre{t: t, answers: bufio.NewReader(os.Stdin)}
	claims := map[string]bool{}
	for _, scenario := range all {
		claims[scenario.claim] = true
		if !strings.Contains(scenario.claim, wanted) {
			continue
		}
		name := scenario.topic + ": " + scenario.claim
		if scenario.only != nil && !slices.Contains(scenario.only, "grpc") {
			theatre.tell("left_out", map[string]any{"name": name, "why": scenario.why})
			continue
		}
		if why, ok := leftOut[scenario.claim]; ok && wanted == "" {
			theatre.tell("left_out", map[string]any{"name": name, "why": why})
			continue
		}
		page, err := play(t, theatre, scenario)
		var unknown *unknownWord
		switch {
		case errors.As(err, &unknown):
			// Newer than this runner. How many there may be is the test's business.
			theatre.tell("left_out", map[string]any{"name": name, "why": err.Error()})
		case page != "":
			theatre.tell("failed", map[string]any{"name": name, "why": page})
		default:
			theatre.tell("played", map[string]any{"name": name})
		}
	}
	for claim := range leftOut {
		if !claims[claim] {
			theatre.tell("failed", map[string]any{"name": claim, "why": "it is left out, and there is no such scenario: " + claim})
		}
	}
	theatre.tell("end", map[string]any{})
}

// theatre is the test that has the server.
type theatre struct {
	t       *testing.T
	answers *bufio.Reader
}

func (t *theatre) tell(what string, more map[string]any) {
	more["do"] = what
	line, err := json.Marshal(more)
	must(t.t, err)
	fmt.Println(string(line))
}

func (t *theatre) ask(what string, more map[string]any) map[string]any {
	t.tell(what, more)
	line, err := t.answers.ReadBytes('\n')
	must(t.t, err)
	var answer map[string]any
	must(t.t, json.Unmarshal(line, &answer))
	return answer
}

// call is an acquire that somebody waits with.
type call struct {
	request string
	// The client whose session it is made in, if one is carried by a stream.
	client *Client
	hangUp context.CancelFunc
	answer chan outcome
}

type actor struct {
	calls      []*call
	client     *Client
	door       *door
	holds      map[uint64]*Hold
	sessionKey string
	namespace  string
}

// isCarried says whether a connection carries its session.
func (a *actor) isCarried() bool { return a.client != nil && a.door != nil && a.door.isOpen() }

// scene is a server and its clients.
type scene struct {
	t       *testing.T
	ctx     context.Context
	theatre *theatre
	actors  map[string]*actor
	// Which waiter a request became: a call that joins it makes no new one.
	waiters   map[[2]string]uint64
	isRunning bool
	grpc      string
	face      *Client

	now  int
	keys map[uint64]*secret
	// What was fetched and not asked for yet, by actor.
	heard map[string][]outcome
}

// secret is a key, and who was given it.
type secret struct {
	key     string
	knowers []string
}

// play gives what is wrong, as a page for a person to read.
func play(t *testing.T, theatre *theatre, scenario *scenario) (string, error) {
	ctx, end := context.WithTimeout(context.Background(), 2*patience)
	defer end()
	limits := scenario.limits
	if limits == nil {
		limits = [][2]any{}
	}
	s := &scene{
		t: t, ctx: ctx, theatre: theatre, actors: map[string]*actor{}, waiters: map[[2]string]uint64{},
		keys: map[uint64]*secret{}, heard: map[string][]outcome{},
	}
	s.opens(theatre.ask("scenario", map[string]any{"limits": limits, "restarts": scenario.restarts()}))
	defer s.close()
	at, err := 0, error(nil)
	for at = range scenario.steps {
		if err = s.step(&scenario.steps[at]); err != nil {
			break
		}
	}
	if err == nil {
		err = s.nothingLeftOver()
	}
	if err == nil {
		return "", nil
	}
	page := fmt.Sprintf("%s.txt:%d: %s", scenario.topic, scenario.steps[at].line, scenario.claim)
	for i, step := range scenario.steps {
		mark := "   "
		if i == at {
			mark = ">>>"
		}
		page += "\n" + mark + " " + step.text
		if i == at {
			page += "\n      " + err.Error()
		}
	}
	return page, err
}

func (s *scene) step(it *step) error {
	if err := s.passTime(it.at); err != nil {
		return err
	}
	if it.hears {
		return s.hear(it)
	}
	outcome, err := s.act(it, s.keyOf)
	if err != nil {
		return err
	}
	s.settle()
	if err := s.learn(it.actor, outcome); err != nil {
		return err
	}
	if it.expected != nil && !it.expected.matches(outcome) {
		return fmt.Errorf("expected: %s\n      actual:   %s", it.expected, outcome)
	}
	return nil
}

// passTime is second by second, as it passes for a real server; the last millisecond alone.
func (s *scene) passTime(to int) error {
	if to == s.now {
		return nil
	}
	if err := s.nothingLeftOver(); err != nil {
		return err
	}
	for s.now+1 < to {
		s.now = min((s.now/1000+1)*1000, to-1)
		s.theatre.ask("clock", map[string]any{"to": s.now})
		if err := s.nothingLeftOver(); err != nil {
			return err
		}
	}
	s.now = to
	s.theatre.ask("clock", map[string]any{"to": to})
	return nil
}

func (s *scene) hear(it *step) error {
	for {
		for i, outcome := range s.heard[it.actor] {
			if it.expected.matches(outcome) {
				s.heard[it.actor] = slices.Delete(s.heard[it.actor], i, i+1)
				return nil
			}
		}
		late, ok := s.late(it.actor)
		if !ok {
			return fmt.Errorf("expected: %s\n      actual:   %v", it.expected, s.heard[it.actor])
		}
		if err := s.learn(it.actor, late); err != nil {
			return err
		}
		s.heard[it.actor] = append(s.heard[it.actor], late)
	}
}

func (s *scene) nothingLeftOver() error {
	left := ""
	for name, outcomes := range s.heard {
		for _, outcome := range outcomes {
			left += fmt.Sprintf("\n      %s <- %s", name, outcome)
		}
	}
	s.heard = map[string][]outcome{}
	for name, own := range s.actors {
		if len(own.calls) > 0 {
			s.roundTrip(own)
		}
		for _, it := range slices.Clone(own.calls) {
			if outcome, ok := it.done(); ok {
				own.remove(it)
				left += fmt.Sprintf("\n      %s <- %s", name, outcome)
			}
		}
	}
	if left != "" {
		return fmt.Errorf("by %s, not listed in the scenario:%s", durationText(int64(s.now)), left)
	}
	return nil
}

// learn: one token, one key; whoever is told again is told the same.
func (s *scene) learn(actor string, outcome outcome) error {
	if outcome.key == "" {
		return nil
	}
	var token uint64
	if _, err := fmt.Sscan(outcome.fields["token"], &token); err != nil {
		return err
	}
	for other, secret := range s.keys {
		if (secret.key == outcome.key) != (other == token) {
			return fmt.Errorf("token %d came with the key of another, or with another key than before", token)
		}
	}
	if s.keys[token] == nil {
		s.keys[token] = &secret{key: outcome.key}
	}
	s.keys[token].knowers = append(s.keys[token].knowers, actor)
	return nil
}

func (s *scene) keyOf(token *uint64, actor string) string {
	if token == nil {
		return keyOfNobody
	}
	if known := s.keys[*token]; known != nil && slices.Contains(known.knowers, actor) {
		return known.key
	}
	s.t.Fatalf("%s was never granted token %d", actor, *token)
	return ""
}
