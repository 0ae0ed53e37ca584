package tenure

import (
	"bytes"
	"go/ast"
	"go/doc"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestTheSourcesAreFormatted(t *testing.T) {
	count := 0
	must(t, filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		count++
		source, err := os.ReadFile(path)
		must(t, err)
		formatted, err := format.Source(source)
		must(t, err)
		if !bytes.Equal(source, formatted) {
			t.Errorf("%s is not formatted", path)
		}
		return nil
	}))
	if count < 30 {
		t.Fatalf("only %d were found", count)
	}
}

func TestAllThatUsersSeeIsDocumented(t *testing.T) {
	for folder, wanted := range map[string][]string{
		".":          {"Client", "Client.Hold", "Hold.Context", "And", "Part", "HoldsOn", "Dirty", "Refused.Cycle"},
		"tenureflow": {"WithHold", "Hold.Token", "Reattach", "Refused"},
	} {
		documented := documentation(t, folder)
		for _, name := range wanted {
			if !slices.Contains(documented, name) {
				t.Errorf("%s has no documentation of %s", folder, name)
			}
		}
	}
}

// documentation is what there is of a package, by name. What is exported and has none fails the test.
func documentation(t *testing.T, folder string) []string {
	files := token.NewFileSet()
	parsed, err := parser.ParseDir(files, folder, func(file fs.FileInfo) bool {
		return !strings.HasSuffix(file.Name(), "_test.go")
	}, parser.ParseComments)
	must(t, err)
	var sources []*ast.File
	for _, one := range parsed {
		for _, file := range one.Files {
			sources = append(sources, file)
		}
	}
	described, err := doc.NewFromFiles(files, sources, folder)
	must(t, err)
	var names []string
	document := func(name, text string) {
		names = append(names, name)
		if text == "" {
			t.Errorf("%s: %s is not documented", folder, name)
		}
	}
	document("the package", described.Doc)
	functions := func(prefix string, all []*doc.Func) {
		for _, function := range all {
			// What an error or an option is called by others is told by its type.
			if name := function.Name; name != "Error" && name != "String" {
				document(prefix+name, function.Doc)
			}
		}
	}
	functions("", described.Funcs)
	for _, kind := range described.Types {
		document(kind.Name, kind.Doc)
		functions("", kind.Funcs)
		functions(kind.Name+".", kind.Methods)
	}
	return names
}

func TestBothModulesHaveTheLicences(t *testing.T) {
	for _, name := range []string{"LICENSE-APACHE", "LICENSE-MIT"} {
		ours, err := os.ReadFile(filepath.Join("..", "..", name))
		must(t, err)
		for _, folder := range []string{".", "tenureflow"} {
			if copied, err := os.ReadFile(filepath.Join(folder, name)); err != nil || !bytes.Equal(copied, ours) {
				t.Errorf("%s is not in %s as it is in the project (%v)", name, folder, err)
			}
		}
	}
}
