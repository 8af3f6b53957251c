package boundaries_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the module's directory, seen from this one.
var root = filepath.Join("..", "..")

// A pack is a package as go list describes it.
type pack struct {
	ImportPath   string
	Imports      []string
	TestImports  []string // of the tests inside the package
	XTestImports []string // of its black-box tests
	Deps         []string // everything that it reaches
}

// TestBoundaries fails for every import that no rule allows.
func TestBoundaries(t *testing.T) {
	t.Parallel()
	for _, v := range check(rules, list(t)) {
		t.Error(v)
	}
}

func list(t *testing.T) []pack {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,TestImports,XTestImports,Deps", "./...")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var packs []pack
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pack
		switch err := d.Decode(&p); {
		case errors.Is(err, io.EOF):
			return packs
		case err != nil:
			t.Fatal(err)
		}
		packs = append(packs, p)
	}
}

// check returns a line for every violation of the rules.
func check(rules []rule, packs []pack) []string {
	var found []string
	report := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	seen := map[string]bool{}
	for _, p := range packs {
		pkg := relative(p.ImportPath)
		seen[pkg] = true
		r, ok := ruleOf(rules, pkg)
		if !ok {
			report("%s has no rule: give it a row in hack/boundaries", pkg)
			continue
		}
		for _, to := range p.Imports {
			if !r.allows(to) {
				report("%s imports %s: %s", pkg, to, r.why)
			}
			if is(relative(to), testOnly...) && !under(pkg, outer...) {
				report("%s imports %s, which is for tests", pkg, to)
			}
		}
		for _, to := range p.Deps {
			if under(to, r.never...) {
				report("%s depends on %s, if only through another package: %s", pkg, to, r.why)
			}
		}
		for _, to := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if own(to) && under(relative(to), outer...) && !under(pkg, outer...) {
				report("%s, or a test of it, imports %s: suites and scripts look in from outside", pkg, to)
			}
		}
	}
	for _, r := range rules {
		if r.must && !seen[r.pkg] {
			report("package %s is missing", r.pkg)
		}
	}
	return found
}

// ruleOf returns the package's own rule or that of the nearest folder with one.
func ruleOf(rules []rule, pkg string) (rule, bool) {
	named := func(name string) (rule, bool) {
		i := slices.IndexFunc(rules, func(r rule) bool { return r.pkg == name })
		if i < 0 {
			return rule{}, false
		}
		return rules[i], true
	}
	r, ok := named(pkg)
	for folder := pkg; !ok && folder != "."; folder = path.Dir(folder) {
		r, ok = named(folder + "/...")
	}
	return r, ok
}

func (r rule) allows(to string) bool {
	switch {
	case own(to):
		return is(anything, r.own...) || is(relative(to), r.own...)
	case standard(to):
		return true
	}
	return is(anything, r.others...) || under(to, r.others...)
}

// own says whether the package is of this module.
func own(pkg string) bool { return under(pkg, module) }

// standard says whether the package is of the standard library: those of modules
// have a dot in their first segment.
func standard(pkg string) bool {
	first, _, _ := strings.Cut(pkg, "/")
	return !strings.Contains(first, ".")
}

// relative returns the path within the module.
func relative(pkg string) string {
	if pkg == module {
		return "."
	}
	return strings.TrimPrefix(pkg, module+"/")
}

func is(name string, names ...string) bool { return slices.Contains(names, name) }

// under says whether the path is one of the folders or inside one.
func under(name string, folders ...string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return name == f || strings.HasPrefix(name, f+"/") })
}
