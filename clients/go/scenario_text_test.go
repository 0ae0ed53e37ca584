package tenure

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A file of scenarios, read line by line; scenarios/README.md says what the lines mean.

var units = map[string]int{"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

// outcome is what came of a step, as words.
type outcome struct {
	word   string
	fields map[string]string
	// The secret of a grant, for later steps.
	key string
}

func (o outcome) String() string { return o.word + shown(o.fields) }

func shown(fields map[string]string) string {
	text := ""
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		text += fmt.Sprintf(" %s=%q", name, fields[name])
	}
	return text
}

type expectation struct {
	// Empty: any but a refusal, for questions, whose answer has no word.
	word   string
	fields map[string]string
}

func (e expectation) matches(actual outcome) bool {
	if e.word == "" && strings.HasPrefix(actual.word, "refused") || e.word != "" && e.word != actual.word {
		return false
	}
	for name, wanted := range e.fields {
		value, ok := actual.fields[name]
		if !ok || !slices.Contains(strings.Split(wanted, "|"), value) {
			return false
		}
	}
	return true
}

func (e expectation) String() string { return e.word + shown(e.fields) }

type step struct {
	line  int
	text  string
	at    int
	actor string
	hears bool
	// Without a name, the verb first.
	words    []string
	named    map[string][]string
	expected *expectation
}

type scenario struct {
	topic  string
	line   int
	claim  string
	only   []string
	why    string
	limits [][2]any
	steps  []step
}

func (s *scenario) restarts() bool {
	return slices.ContainsFunc(s.steps, func(step step) bool { return step.actor == "server" })
}

func readScenarios(folder string) ([]*scenario, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no scenarios in %s (%w)", folder, err)
	}
	var all []*scenario
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		inClaim := false
		for number, line := range strings.Split(string(text), "\n") {
			if strings.HasPrefix(line, "#") {
				if !inClaim {
					claim := strings.TrimRight(strings.TrimSpace(line[1:]), ".")
					topic := strings.TrimSuffix(filepath.Base(file), ".txt")
					all = append(all, &scenario{topic: topic, line: number + 1, claim: claim})
				}
				inClaim = true
				continue
			}
			inClaim = false
			if strings.TrimSpace(line) == "" {
				continue
			}
			current := all[len(all)-1]
			if line[0] == ' ' || line[0] == '\t' {
				current.steps = append(current.steps, readStep(line, number+1, current.steps))
			} else if err := current.directive(line); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

var durationForm = regexp.MustCompile(`^(\d+)(ms|s|m|h|d)$`)

func readDuration(text string) (int, bool) {
	parts := durationForm.FindStringSubmatch(text)
	if parts == nil {
		return 0, false
	}
	number, err := strconv.Atoi(parts[1])
	return number * units[parts[2]], err == nil
}

func durationText(millis int64) string {
	if millis%1000 != 0 {
		return fmt.Sprintf("%dms", millis)
	}
	return fmt.Sprintf("%ds", millis/1000)
}

var (
	wordForm = regexp.MustCompile(`(?:[^\s']|'[^']*')+`)
	nameForm = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
)

func readStep(line string, number int, before []step) step {
	// Single quotes keep a value with blanks together and vanish.
	words := wordForm.FindAllString(line, -1)
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], "'", "")
	}
	it := step{line: number, text: strings.TrimSpace(line), named: map[string][]string{}}
	if at, ok := readDuration(words[0]); ok {
		it.at, words = at, words[1:]
	} else if len(before) > 0 {
		it.at = before[len(before)-1].at
	}
	arrow := slices.IndexFunc(words, func(word string) bool { return word == "->" || word == "<-" })
	said := words
	if arrow >= 0 {
		it.expected, it.hears = readExpected(words[arrow+1:]), words[arrow] == "<-"
		said = words[:arrow]
	}
	it.actor = said[0]
	for _, word := range said[1:] {
		name, value, ok := strings.Cut(word, "=")
		if ok && nameForm.MatchString(name) {
			it.named[name] = append(it.named[name], value)
		} else {
			it.words = append(it.words, word)
		}
	}
	return it
}

func readExpected(words []string) *expectation {
	expected := &expectation{fields: map[string]string{}}
	var plain []string
	for len(words) > 0 && !strings.Contains(words[0], "=") {
		plain, words = append(plain, words[0]), words[1:]
	}
	expected.word = strings.Join(plain, " ")
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		if length, ok := readDuration(value); ok {
			value = durationText(int64(length))
		}
		expected.fields[name] = value
	}
	return expected
}

func (s *scenario) directive(line string) error {
	kind, rest, _ := strings.Cut(line, ":")
	switch kind {
	case "only":
		faces, why, _ := strings.Cut(rest, "--")
		s.only, s.why = strings.Fields(faces), strings.TrimSpace(why)
	case "limits":
		for _, word := range strings.Fields(rest) {
			name, value, _ := strings.Cut(word, "=")
			number, ok := readDuration(value)
			if !ok {
				var err error
				if number, err = strconv.Atoi(value); err != nil {
					return err
				}
			}
			s.limits = append(s.limits, [2]any{name, number})
		}
	default:
		return fmt.Errorf("%s: what is `%s`?", s.topic, line)
	}
	return nil
}
