package tenure

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A server that wants a password and a client's certificate. The project's own tests start it.
func TestAPasswordAndACertificateLetIn(t *testing.T) {
	address, folder := os.Getenv("TENURE_SECURE"), os.Getenv("TENURE_SECURE_FOLDER")
	if address == "" {
		t.Skip("TENURE_SECURE does not say where the server is")
	}
	file := func(name string) string { return filepath.Join(folder, name) }
	papers := Config{
		Address: address, Password: os.Getenv("TENURE_SECURE_PASSWORD"), TLSCAFile: file("ca.crt"),
		TLSCertificateFile: file("client.crt"), TLSKeyFile: file("client.key"), Logger: quiet,
	}
	client, err := Connect(soon(t), papers)
	must(t, err)
	must(t, held(client.Hold(soon(t), "db"))(t).Release(soon(t)))
	if got := holders(t, client, "db"); len(got) != 0 {
		t.Fatalf("%v hold it", got)
	}
	must(t, client.Close(soon(t)))

	fromFile := papers
	fromFile.Password, fromFile.PasswordFile = "", filepath.Join(t.TempDir(), "password")
	must(t, os.WriteFile(fromFile.PasswordFile, []byte(papers.Password+"\n"), 0o600))
	client, err = Connect(soon(t), fromFile)
	must(t, err)
	must(t, client.Close(soon(t)))

	wrong := papers
	wrong.Password = "another"
	var unauthenticated *Unauthenticated
	if _, err := Connect(soon(t), wrong); !errors.As(err, &unauthenticated) {
		t.Errorf("another password: %v", err)
	}
	wrong.Password = ""
	if _, err := Connect(soon(t), wrong); !errors.As(err, &unauthenticated) {
		t.Errorf("no password: %v", err)
	}
	wrong = papers
	wrong.TLSCertificateFile, wrong.TLSKeyFile = "", ""
	var unreachable *Unreachable
	if _, err := Connect(soon(t), wrong); !errors.As(err, &unreachable) {
		t.Errorf("no certificate: %v", err)
	}
	wrong = papers
	wrong.TLSCAFile = file("clients.crt")
	if _, err := Connect(soon(t), wrong); !errors.As(err, &unreachable) {
		t.Errorf("another authority: %v", err)
	}
	wrong = papers
	wrong.TLSCAFile = file("nowhere.crt")
	var unusable *Unusable
	if _, err := Connect(soon(t), wrong); !errors.As(err, &unusable) {
		t.Errorf("no file: %v", err)
	}
}
