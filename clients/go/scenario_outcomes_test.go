package tenure

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"tenure.dev/go/wire"
)

// What the answers are called in a scenario.

// When scenarios start, by the server's clock.
const scenarioStart = 1_000_000_000_000

func told(err error, done func() outcome) outcome {
	if err != nil {
		return failedWords(err)
	}
	return done()
}

func words(word string, fields ...any) outcome {
	it := outcome{word: word, fields: map[string]string{}}
	it.add(fields...)
	return it
}

// add takes names and values by turns.
func (o outcome) add(fields ...any) {
	for i := 0; i < len(fields); i += 2 {
		o.fields[fields[i].(string)] = valueWord(fields[i+1])
	}
}

// at is a point in time; nothing if there is none.
type at struct{ ms *uint64 }

// length is a duration.
type length struct{ ms *uint64 }

func valueWord(value any) string {
	switch value := value.(type) {
	case at:
		if value.ms == nil {
			return "none"
		}
		return durationText(int64(*value.ms) - scenarioStart)
	case length:
		if value.ms == nil {
			return "none"
		}
		return durationText(int64(*value.ms))
	case *uint64:
		if value == nil {
			return "none"
		}
		return fmt.Sprint(*value)
	case []string:
		if len(value) == 0 {
			return "none"
		}
		return strings.Join(value, ",")
	case protoreflect.Enum:
		return enumWord(value)
	}
	return fmt.Sprint(value)
}

// enumWord makes `kept` of LIFETIME_KEPT.
func enumWord(value protoreflect.Enum) string {
	described := value.Descriptor()
	prefix := ""
	for i, letter := range string(described.Name()) {
		if i > 0 && letter >= 'A' && letter <= 'Z' {
			prefix += "_"
		}
		prefix += strings.ToUpper(string(letter))
	}
	named := string(described.Values().ByNumber(value.Number()).Name())
	return strings.ToLower(strings.TrimPrefix(named, prefix+"_"))
}

func failedWords(err error) outcome {
	var refused *Refused
	if !errors.As(err, &refused) {
		var failure Error
		if errors.As(err, &failure) {
			return words("refused "+string(failure.Code()), "why", err.Error(), "retry", failure.Retry())
		}
		return words("failed", "why", err.Error())
	}
	it := refused.Refusal
	shown := words("refused "+it.GetCode(), "retry", it.GetRetry())
	for _, name := range strings.Fields("most size free dirty max position holders_total token field pool resource limit line column") {
		field := it.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(name))
		if it.ProtoReflect().Has(field) {
			shown.add(strings.ReplaceAll(name, "_", "-"), it.ProtoReflect().Get(field).String())
		}
	}
	if it.DeadlineMs != nil {
		shown.add("until", at{it.DeadlineMs})
	}
	switch it.GetCode() {
	case "request_ended":
		shown.add("token", it.Token)
	case "window_mismatch":
		shown.add("window", length{it.WindowMs})
	case "out_of_service", "pool_changed":
		conditionWords(shown, it.GetCondition())
	case "busy", "timed_out":
		var reserved, also []string
		for _, kept := range it.GetReserved() {
			reserved = append(reserved, kept.GetResource()+":"+kept.GetHolder())
		}
		for _, room := range it.GetAlso() {
			also = append(also, room.GetPool())
		}
		holdersWords(shown, it.GetHolders())
		shown.add("reserved", reserved, "also", also)
	case "moved_on":
		holdersWords(shown, it.GetHolders())
	case "deadlock":
		var cycle []string
		for _, blocked := range refused.Cycle() {
			cycle = append(cycle, blocked.GetHolder()+">"+blocked.GetPool())
		}
		shown.add("cycle", cycle)
	}
	return shown
}

func grantedWords(grant *wire.Grant) outcome {
	var names []string
	for _, resource := range grant.GetResources() {
		names = append(names, resource.GetName())
	}
	shown := words("granted",
		"pool", grant.GetPool(), "token", grant.GetToken(), "units", grant.GetUnits(), "resources", names,
		"lifetime", grant.GetLifetime(), "since", at{proto.Uint64(grant.GetSinceMs())}, "until", at{grant.DeadlineMs})
	resources := slices.Clone(grant.GetResources())
	var also, alsoResources, windows []string
	for _, part := range grant.GetAlso() {
		also = append(also, fmt.Sprintf("%s:%d", part.GetPool(), part.GetUnits()))
		for _, resource := range part.GetResources() {
			alsoResources = append(alsoResources, resource.GetName())
		}
		resources = append(resources, part.GetResources()...)
		if part.DeadlineMs != nil {
			windows = append(windows, part.GetPool()+":"+valueWord(at{part.DeadlineMs}))
		}
	}
	shown.add("also", also, "also-resources", alsoResources, "windows", windows)
	for _, resource := range resources {
		for _, described := range []map[string]string{resource.GetLabels(), resource.GetProperties()} {
			for name, value := range described {
				shown.add(resource.GetName()+"."+name, value)
			}
		}
	}
	shown.key = grant.GetKey()
	return shown
}

// wantedWord is `gpu:2`.
func wantedWord(part *wire.Part) string {
	if part.Units == nil {
		return part.GetPool() + ":all"
	}
	return fmt.Sprintf("%s:%d", part.GetPool(), part.GetUnits())
}

func explainedWords(explained *wire.ExplainResponse) outcome {
	var order []string
	why := "none"
	for i, it := range explained.GetWaiters() {
		order = append(order, it.GetWaiter().GetHolder())
		if i == 0 {
			why = strings.Join(it.GetSentences(), "; ")
		}
	}
	return words("shown", "pool", strings.Join(explained.GetPool(), "; "), "order", order, "why", why)
}

func renewedWords(renewed *wire.Renewed) outcome {
	return words("renewed", "token", renewed.GetToken(), "ttl", length{proto.Uint64(renewed.GetTtlMs())},
		"until", at{proto.Uint64(renewed.GetDeadlineMs())})
}

func releasedWords(token uint64) outcome { return words("released", "token", token) }

func openedWords(opened *wire.SessionOpened) outcome {
	return words("open", "grace", length{proto.Uint64(opened.GetGraceMs())}, "until", at{opened.DeadlineMs})
}

func queuedWords(waiter *wire.Waiter) outcome {
	until := waiter.DeadlineMs
	if until != nil {
		// A client asks for what is left of its wait by its own clock, of which some milliseconds may be gone by then.
		until = proto.Uint64(scenarioStart + (*until-scenarioStart+999)/1000*1000)
	}
	return words("queued", "position", waiter.GetPosition(), "until", at{until})
}

func conditionWords(shown outcome, condition *wire.Condition) {
	note := "none"
	if condition.Note != nil {
		note = condition.GetNote()
	}
	shown.add("condition", condition.GetState(), "note", note)
}

func holdersWords(shown outcome, holds []*wire.Hold) {
	var holders, tokens []string
	for _, hold := range holds {
		holders = append(holders, hold.GetHolder())
		tokens = append(tokens, fmt.Sprint(hold.GetToken()))
	}
	shown.add("holders", holders, "tokens", tokens)
	if len(holds) > 0 {
		shown.add("since", at{proto.Uint64(holds[0].GetSinceMs())}, "until", at{holds[0].DeadlineMs})
	}
}

func sessionsWords(sessions []*wire.Session) outcome {
	var holders, attached []string
	for _, session := range sessions {
		holders = append(holders, session.GetHolder())
		if session.GetAttached() {
			attached = append(attached, session.GetHolder())
		}
	}
	shown := words("shown", "holders", holders, "attached", attached)
	if len(sessions) > 0 {
		first := sessions[0]
		shown.add("until", at{first.DeadlineMs}, "holds", first.GetHolds(), "waiters", first.GetWaiters())
	}
	return shown
}

func poolWords(detail *wire.PoolDetail) outcome {
	summary, spec := detail.GetSummary(), detail.GetSpec()
	var leaving, names []string
	for _, resource := range detail.GetResources() {
		if resource.GetLeaving() {
			leaving = append(leaving, resource.GetName())
		}
	}
	for _, resource := range spec.GetResources() {
		names = append(names, resource.GetName())
	}
	shown := words("shown",
		"size", summary.GetSize(), "used", summary.GetUsed(), "holds", summary.GetHolds(), "waiters", summary.GetWaiters(),
		"waiting-since", at{summary.WaitingSinceMs}, "removing", summary.GetRemoving(), "declared", summary.GetDeclared(),
		"window", length{summary.WindowMs}, "order", spec.GetOrder(), "leaving", leaving,
		"returns", at{summary.ReturnsAtMs}, "dirty", summary.GetDirty(), "cleaning", spec.GetCleaning(),
		"fair", wordOrNone(spec.GetFair().GetBy()),
		"place-by", wordOrNone(spec.GetScripts().GetPlace()), "order-by", wordOrNone(spec.GetScripts().GetOrder()),
		"script-faults", detail.GetScriptFaults(), "scripts-set-aside", detail.GetScriptsSetAside())
	conditionWords(shown, summary.GetCondition())
	if summary.GetNamed() {
		placement := strings.ReplaceAll(enumWord(spec.GetPlacement()), "_", "-")
		if spec.SpreadLabel != nil {
			placement += ":" + spec.GetSpreadLabel()
		}
		shown.add("placement", placement, "resources", names)
	}
	return shown
}

func resourceWords(detail *wire.PoolDetail, name string) outcome {
	for _, resource := range detail.GetResources() {
		if resource.GetName() == name {
			shown := words("shown",
				"leaving", resource.GetLeaving(), "token", resource.Token, "last-used", at{resource.LastUsedAtMs},
				"returns", at{resource.ReturnsAtMs}, "dirty", resource.GetDirty(),
				"reserved", wordOrNone(resource.GetReserved().GetHolder()), "reserved-until", reservedUntil(resource))
			conditionWords(shown, resource.GetCondition())
			return shown
		}
	}
	return words("refused unknown_resource")
}

func wordOrNone(word string) string {
	if word == "" {
		return "none"
	}
	return word
}

func reservedUntil(resource *wire.ResourceState) at {
	if resource.GetReserved() == nil {
		return at{}
	}
	return at{resource.GetReserved().DeadlineMs}
}
