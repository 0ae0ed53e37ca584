package tenure

import (
	"crypto/rand"
	"encoding/hex"
	mathrand "math/rand/v2"
	"time"
)

// moment is a point in time on a clock that only this process knows, and that nobody sets. 0 is none.
type moment time.Duration

const (
	// The server counts in whole milliseconds and gives commands that it stores together one time, so that a lease may end
	// two milliseconds before it was asked for; and our own timer wakes up late.
	rounding = 5 * time.Millisecond
	// Two clocks may run at different speeds. One part in this many is more than any that is kept in step differs.
	driftPart = 1000
	// The clock is looked at at least this often: timers stand still while the host sleeps, and would notice only that much
	// later.
	napMax = time.Second
)

func (m moment) plus(d time.Duration) moment      { return m + moment(d) }
func (m moment) since(other moment) time.Duration { return time.Duration(m - other) }

// certain is until when something is certainly there that lasts for length and began no earlier than since.
func certain(since moment, length time.Duration) moment {
	return since.plus(max(0, length-length/driftPart-rounding))
}

// earliest is the first of those that are not none.
func earliest(moments ...moment) moment {
	var first moment
	for _, m := range moments {
		if m != 0 && (first == 0 || m < first) {
			first = m
		}
	}
	return first
}

// serverTime is the server's clock against ours: it said atMS no earlier than asked.
type serverTime struct {
	asked moment
	atMS  uint64
}

// before is a moment of ours that is certainly not after the server's deadline.
func (t serverTime) before(deadlineMS uint64) (moment, bool) {
	if deadlineMS < t.atMS {
		return 0, false
	}
	return certain(t.asked, milliseconds(deadlineMS-t.atMS)), true
}

// orSharper is whichever of the two lets a deadline be relied upon for longer. A newer answer that took long, because the
// server was paused or the network was, says less than an older one that came at once.
func (t serverTime) orSharper(newer serverTime) serverTime {
	if before, ok := t.before(newer.atMS); ok && before > newer.asked {
		return t
	}
	return newer
}

// pause is how long to pause after so many failures in a row: doubling, and a random half of it less, so that many clients
// do not come back at the same moment.
func pause(failures int, first, most time.Duration) time.Duration {
	whole := most
	if shift := max(failures-1, 0); shift < 20 {
		whole = min(first<<shift, most)
	}
	return whole - time.Duration(mathrand.Int64N(int64(whole)/2+1))
}

// randomID is 128 random bits as text: an id for a request. It is as good as a key to whoever knows it.
func randomID() string {
	var bits [16]byte
	// It never fails.
	_, _ = rand.Read(bits[:])
	return hex.EncodeToString(bits[:])
}

// longest is far beyond what the server takes for a duration, and within what Go has room for.
const longest = uint64(1<<63-1) / uint64(time.Millisecond)

func milliseconds(ms uint64) time.Duration {
	return time.Duration(min(ms, longest)) * time.Millisecond
}

// inMS is a duration as the wire has it. What is less than a millisecond and not nothing is one.
func inMS(d time.Duration) uint64 {
	if d <= 0 {
		return 0
	}
	return uint64((d-1)/time.Millisecond) + 1
}
