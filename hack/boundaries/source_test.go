package boundaries_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The limits of a file and of a function's body, in lines.
const (
	sourceLines   = 400
	testLines     = 800
	functionLines = 60
	caseLines     = 100
)

// A source is a parsed Go file.
type source struct {
	file
	fset *token.FileSet
	ast  *ast.File
	test bool
}

func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	for _, f := range tree(t, ".go") {
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, f.path, f.text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, source{f, fset, parsed, strings.HasSuffix(f.path, "_test.go")})
	}
	return all
}

// TestSizes: one noun a file, one thought a function.
func TestSizes(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		fileLimit, limit := sourceLines, functionLines
		if s.test {
			fileLimit, limit = testLines, caseLines
		}
		if n := bytes.Count(s.text, []byte("\n")); n > fileLimit {
			t.Errorf("%s has %d lines, the limit is %d: more than one noun?", s.path, n, fileLimit)
		}
		for _, d := range s.ast.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			if n := s.fset.Position(f.Body.Rbrace).Line - s.fset.Position(f.Body.Lbrace).Line - 1; n > limit {
				t.Errorf("%s: %s has %d lines, the limit is %d", s.fset.Position(f.Pos()), f.Name.Name, n, limit)
			}
		}
	}
}

// TestSleepsAreVirtual: a test waits on a signal. In a bubble of testing/synctest a
// sleep takes no time, and is how the clock is moved.
func TestSleepsAreVirtual(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.test && !imports(s.ast, "testing/synctest") && callsSleep(s.ast) {
			t.Errorf("%s sleeps: wait on a signal, a watch, or in a bubble of testing/synctest", s.path)
		}
	}
}

func imports(f *ast.File, path string) bool {
	return slices.ContainsFunc(f.Imports, func(s *ast.ImportSpec) bool { return s.Path.Value == strconv.Quote(path) })
}

func callsSleep(f *ast.File) bool {
	found := false
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Sleep" {
			x, ok := sel.X.(*ast.Ident)
			found = found || ok && x.Name == "time"
		}
		return !found
	})
	return found
}

// keyText is text that only a key holds: a kind of key, or the version in a root.
var keyText = regexp.MustCompile(`^/?(?:epoch|proc|spec|state|live|due|evict|purging|wake|step|done)/|/v1/`)

// TestKeysAreBuiltInKeyspace fails for text in the engine that looks like a piece
// of a key.
func TestKeysAreBuiltInKeyspace(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		engine := !strings.Contains(s.path, "/") ||
			under(s.path, "pkg", "hack/check", "internal/audit", "internal/etcd", "internal/etcdv3", "internal/record")
		if s.test || !engine {
			continue
		}
		for _, text := range keyTexts(s.ast) {
			t.Errorf("%s: %s looks like a piece of a key: internal/keyspace builds them all", s.fset.Position(text.Pos()), text.Value)
		}
	}
}

func keyTexts(f *ast.File) []*ast.BasicLit {
	var found []*ast.BasicLit
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && keyText.MatchString(text) {
				found = append(found, n)
			}
		}
		return true
	})
	return found
}

func TestKeyTextsAreFound(t *testing.T) {
	t.Parallel()
	const text = `package p
import "go.etcd.io/etcd/client/v1/due"
var (
	a = "state/" + id
	b = fmt.Sprintf("%s/v1/%s", prefix, namespace)
	c = ` + "`/due/q`" + `
	d = "the state/the lock"
	e = "estate/"
	f = "/v1"
)`
	parsed, err := parser.ParseFile(token.NewFileSet(), "p.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	if found := keyTexts(parsed); len(found) != 3 {
		t.Errorf("found %d pieces of keys, want those of a, b and c", len(found))
	}
}
