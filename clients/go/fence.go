package tenure

import (
	"fmt"
	"sync"
)

// Fence remembers the highest token that was shown for each thing, and refuses lower ones: a holder that was paused too
// long is turned away. It is for what lives in this process; what is shared needs its own, such as a column that only
// rises. The zero Fence is ready.
type Fence struct {
	mu   sync.Mutex
	seen map[string]*highest
}

type highest struct {
	mu    sync.Mutex
	token uint64
}

// StaleToken says that somebody has shown a higher token.
type StaleToken struct {
	Thing   string
	Token   uint64
	Highest uint64
}

func (s *StaleToken) Error() string {
	return fmt.Sprintf("token %d for `%s` is stale: %d was shown", s.Token, s.Thing, s.Highest)
}

// Check lets a token pass that is not lower than any before it. Show it when reading what will be written back, too.
func (f *Fence) Check(thing string, token uint64) error {
	return f.CheckAnd(thing, token, func() error { return nil })
}

// CheckAnd is Check and, if the token passes, do, as one step: nobody else passes for the same thing meanwhile. If do fails,
// the token was shown all the same.
func (f *Fence) CheckAnd(thing string, token uint64, do func() error) error {
	f.mu.Lock()
	if f.seen == nil {
		f.seen = map[string]*highest{}
	}
	seen := f.seen[thing]
	if seen == nil {
		seen = &highest{}
		f.seen[thing] = seen
	}
	f.mu.Unlock()
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if token < seen.token {
		return &StaleToken{Thing: thing, Token: token, Highest: seen.token}
	}
	seen.token = token
	return do()
}
