package tenure

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"tenure.dev/go/wire"
)

const (
	portDefault = 3144
	expected    = "this is not an address; write host:port"
	// Whoever has something to say says it at once.
	probePatience = time.Second
	// How an HTTP/2 client begins: its preface, and settings that are empty.
	httpGreeting = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	notGRPC      = "it speaks HTTP and not gRPC; a server listens for gRPC on another port than for HTTP, by default 3144"
	// More than the default, so that a burst of answers is not held up, and fixed, so that nothing has to be measured.
	windowBytes = 1 << 20
)

// target is a server: where it is, and how to be let in.
type target struct {
	given          string
	host           string
	port           int
	tls            bool
	config         Config
	connectTimeout time.Duration
}

func newTarget(config Config, connectTimeout time.Duration) (*target, error) {
	given := config.Address
	t := &target{given: given, config: config, connectTimeout: connectTimeout}
	t.tls = config.TLSCA != nil || config.TLSCAFile != "" || config.TLSCertificate != nil || config.TLSCertificateFile != ""
	text := given
	if rest, ok := strings.CutPrefix(text, "http://"); ok {
		text, t.tls = rest, false
	} else if rest, ok := strings.CutPrefix(text, "https://"); ok {
		text, t.tls = rest, true
	}
	text = strings.TrimSuffix(text, "/")
	host, port := text, ""
	if after, ok := strings.CutPrefix(text, "["); ok {
		inside, rest, closed := strings.Cut(after, "]")
		if !closed || (rest != "" && !strings.HasPrefix(rest, ":")) {
			return nil, &Unusable{Why: fmt.Sprintf("`%s`: %s", given, expected)}
		}
		host, port = inside, strings.TrimPrefix(rest, ":")
	} else if strings.Count(text, ":") == 1 {
		// More than one colon without brackets is a bare IPv6 address.
		host, port, _ = strings.Cut(text, ":")
		if port == "" {
			port = "none"
		}
	}
	isHost := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-._:%", r)
	}
	if host == "" || strings.IndexFunc(host, func(r rune) bool { return !isHost(r) }) >= 0 {
		return nil, &Unusable{Why: fmt.Sprintf("`%s`: %s", given, expected)}
	}
	t.host, t.port = host, portDefault
	if port != "" {
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil || number == 0 {
			return nil, &Unusable{Why: fmt.Sprintf("`%s`: the port is not a number from 1 to 65535", given)}
		}
		t.port = int(number)
	}
	// They are read again later, wherever the process works then.
	for _, file := range []*string{
		&t.config.PasswordFile, &t.config.TLSCAFile, &t.config.TLSCertificateFile, &t.config.TLSKeyFile,
	} {
		if *file != "" {
			absolute, err := filepath.Abs(*file)
			if err != nil {
				return nil, &Unusable{Why: err.Error()}
			}
			*file = absolute
		}
	}
	return t, nil
}

func (t *target) hostPort() string { return net.JoinHostPort(t.host, strconv.Itoa(t.port)) }

// dial makes a connection, which is not connected before it is used.
func (t *target) dial(options ...grpc.DialOption) (*grpc.ClientConn, error) {
	var transport credentials.TransportCredentials = insecure.NewCredentials()
	if t.tls {
		// What cannot be used is better told now than by a handshake that fails.
		if _, err := t.tlsConfig(); err != nil {
			return nil, err
		}
		transport = &freshTLS{target: t}
	}
	wait := backoff.Config{BaseDelay: pauseFirst, Multiplier: 2, Jitter: 0.2, MaxDelay: pauseMost}
	options = append(options,
		grpc.WithTransportCredentials(transport),
		grpc.WithUserAgent("tenure-go/"+Version),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithInitialWindowSize(windowBytes),
		grpc.WithInitialConnWindowSize(windowBytes),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: wait, MinConnectTimeout: t.connectTimeout}),
	)
	conn, err := grpc.NewClient("passthrough:///"+t.hostPort(), options...)
	if err != nil {
		return nil, &Unusable{Why: err.Error()}
	}
	return conn, nil
}

// letIn adds what is shown at the server's door.
func (t *target) letIn(ctx context.Context) (context.Context, error) {
	password, origin := []byte(t.config.Password), ""
	if t.config.PasswordFile != "" {
		var err error
		if password, err = readFile(t.config.PasswordFile); err != nil {
			return nil, err
		}
		// Editors end a file with a line's end.
		password = []byte(strings.TrimSuffix(strings.TrimSuffix(string(password), "\n"), "\r"))
		origin = " in " + t.config.PasswordFile
		if len(password) == 0 {
			// Whoever replaces it may be in the middle of it.
			return nil, &Unusable{Why: "there is no password" + origin}
		}
	}
	if len(password) == 0 {
		return ctx, nil
	}
	for _, b := range password {
		if b < 0x20 || b >= 0x7f {
			return nil, &Unusable{Why: "the password" + origin + " has characters that cannot be sent"}
		}
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", string(password)), nil
}

// tlsConfig is with what the files have now.
func (t *target) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.host, NextProtos: []string{"h2"}}
	ca, err := source(t.config.TLSCA, t.config.TLSCAFile)
	if err != nil {
		return nil, err
	}
	if ca != nil {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(ca) {
			return nil, &Unusable{Why: "the authority's certificate" + origin(t.config.TLSCAFile) + " is not in PEM form"}
		}
	}
	certificate, err := source(t.config.TLSCertificate, t.config.TLSCertificateFile)
	if err != nil {
		return nil, err
	}
	key, err := source(t.config.TLSKey, t.config.TLSKeyFile)
	if err != nil {
		return nil, err
	}
	if certificate != nil || key != nil {
		identity, err := tls.X509KeyPair(certificate, key)
		if err != nil {
			return nil, &Unusable{Why: fmt.Sprintf("the client certificate%s and its key%s: %v",
				origin(t.config.TLSCertificateFile), origin(t.config.TLSKeyFile), err)}
		}
		config.Certificates = []tls.Certificate{identity}
	}
	return config, nil
}

func source(given []byte, file string) ([]byte, error) {
	if file == "" {
		return given, nil
	}
	return readFile(file)
}

func readFile(file string) ([]byte, error) {
	read, err := os.ReadFile(file)
	if err != nil {
		return nil, &Unusable{Why: err.Error()}
	}
	return read, nil
}

func origin(file string) string {
	if file == "" {
		return ""
	}
	return " in " + file
}

// freshTLS reads files for every connection that is made, so that what is in them can be replaced.
type freshTLS struct{ target *target }

func (f *freshTLS) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	config, err := f.target.tlsConfig()
	if err != nil {
		return nil, nil, err
	}
	return credentials.NewTLS(config).ClientHandshake(ctx, authority, raw)
}

func (f *freshTLS) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("this is for clients")
}

func (f *freshTLS) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls", ServerName: f.target.host}
}

func (f *freshTLS) Clone() credentials.TransportCredentials { return f }

func (f *freshTLS) OverrideServerName(string) error { return nil }

func (t *target) unreachable(why string) error { return &Unreachable{Address: t.given, Why: why} }

// meaning is what a failure of gRPC means. said is what the server sends about itself before or after its answers.
func (t *target) meaning(err error, said ...metadata.MD) error {
	var known Error
	if errors.As(err, &known) {
		return known
	}
	if errors.Is(err, io.EOF) {
		return t.unreachable("the server ended the stream")
	}
	failed, ok := status.FromError(err)
	if !ok {
		return t.unreachable(err.Error())
	}
	for _, detail := range failed.Details() {
		if refusal, ok := detail.(*wire.Refusal); ok {
			return &Refused{Refusal: refusal}
		}
	}
	message, version := failed.Message(), versionOf(said)
	if strings.Contains(message, "unexpected HTTP status code") || strings.Contains(message, "unexpected content-type") {
		if failed.Code() != codes.Unavailable && failed.Code() != codes.Unauthenticated {
			return &ForeignServer{Address: t.given, Why: fmt.Sprintf("%s (%s)", notGRPC, message)}
		}
	}
	switch failed.Code() {
	case codes.Unauthenticated:
		if version != "" || message == "missing credentials" || message == "invalid credentials" {
			return &Unauthenticated{Address: t.given, Why: message}
		}
	case codes.Unimplemented:
		why := fmt.Sprintf("it does not know this call (%s)", message)
		if version != "" {
			why = fmt.Sprintf("it has version %s and does not know this call, this client has version %s", version, Version)
		}
		return &ForeignServer{Address: t.given, Why: why}
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted, codes.Unknown, codes.Internal:
		// Said by gRPC libraries and proxies on the way, or of the connection's end.
		return t.unreachable(reason(message))
	}
	return &ForeignServer{Address: t.given, Why: fmt.Sprintf("it answers with status %s: %s", failed.Code(), message)}
}

func versionOf(said []metadata.MD) string {
	for _, headers := range said {
		for _, server := range headers.Get("server") {
			if version, ok := strings.CutPrefix(server, "tenure/"); ok {
				return version
			}
		}
	}
	return ""
}

// reason is in words what gRPC says of a connection that did not come about.
func reason(message string) string {
	switch {
	case strings.Contains(message, "connection refused"):
		return "nothing listens there (connection refused)"
	case strings.Contains(message, "no such host"):
		return "its name is not known"
	case strings.Contains(message, "i/o timeout"):
		return "it does not answer (timed out)"
	}
	message = strings.TrimPrefix(message, "connection error: desc = ")
	return strings.Trim(message, `"`)
}

// diagnose is the meaning of a failure before anything was heard, after a look at who is there.
func (t *target) diagnose(err error, said ...metadata.MD) error {
	found := t.meaning(err, said...)
	var unreachable *Unreachable
	if !errors.As(found, &unreachable) || strings.Contains(unreachable.Why, "refused") || t.tls {
		return found
	}
	if stranger := t.stranger(); stranger != "" {
		return &ForeignServer{Address: t.given, Why: stranger}
	}
	return found
}

// stranger is what the server is, unless it speaks HTTP/2 or says nothing.
func (t *target) stranger() string {
	conn, err := net.DialTimeout("tcp", t.hostPort(), probePatience)
	if err != nil {
		return ""
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(probePatience)); err != nil {
		return ""
	}
	if _, err := io.WriteString(conn, httpGreeting); err != nil {
		return ""
	}
	heard := make([]byte, 128)
	n, _ := conn.Read(heard)
	return recognise(heard[:n])
}

// recognise knows strangers by their first words.
func recognise(heard []byte) string {
	if len(heard) == 0 || (len(heard) > 3 && heard[3] == 4) {
		return ""
	}
	if len(heard) > 1 && (heard[0] == 0x15 || heard[0] == 0x16) && heard[1] == 3 {
		return "it wants TLS; write https://host:port"
	}
	if strings.HasPrefix(string(heard), "HTTP/") {
		return notGRPC
	}
	line, _, _ := strings.Cut(strings.ToValidUTF8(string(heard), "?"), "\n")
	shown := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, line)
	return fmt.Sprintf("it says `%.40s`", shown)
}
