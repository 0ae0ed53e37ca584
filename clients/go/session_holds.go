package tenure

import (
	"time"

	"tenure.dev/go/wire"
)

// holdID names a hold: its token, and the acquire it came from. The same hold can be granted to two acquires that share a
// request id.
type holdID struct {
	token uint64
	ask   uint64
}

// heldHold is a hold as the session looks after it.
type heldHold struct {
	key      string
	lifetime wire.Lifetime
	// 0 if it does not end by time.
	length time.Duration
	// Until when it is certainly ours by its length, whatever becomes of the session.
	timedUntil moment
	renewAt    moment
	// A renewal is on its way.
	renewing bool
	standing *standing
	due      moment
}

// renewedFor is how long a renewal lasts; 0 if there is nothing to renew.
func (h *heldHold) renewedFor() time.Duration {
	if h.lifetime == wire.Lifetime_LIFETIME_WINDOW {
		return 0
	}
	return h.length
}

func (s *session) granted(at moment, id uint64, acquire *request, grant *wire.Grant) {
	// Under an id that others may have, it may be older than what was said here.
	var asked moment
	if acquire.ask.ownID {
		asked = acquire.firstSaid
	}
	timedUntil := s.timedUntil(at, asked, grant)
	until := s.certainUntil(at, grant.GetLifetime(), timedUntil)
	// Granted while nobody could be told, and over by now. Handing it out would be no use to anybody.
	if until != 0 && until <= at && mayDoBetter(at, acquire, grant) {
		acquire.grantsOver++
		s.askAnew(id, acquire)
		return
	}
	hold := &heldHold{
		key:        grant.GetKey(),
		lifetime:   grant.GetLifetime(),
		timedUntil: timedUntil,
		standing:   newStanding(grant, until, acquire.ask.context),
	}
	if grant.TtlMs != nil {
		hold.length = milliseconds(grant.GetTtlMs())
	}
	holdID := holdID{token: grant.GetToken(), ask: id}
	s.holds[holdID] = hold
	s.byToken[holdID.token] = append(s.byToken[holdID.token], holdID)
	if length := hold.renewedFor(); timedUntil != 0 && length != 0 {
		hold.renewAt = max(at, timedUntil-moment(length)*2/3)
		s.pingFor(at, length)
	}
	s.scheduleHold(holdID, hold)
	acquire.ask.answer(&granted{id: holdID, grant: grant, standing: hold.standing}, nil)
}

// timedUntil is until when a grant is certainly ours by its length, counted from before it was asked for or, if it was
// waited for, by the server's deadline on the server's clock. None if it does not end by time.
func (s *session) timedUntil(at, asked moment, grant *wire.Grant) moment {
	if grant.TtlMs == nil {
		return 0
	}
	var known moment
	if asked != 0 {
		known = certain(asked, milliseconds(grant.GetTtlMs()))
	}
	if s.serverTime != nil && grant.DeadlineMs != nil {
		if before, ok := s.serverTime.before(grant.GetDeadlineMs()); ok {
			known = max(known, before)
		}
	}
	if known == 0 {
		return at
	}
	return known
}

// certainUntil is until when a hold is certainly ours: by its length, and if it ends with the session, no longer than that.
func (s *session) certainUntil(at moment, lifetime wire.Lifetime, timedUntil moment) moment {
	if lifetime != wire.Lifetime_LIFETIME_SESSION {
		return timedUntil
	}
	if s.certain == 0 {
		return earliest(timedUntil, at)
	}
	return earliest(timedUntil, s.certain)
}

// mayDoBetter says whether another grant instead of this one, which is over, may be of use. Not if nothing can be certain
// that is so short: each place in a short rate window would be used up for nothing.
func mayDoBetter(at moment, acquire *request, grant *wire.Grant) bool {
	canBeCertain := grant.TtlMs == nil || certain(at, milliseconds(grant.GetTtlMs())) > at
	often := !acquire.mayHaveHappened && acquire.grantsOver >= grantsOverMax
	return acquire.ask.ownID && canBeCertain && !often
}

func (s *session) scheduleHold(id holdID, hold *heldHold) {
	hold.due = 0
	// That the session may be over is looked after for all at once.
	if !hold.standing.isLost() {
		hold.due = earliest(hold.timedUntil, hold.renewAt)
	}
	if hold.due != 0 {
		s.putInAgenda(entry{at: hold.due, hold: id})
	}
}

func (s *session) holdDue(at moment, id holdID) {
	hold := s.holds[id]
	switch {
	case hold.timedUntil != 0 && hold.timedUntil <= at:
		hold.standing.lose(at, hold.standing.lostByTime(), "")
	case hold.renewAt != 0 && hold.renewAt <= at:
		hold.renewAt = 0
		// Without a connection it is renewed as soon as there is one.
		if s.open != nil && !hold.renewing {
			hold.renewing = true
			s.request(&request{kind: kindRenew, hold: id, key: hold.key})
		}
	}
	s.scheduleHold(id, hold)
}

// askAboutHolds after a reconnect: what was lost meanwhile was told to nobody. A renewal tells, also of what cannot be
// renewed.
func (s *session) askAboutHolds() {
	for id, hold := range s.holds {
		if hold.standing.isLost() {
			continue
		}
		hold.renewing, hold.renewAt = true, 0
		s.scheduleHold(id, hold)
		s.request(&request{kind: kindRenew, hold: id, key: hold.key})
	}
}

func (s *session) renewed(at moment, id holdID, said moment, renewed *wire.Renewed) {
	hold := s.holds[id]
	if hold == nil {
		return
	}
	hold.renewing = false
	if hold.standing.isLost() {
		return
	}
	// Without a time it could not be renewed: while we were away somebody with its key has made it a lease.
	if hold.length == 0 {
		hold.lifetime = wire.Lifetime_LIFETIME_LEASED
	}
	hold.length = milliseconds(renewed.GetTtlMs())
	hold.timedUntil = certain(said, hold.length)
	hold.renewAt = max(at, hold.timedUntil-moment(hold.length)*2/3)
	hold.standing.setUntil(s.certainUntil(at, hold.lifetime, hold.timedUntil))
	s.scheduleHold(id, hold)
}

func (s *session) notRenewed(at moment, id holdID, refusal *wire.Refusal) {
	hold := s.holds[id]
	if hold == nil {
		return
	}
	hold.renewing = false
	switch {
	case refusal.GetCode() == "not_held":
		hold.standing.lose(at, LostReleased, "")
	case refusal.GetCode() == "not_renewable":
		// It is there, and that was the question.
	case hasNoTime(refusal) && hold.length != 0:
		hold.renewAt = at.plus(min(max(hold.length/10, renewAgainMin), renewAgainMax))
	default:
		hold.renewAt = at.plus(renewAgainMax)
	}
	s.scheduleHold(id, hold)
}

func (s *session) holdLost(at moment, lost *wire.HoldLost) {
	reason := LostOther
	switch lost.GetHow() {
	case wire.How_HOW_EXPIRED:
		reason = LostExpired
	case wire.How_HOW_FORCED:
		reason = LostForced
	case wire.How_HOW_OWNER_GONE:
		reason = LostOwnerGone
	case wire.How_HOW_SESSION_ENDED:
		reason = LostSessionEnded
	case wire.How_HOW_RELEASED:
		reason = LostReleased
	}
	for _, id := range s.byToken[lost.GetToken()] {
		hold := s.holds[id]
		hold.standing.lose(at, reason, lost.GetNote())
		hold.due = 0
	}
}

func (s *session) loseAllOfSession(at moment, reason LostReason) {
	for _, hold := range s.holds {
		if hold.lifetime == wire.Lifetime_LIFETIME_SESSION {
			hold.standing.lose(at, reason, "")
			hold.due = 0
		}
	}
}

// release: whoever still listens hears the reason.
func (s *session) release(at moment, id holdID, done func(error), reason LostReason) {
	answer := func(err error) {
		if done != nil {
			done(err)
		}
	}
	hold := s.takeHold(id)
	if hold == nil {
		// Closing has released it.
		answer(nil)
		return
	}
	lost := hold.standing.told()
	hold.standing.lose(at, reason, "")
	switch {
	case hold.lifetime == wire.Lifetime_LIFETIME_WINDOW:
		answer(nil)
	case lost == nil || lost.Reason == LostUnreachable:
		// It may be there all the same.
		release := &request{kind: kindRelease, key: hold.key, done: done}
		if done != nil {
			release.giveUp = at.plus(callPatience)
		}
		s.request(release)
	default:
		answer(lost)
	}
}

// letGo looks after it no more.
func (s *session) letGo(id holdID) {
	if hold := s.takeHold(id); hold != nil {
		hold.standing.lose(0, LostLetGo, "")
	}
}

func (s *session) takeHold(id holdID) *heldHold {
	hold := s.holds[id]
	if hold == nil {
		return nil
	}
	delete(s.holds, id)
	var others []holdID
	for _, other := range s.byToken[id.token] {
		if other != id {
			others = append(others, other)
		}
	}
	if len(others) == 0 {
		delete(s.byToken, id.token)
	} else {
		s.byToken[id.token] = others
	}
	return hold
}
