package tenure

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"tenure.dev/go/wire"
)

// Between a scenario's words and the client's: what an actor does.

// Verbs and the names of their arguments, besides `ns`.
var known = map[string]string{
	"acquire":       "units size select resource ttl window owner wait priority request as session also meta",
	"renew":         "token key ttl",
	"release":       "token key",
	"withdraw":      "request",
	"hangs-up":      "",
	"session":       "grace",
	"pool":          "units resource placement order window fair weights size-was place-by order-by",
	"drain":         "resource note for state-was",
	"quarantine":    "resource note for state-was",
	"return":        "resource note for state-was",
	"force-release": "holder token reason",
	"steal":         "holder token to ttl request reason",
	"move":          "waiter holder before reason",
	"reserve":       "resource holder for instead-of reason",
	"unreserve":     "resource holder reason",
	"explain":       "request waiter",
	"owner-gone":    "owner",
	"show":          "resource",
	"queue":         "",
	"holds":         "pool holder",
	"ls":            "prefix",
	"sessions":      "",
	"history":       "pool holder",
	"restart":       "",
	"stop":          "",
	"start":         "",
	"passes":        "",
}

// unknownWord is a verb or an argument that this runner has not learnt yet.
type unknownWord struct{ word string }

func (u *unknownWord) Error() string { return "the runner does not know " + u.word }

// arguments are what follows a verb.
type arguments struct {
	words []string
	named map[string][]string
}

func (a *arguments) word() string {
	if len(a.words) == 0 {
		return ""
	}
	word := a.words[0]
	a.words = a.words[1:]
	return word
}

func (a *arguments) flag(name string) bool { return slices.Contains(a.words, name) }

func (a *arguments) text(name string) *string {
	if values := a.named[name]; len(values) > 0 {
		return &values[0]
	}
	return nil
}

func (a *arguments) must(name string) string {
	if text := a.text(name); text != nil {
		return *text
	}
	return ""
}

func (a *arguments) number(name string) *uint32 {
	text := a.text(name)
	if text == nil {
		return nil
	}
	return proto.Uint32(count(*text))
}

// pairs are of `tenant=a`, any number of times.
func (a *arguments) pairs(name string) map[string]string {
	pairs := map[string]string{}
	for _, text := range a.named[name] {
		key, value, _ := strings.Cut(text, "=")
		pairs[key] = value
	}
	return pairs
}

func (a *arguments) token() *uint64 { return a.counted("token") }

func (a *arguments) counted(name string) *uint64 {
	text := a.text(name)
	if text == nil {
		return nil
	}
	number, err := strconv.ParseUint(*text, 10, 64)
	if err != nil {
		panic(err)
	}
	return &number
}

func (a *arguments) duration(name string) *uint64 {
	text := a.text(name)
	if text == nil {
		return nil
	}
	millis, ok := readDuration(*text)
	if !ok {
		panic("`" + *text + "` is no duration")
	}
	return proto.Uint64(uint64(millis))
}

// namespace: the wire's way to name `default` is to say nothing.
func (a *arguments) namespace() string {
	if named := a.must("ns"); named != "default" {
		return named
	}
	return ""
}

// session is `own`, `wrong` or nothing.
func (a *arguments) session() string {
	if named := a.must("session"); named != "" {
		return named
	}
	if a.flag("session") {
		return "own"
	}
	return ""
}

func acquireOf(actor string, a *arguments) *wire.AcquireRequest {
	request := &wire.AcquireRequest{
		Namespace: a.namespace(),
		Pool:      a.word(),
		Select:    a.text("select"),
		Size:      a.number("size"),
		TtlMs:     a.duration("ttl"),
		Owner:     a.text("owner"),
		Holder:    actor,
		RequestId: a.text("request"),
		HoldsOn:   a.flag("holds-on"),
		Dirty:     a.flag("dirty"),
		Meta:      a.pairs("meta"),
	}
	switch a.must("units") {
	case "", "1":
	case "all":
		request.All = true
	default:
		request.Units = a.number("units")
	}
	if name := a.text("resource"); name != nil && request.Select == nil {
		request.Select = proto.String(byName(*name))
	}
	for _, text := range a.named["also"] {
		said, err := alsoOf(text).said()
		if err != nil {
			panic(err)
		}
		request.Also = append(request.Also, said)
	}
	window := a.duration("window")
	switch {
	case a.flag("until-session-ends"):
		request.Lifetime = wire.Lifetime_LIFETIME_SESSION
	case window != nil:
		request.Lifetime, request.TtlMs = wire.Lifetime_LIFETIME_WINDOW, window
	case a.flag("kept"):
		request.Lifetime = wire.Lifetime_LIFETIME_KEPT
	}
	switch wait := a.text("wait"); {
	case wait == nil:
	case *wait == "forever":
		request.WaitForever = true
	default:
		request.WaitMs = a.duration("wait")
	}
	if priority := a.text("priority"); priority != nil {
		number, err := strconv.Atoi(*priority)
		if err != nil {
			panic(err)
		}
		request.Priority = int32(number)
	}
	if as := a.text("as"); as != nil {
		request.Holder = *as
	}
	return request
}

func byName(name string) string {
	return `name == "` + strings.ReplaceAll(strings.ReplaceAll(name, `\`, `\\`), `"`, `\"`) + `"`
}

// alsoOf is of `gpu units=2 select=big&&!old`.
func alsoOf(text string) Part {
	words := strings.Fields(text)
	part := Part{Pool: words[0]}
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "select":
			part.Select = value
		case "resource":
			part.Select = byName(value)
		case "size":
			part.Size = count(value)
		case "units":
			if part.All = value == "all"; !part.All {
				part.Units = count(value)
			}
		default:
			panic("what is `" + word + "` of a further pool?")
		}
	}
	return part
}

func count(text string) uint32 {
	number, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		panic(err)
	}
	return uint32(number)
}

// act is what an actor does.
func (s *scene) act(it *step, keyOf func(*uint64, string) string) (outcome, error) {
	a := &arguments{words: slices.Clone(it.words), named: it.named}
	verb := a.word()
	allowed, ok := known[verb]
	if !ok {
		return outcome{}, &unknownWord{"`" + verb + "`"}
	}
	for name := range it.named {
		if name != "ns" && !slices.Contains(strings.Fields(allowed), name) {
			return outcome{}, &unknownWord{fmt.Sprintf("`%s=` of `%s`", name, verb)}
		}
	}
	done := outcome{word: "done"}
	namespace := a.namespace()
	switch verb {
	case "acquire":
		return s.acquire(it.actor, acquireOf(it.actor, a), a.session())
	case "renew", "release":
		pool, key, token := a.word(), a.must("key"), a.token()
		whose := it.actor
		if key != "" && key != "wrong" {
			whose = key
		}
		secret := keyOf(token, whose)
		if verb == "renew" {
			renewed, err := s.api().Renew(s.ctx, &wire.RenewRequest{
				Pool: &pool, Namespace: namespace, Key: secret, TtlMs: a.duration("ttl"),
			})
			return told(err, func() outcome { return renewedWords(renewed) }), nil
		}
		if whose != it.actor {
			token = nil
		}
		return s.release(it.actor, token, &wire.ReleaseRequest{Pool: &pool, Namespace: namespace, Key: secret}), nil
	case "withdraw":
		_, err := s.api().Withdraw(s.ctx, &wire.WithdrawRequest{Namespace: namespace, RequestId: a.must("request")})
		return told(err, func() outcome { return outcome{word: "withdrawn"} }), nil
	case "hangs-up":
		return done, s.hangUp(it.actor)
	case "session":
		return s.sessionDoes(it.actor, a)
	case "restart":
		s.stop()
		s.start()
		return done, nil
	case "stop":
		s.stop()
		return done, nil
	case "start":
		s.start()
		return done, nil
	case "passes":
		return done, nil
	}
	return s.operate(verb, a), nil
}
