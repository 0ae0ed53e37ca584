// Whether a server speaks HTTP/2 as its standards say, by h2spec. It is told where, and what to ask for, and says of each case, in a line,
// whether it passed, failed or was skipped. What h2spec itself prints goes to stderr.
package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/summerwind/h2spec/config"
	"github.com/summerwind/h2spec/generic"
	"github.com/summerwind/h2spec/hpack"
	"github.com/summerwind/h2spec/http2"
	"github.com/summerwind/h2spec/spec"
)

// patience is for an answer, and for a connection to be closed.
const patience = 5 * time.Second

func main() {
	if len(os.Args) != 3 {
		fail("usage: h2spec ADDRESS PATH")
	}
	host, service, err := net.SplitHostPort(os.Args[1])
	if err != nil {
		fail(err)
	}
	port, err := strconv.Atoi(service)
	if err != nil {
		fail(err)
	}
	settings := config.Config{
		Host:    host,
		Port:    port,
		Path:    os.Args[2],
		Timeout: patience,
		// As long as it says itself unless it is told otherwise.
		MaxHeaderLen: 4000,
		Strict:       true,
	}
	stdout := os.Stdout
	os.Stdout = os.Stderr
	for _, group := range []*spec.TestGroup{generic.Spec(), http2.Spec(), hpack.Spec()} {
		group.Test(&settings)
		tell(stdout, group)
	}
}

func tell(stdout *os.File, group *spec.TestGroup) {
	for _, test := range append(group.Tests, group.StrictTests...) {
		fmt.Fprintln(stdout, verdict(group, test))
	}
	for _, inner := range group.Groups {
		tell(stdout, inner)
	}
}

func verdict(group *spec.TestGroup, test *spec.TestCase) string {
	result := test.Result
	name := fmt.Sprintf("%s/%d %s", group.ID(), result.Sequence, test.Desc)
	switch {
	case result.Failed:
		return fmt.Sprintf("failed %s: %s", name, reason(result.Error))
	case result.Skipped:
		return "skipped " + name
	}
	return "passed " + name
}

func reason(err error) string {
	if it, is := err.(*spec.TestError); is {
		return fmt.Sprintf("expected %s, was %s", strings.Join(it.Expected, " or "), it.Actual)
	}
	return strings.ReplaceAll(err.Error(), "\n", " ")
}

func fail(why any) {
	fmt.Fprintln(os.Stderr, why)
	os.Exit(2)
}
