package tenure

import (
	"fmt"
	"strings"

	"tenure.dev/go/wire"
)

// What the operators of a scenario do and ask.

// operate is what an operator does or asks.
func (s *scene) operate(verb string, a *arguments) outcome {
	api, ctx, namespace := s.api(), s.ctx, a.namespace()
	switch verb {
	case "force-release":
		released, err := api.ForceRelease(ctx, &wire.ForceReleaseRequest{
			Namespace: namespace, Pool: a.word(), Holder: a.must("holder"), Token: *a.token(), Reason: a.must("reason"),
		})
		return told(err, func() outcome { return releasedWords(released.GetToken()) })
	case "owner-gone":
		gone, err := api.OwnerGone(ctx, &wire.OwnerGoneRequest{Namespace: namespace, Owner: a.must("owner")})
		return told(err, func() outcome { return words("done", "holds", gone.GetHolds()) })
	case "pool":
		return s.pool(a)
	case "drain", "quarantine", "return":
		state := map[string]wire.ConditionState{
			"drain":      wire.ConditionState_CONDITION_STATE_DRAINED,
			"quarantine": wire.ConditionState_CONDITION_STATE_QUARANTINED,
			"return":     wire.ConditionState_CONDITION_STATE_IN_SERVICE,
		}[verb]
		request := &wire.SetConditionRequest{
			Namespace: namespace, Pool: a.word(), Resource: a.text("resource"),
			Condition: &wire.Condition{State: state, Note: a.text("note")}, LastsMs: a.duration("for"),
		}
		if was := a.must("state-was"); was != "" {
			request.StateWas = wire.ConditionState(wire.ConditionState_value["CONDITION_STATE_"+constant(was)])
		}
		_, err := api.SetCondition(ctx, request)
		return told(err, func() outcome { return outcome{word: "done"} })
	case "show":
		detail, err := api.GetPool(ctx, &wire.GetPoolRequest{Namespace: namespace, Pool: a.word()})
		return told(err, func() outcome {
			if name := a.text("resource"); name != nil {
				return resourceWords(detail, *name)
			}
			return poolWords(detail)
		})
	case "queue":
		queue, err := api.ListQueue(ctx, &wire.ListQueueRequest{Namespace: namespace, Pool: a.word()})
		return told(err, func() outcome {
			var all, numbers, away, also []string
			for i, waiter := range queue.GetWaiters() {
				all = append(all, waiter.GetHolder())
				numbers = append(numbers, fmt.Sprint(waiter.GetWaiter()))
				for _, part := range waiter.GetAlso() {
					if i == 0 {
						also = append(also, wantedWord(part))
					}
				}
				if waiter.Position == nil {
					away = append(away, waiter.GetHolder())
				}
			}
			return words("shown", "order", all, "numbers", numbers, "away", away, "also", also)
		})
	case "holds":
		holds, err := api.ListHolds(ctx, &wire.ListHoldsRequest{
			Namespace: namespace, Pool: a.text("pool"), Holder: a.text("holder"),
		})
		return told(err, func() outcome {
			shown := words("shown")
			holdersWords(shown, holds.GetHolds())
			if len(holds.GetHolds()) > 0 {
				first := holds.GetHolds()[0]
				var also []string
				for _, part := range first.GetAlso() {
					also = append(also, fmt.Sprintf("%s:%d", part.GetPool(), part.GetUnits()))
				}
				shown.add("units", first.GetUnits(), "lifetime", first.GetLifetime(), "resources", first.GetResources(),
					"also", also)
			}
			return shown
		})
	case "ls":
		pools, err := api.ListPools(ctx, &wire.ListPoolsRequest{Namespace: namespace, Prefix: a.must("prefix")})
		return told(err, func() outcome {
			var names []string
			for _, pool := range pools.GetPools() {
				names = append(names, pool.GetPool())
			}
			return words("shown", "pools", names)
		})
	case "sessions":
		listed, err := api.ListSessions(ctx, &wire.ListSessionsRequest{Namespace: namespace})
		return told(err, func() outcome { return sessionsWords(listed.GetSessions()) })
	case "history":
		return s.history(a)
	}
	return s.intervene(verb, a)
}

// intervene is what an operator does to those who hold, wait or are to come.
func (s *scene) intervene(verb string, a *arguments) outcome {
	api, ctx, namespace, pool := s.api(), s.ctx, a.namespace(), a.word()
	done := func() outcome { return outcome{word: "done"} }
	switch verb {
	case "steal":
		request := &wire.StealRequest{
			Namespace: namespace, Pool: pool, Holder: a.must("holder"), Token: *a.token(), To: a.must("to"),
			TtlMs: a.duration("ttl"), RequestId: a.text("request"), Reason: a.must("reason"),
		}
		if a.flag("kept") {
			request.Lifetime = wire.Lifetime_LIFETIME_KEPT
		}
		grant, err := api.Steal(ctx, request)
		return told(err, func() outcome { return grantedWords(grant) })
	case "move":
		_, err := api.MoveWaiter(ctx, &wire.MoveWaiterRequest{
			Namespace: namespace, Pool: pool, Waiter: *a.counted("waiter"), Holder: a.must("holder"),
			Before: a.counted("before"), Reason: a.must("reason"),
		})
		return told(err, done)
	case "reserve":
		_, err := api.Reserve(ctx, &wire.ReserveRequest{
			Namespace: namespace, Pool: pool, Resource: a.must("resource"), Holder: a.must("holder"),
			LastsMs: a.duration("for"), InsteadOf: a.text("instead-of"), Reason: a.must("reason"),
		})
		return told(err, done)
	case "unreserve":
		_, err := api.Unreserve(ctx, &wire.UnreserveRequest{
			Namespace: namespace, Pool: pool, Resource: a.must("resource"), Holder: a.must("holder"), Reason: a.must("reason"),
		})
		return told(err, done)
	case "explain":
		explained, err := api.Explain(ctx, &wire.ExplainRequest{
			Namespace: namespace, Pool: pool, Waiter: a.counted("waiter"), RequestId: a.text("request"),
		})
		return told(err, func() outcome { return explainedWords(explained) })
	}
	panic("`" + verb + "` is not a verb that this runner knows")
}

func (s *scene) pool(a *arguments) outcome {
	verb, name := a.word(), a.word()
	if verb == "rm" {
		removed, err := s.api().RemovePool(s.ctx, &wire.RemovePoolRequest{Namespace: a.namespace(), Pool: name})
		return told(err, func() outcome { return words("done", "holds-left", removed.GetHoldsLeft()) })
	}
	spec := &wire.PoolSpec{Units: a.number("units"), WindowMs: a.duration("window"), Cleaning: a.flag("cleaning")}
	if by := a.must("fair"); by != "" {
		spec.Fair = &wire.FairShare{By: by, Weights: map[string]uint32{}}
		for _, pair := range strings.Fields(a.must("weights")) {
			group, weight, _ := strings.Cut(pair, "=")
			spec.Fair.Weights[group] = count(weight)
		}
	}
	if place, order := a.text("place-by"), a.text("order-by"); place != nil || order != nil {
		spec.Scripts = &wire.Scripts{Place: place, Order: order}
	}
	for _, text := range a.named["resource"] {
		spec.Resources = append(spec.Resources, described(text))
	}
	if placement, label, _ := strings.Cut(a.must("placement"), ":"); placement != "" {
		spec.Placement = wire.Placement(wire.Placement_value["PLACEMENT_"+constant(placement)])
		if label != "" {
			spec.SpreadLabel = &label
		}
	}
	if order := a.must("order"); order != "" {
		spec.Order = wire.Order(wire.Order_value["ORDER_"+constant(order)])
	}
	request := &wire.SetPoolRequest{Namespace: a.namespace(), Pool: name, Spec: spec, SizeWas: a.number("size-was")}
	set, err := s.api().SetPool(s.ctx, request)
	return told(err, func() outcome { return words("done", "created", set.GetCreated()) })
}

func (s *scene) history(a *arguments) outcome {
	request := &wire.HistoryRequest{Namespace: a.namespace(), Pool: a.text("pool"), Holder: a.text("holder")}
	var names []string
	note := "none"
	for {
		page, err := s.api().History(s.ctx, request)
		if err != nil {
			return failedWords(err)
		}
		for _, event := range page.GetEvents() {
			kind := enumWord(event.GetKind())
			if event.GetHow() != wire.How_HOW_UNSPECIFIED {
				kind += ":" + enumWord(event.GetHow())
			}
			names = append(names, kind)
			if event.Note != nil {
				note = event.GetNote()
			}
		}
		if page.GetDone() {
			return words("shown", "events", names, "note", note)
		}
		request.After = page.Next
	}
}

func constant(word string) string { return strings.ToUpper(strings.ReplaceAll(word, "-", "_")) }

// described is `a gpu mem=80 @port=3000`: the name, labels, and properties with an `@`.
func described(text string) *wire.Resource {
	it := &wire.Resource{Labels: map[string]string{}, Properties: map[string]string{}}
	for i, word := range strings.Fields(text) {
		key, value, _ := strings.Cut(strings.TrimPrefix(word, "@"), "=")
		switch {
		case i == 0:
			it.Name = word
		case strings.HasPrefix(word, "@"):
			it.Properties[key] = value
		default:
			it.Labels[key] = value
		}
	}
	return it
}
