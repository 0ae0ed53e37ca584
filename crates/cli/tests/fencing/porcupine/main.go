// Whether histories of a lock are linearizable, by Porcupine. It reads them as JSON and says of each, in a line, whether it is right or
// wrong.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

const patience = 5 * time.Minute

// History is what was asked of the lock, and heard. Times are in nanoseconds, of one clock.
type History struct {
	// Slack is how much earlier than its length a lease may end.
	Slack      int64       `json:"slack"`
	Operations []Operation `json:"operations"`
}

// Operation is one of granted, renewed, released and not_held.
type Operation struct {
	What   string `json:"what"`
	Token  uint64 `json:"token"`
	Lease  int64  `json:"lease"`
	Called int64  `json:"called"`
	// Answered is nil if nobody knows whether it took effect.
	Answered *int64 `json:"answered"`
}

// step is what the model is asked to do.
type step struct {
	Operation
	// number of the operation, or of the one whose lease ends.
	number int
	// before is the token that was granted before this one.
	before uint64
}

const (
	leaseEnds = "lease ends"
	// finish comes after all that is known: whatever comes then is of no interest.
	finish = "finish"
)

// lock is as it should be.
type lock struct {
	held bool
	// token was granted last.
	token uint64
	// lease that runs, by the operation that began it.
	lease int
	over  bool
}

func (it lock) holds(token uint64) bool { return it.held && it.token == token }

// gone says that a token was held and is not any more.
func (it lock) gone(token uint64) bool {
	return it.over || it.token > token || it.token == token && !it.held
}

func (it lock) step(next step) (bool, lock) {
	free := lock{token: it.token}
	kept := lock{held: true, token: it.token, lease: next.number}
	isKnown := next.Answered != nil
	switch next.What {
	case "granted":
		return !it.held && it.token == next.before && next.Token > it.token, lock{held: true, token: next.Token, lease: next.number}
	case "renewed":
		if it.holds(next.Token) {
			return true, kept
		}
		return !isKnown && it.gone(next.Token), it
	case "released":
		if it.holds(next.Token) {
			return true, free
		}
		return !isKnown && it.gone(next.Token), it
	case "not_held":
		return !it.holds(next.Token), it
	case leaseEnds:
		if it.holds(next.Token) && it.lease == next.number {
			return true, free
		}
		return it.gone(next.Token), it
	case finish:
		return true, lock{token: it.token, over: true}
	}
	panic("nobody knows " + next.What)
}

var model = porcupine.Model{
	Init: func() interface{} { return lock{} },
	Step: func(state, input, _ interface{}) (bool, interface{}) { return state.(lock).step(input.(step)) },
}

// checked gives what Porcupine is to put in order. It wants an answer to everything. What has none, and the end of a lease, has one when its
// token is known to be gone: from then on it would change nothing. It is left out if it begins only after that.
func (history History) checked() []porcupine.Operation {
	var end int64
	granted := map[uint64]int64{}
	for _, it := range history.Operations {
		end = max(end, it.Called+it.Lease)
		if it.Answered != nil {
			end = max(end, *it.Answered)
		}
		if it.What == "granted" {
			granted[it.Token] = *it.Answered
		}
	}
	gone := map[uint64]int64{}
	isGone := func(token uint64, at int64) {
		if known, is := gone[token]; !is || at < known {
			gone[token] = at
		}
	}
	before := map[uint64]uint64{}
	for _, it := range history.Operations {
		switch {
		case it.Answered == nil:
		case it.What == "released":
			isGone(it.Token, *it.Answered)
		case it.What == "not_held":
			if since, is := granted[it.Token]; is && it.Called > since {
				isGone(it.Token, *it.Answered)
			}
		case it.What == "granted":
			for token := range granted {
				if token < it.Token {
					isGone(token, *it.Answered)
					before[it.Token] = max(before[it.Token], token)
				}
			}
		}
	}
	checked := []porcupine.Operation{{Input: step{Operation: Operation{What: finish}}, Call: end + 1, Return: end + 2}}
	add := func(it step) {
		answered, isKnown := gone[it.Token]
		switch {
		case it.Answered != nil:
			answered = *it.Answered
		case !isKnown:
			answered = end + 3
		case it.Called > answered:
			return
		}
		checked = append(checked, porcupine.Operation{Input: it, Call: it.Called, Return: answered})
	}
	for number, it := range history.Operations {
		add(step{Operation: it, number: number, before: before[it.Token]})
		if it.What == "granted" || it.What == "renewed" {
			called := it.Called + max(it.Lease-history.Slack, 0)
			add(step{Operation: Operation{What: leaseEnds, Token: it.Token, Called: called}, number: number})
		}
	}
	return checked
}

func main() {
	input := json.NewDecoder(os.Stdin)
	input.DisallowUnknownFields()
	for {
		var history History
		switch err := input.Decode(&history); err {
		case nil:
		case io.EOF:
			return
		default:
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		switch found := porcupine.CheckOperationsTimeout(model, history.checked(), patience); found {
		case porcupine.Ok:
			fmt.Println("right")
		case porcupine.Illegal:
			fmt.Println("wrong")
		default:
			fmt.Fprintln(os.Stderr, found, "after", patience)
			os.Exit(1)
		}
	}
}
