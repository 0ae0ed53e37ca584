package tenure

import (
	"errors"
	"fmt"

	"tenure.dev/go/wire"
)

// Error is what every error of this package is, besides those of a context that has ended.
//
//	var failure tenure.Error
//	if errors.As(err, &failure) && failure.Retry() { … }
type Error interface {
	error
	// Code is a stable name for programs: that of the refusal, or Unreachable's and its like.
	Code() Code
	// Retry says whether the same may succeed later.
	Retry() bool
	// MayHaveHappened says whether what was asked may have taken effect all the same. An acquire that failed so is
	// withdrawn as soon as the server can be reached.
	MayHaveHappened() bool
}

// Code is a stable name for why something was not done. It can be compared with any error of this package:
//
//	if errors.Is(err, tenure.Busy) { … }
type Code string

// Codes that programs often ask for; docs/api.md lists all that a server refuses with.
const (
	// Busy: there is no room, and it was not to be waited for.
	Busy Code = "busy"
	// TimedOut: there was no room for as long as Wait said.
	TimedOut Code = "timed_out"
	// Deadlock: the wait could never end, because others wait for what the holder has. Refused.Cycle says who for whom.
	Deadlock Code = "deadlock"
	// NotHeld: the hold is over.
	NotHeld Code = "not_held"
	// UnknownPool: there is no such pool, and it cannot come to be by itself.
	UnknownPool Code = "unknown_pool"
	// EventsGone: those events are no longer kept.
	EventsGone Code = "events_gone"
	// Closed: the client was closed.
	Closed Code = "closed"
)

func (c Code) Error() string { return string(c) }

// Refused says that the server would not do it, and why.
type Refused struct {
	// Refusal is all that the server says about it.
	Refusal *wire.Refusal
}

func (r *Refused) Error() string {
	if r.Refusal.GetMessage() == "" {
		return r.Refusal.GetCode()
	}
	return r.Refusal.GetMessage()
}

// Code is the reason, such as Busy.
func (r *Refused) Code() Code { return Code(r.Refusal.GetCode()) }

// Retry says whether the same may succeed later.
func (r *Refused) Retry() bool { return r.Refusal.GetRetry() }

// MayHaveHappened is false unless the server itself does not know.
func (r *Refused) MayHaveHappened() bool { return r.Refusal.GetMayHaveHappened() }

// Advice says what to do now.
func (r *Refused) Advice() string { return r.Refusal.GetAdvice() }

// Holders are those in the way, the longest there first, if it is for lack of room.
func (r *Refused) Holders() []*wire.Hold { return r.Refusal.GetHolders() }

// Cycle is who waits for whom if it is for a Deadlock, from the one who asked on; the last waits for the first.
func (r *Refused) Cycle() []*wire.Blocked { return r.Refusal.GetCycle() }

// Is makes errors.Is(err, tenure.Busy) true of a refusal with that code.
func (r *Refused) Is(target error) bool { return isCode(r, target) }

// LostReason says how a hold was lost.
type LostReason string

// How a hold can be lost.
const (
	LostExpired      LostReason = "its time ran out"
	LostForced       LostReason = "an operator ended it"
	LostSessionEnded LostReason = "its session is over"
	LostOwnerGone    LostReason = "its owner is gone"
	LostReleased     LostReason = "somebody else released it"
	// LostLetGo: released or kept by its holder. Nobody took it away.
	LostLetGo LostReason = "it was let go"
	// LostUnreachable: it may be there, or somebody else's.
	LostUnreachable LostReason = "the server could not be reached in time"
	LostClosed      LostReason = "the client was closed"
	// LostOther: in a way that this client does not know. The server is newer.
	LostOther LostReason = "the server ended it"
)

// HoldLost says that a hold is over: stop using what it protected.
type HoldLost struct {
	Pool  string
	Token uint64
	// Reason says how it was lost.
	Reason LostReason
	// Note is what the operator said who ended it.
	Note string
}

func (l *HoldLost) Error() string {
	if l.Note != "" {
		return fmt.Sprintf("pool `%s` is no longer held: %s: %s", l.Pool, l.Reason, l.Note)
	}
	return fmt.Sprintf("pool `%s` is no longer held: %s", l.Pool, l.Reason)
}

// Code is NotHeld.
func (l *HoldLost) Code() Code { return NotHeld }

// Retry is false: another hold is another hold.
func (l *HoldLost) Retry() bool { return false }

// MayHaveHappened is false.
func (l *HoldLost) MayHaveHappened() bool { return false }

// Is makes errors.Is(err, tenure.NotHeld) true.
func (l *HoldLost) Is(target error) bool { return isCode(l, target) }

// Unreachable says that nobody answered, or not in time.
type Unreachable struct {
	Address string
	Why     string
}

func (u *Unreachable) Error() string {
	return fmt.Sprintf("no server can be reached at %s: %s", u.Address, u.Why)
}

// Code is `unreachable`.
func (u *Unreachable) Code() Code { return "unreachable" }

// Retry is true: a server that is away is expected to come back.
func (u *Unreachable) Retry() bool { return true }

// MayHaveHappened is true: the answer may have been lost, and not the request.
func (u *Unreachable) MayHaveHappened() bool { return true }

// Is makes it comparable with a Code.
func (u *Unreachable) Is(target error) bool { return isCode(u, target) }

// ForeignServer says that something else listens there, or a server of another version.
type ForeignServer struct {
	Address string
	Why     string
}

func (f *ForeignServer) Error() string {
	return fmt.Sprintf("what answers at %s is not a Tenure server of this version: %s", f.Address, f.Why)
}

// Code is `foreign_server`.
func (f *ForeignServer) Code() Code { return "foreign_server" }

// Retry is false.
func (f *ForeignServer) Retry() bool { return false }

// MayHaveHappened is false.
func (f *ForeignServer) MayHaveHappened() bool { return false }

// Is makes it comparable with a Code.
func (f *ForeignServer) Is(target error) bool { return isCode(f, target) }

// Unauthenticated says that the server wants a password, or another one.
type Unauthenticated struct {
	Address string
	Why     string
}

func (u *Unauthenticated) Error() string {
	return fmt.Sprintf("the server at %s does not let us in: %s", u.Address, u.Why)
}

// Code is `unauthenticated`.
func (u *Unauthenticated) Code() Code { return "unauthenticated" }

// Retry is false.
func (u *Unauthenticated) Retry() bool { return false }

// MayHaveHappened is false.
func (u *Unauthenticated) MayHaveHappened() bool { return false }

// Is makes it comparable with a Code.
func (u *Unauthenticated) Is(target error) bool { return isCode(u, target) }

// Unusable says that the address, the password, the certificates or the options are not what they should be. Nothing was
// sent.
type Unusable struct {
	Why string
}

func (u *Unusable) Error() string { return "this cannot be used: " + u.Why }

// Code is `unusable`.
func (u *Unusable) Code() Code { return "unusable" }

// Retry is false.
func (u *Unusable) Retry() bool { return false }

// MayHaveHappened is false.
func (u *Unusable) MayHaveHappened() bool { return false }

// Is makes it comparable with a Code.
func (u *Unusable) Is(target error) bool { return isCode(u, target) }

type closedError struct{}

func (closedError) Error() string          { return "the client is closed" }
func (closedError) Code() Code             { return Closed }
func (closedError) Retry() bool            { return false }
func (closedError) MayHaveHappened() bool  { return false }
func (c closedError) Is(target error) bool { return isCode(c, target) }

func isCode(err Error, target error) bool {
	var code Code
	return errors.As(target, &code) && code == err.Code()
}

// hasNoTime says of a refusal that nothing is wrong with the request: asked again, it may well be answered.
func hasNoTime(refusal *wire.Refusal) bool {
	switch refusal.GetCode() {
	case "stopping", "overloaded", "lost":
		return true
	}
	return false
}
