package boundaries_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A file is one of the tree, with its path from the root.
type file struct {
	path string
	text []byte
}

// skipped are the folders that are not part of the tree: see .gitignore.
var skipped = []string{".git", "bin", ".tools", "holdfast-data"}

// tree reads the files whose names end in one of the suffixes; none: all.
func tree(t *testing.T, suffixes ...string) []file {
	t.Helper()
	var files []file
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(skipped, d.Name()):
			return filepath.SkipDir
		case !d.Type().IsRegular():
			return nil
		case len(suffixes) > 0 && !slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(path, s) }):
			return nil
		}
		text, err := os.ReadFile(path)
		rel := strings.TrimPrefix(filepath.ToSlash(path), filepath.ToSlash(root)+"/")
		files = append(files, file{rel, text})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("no file ends in %q", suffixes)
	}
	return files
}

// A ban is something that no file may hold. Its text is written in pieces, so that
// this file does not hold it.
type ban struct {
	find   *regexp.Regexp
	except string // a file that may hold it
	why    string
}

var bans = []ban{
	{find: regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b(?:[^.(]|$)`), why: "finish it, or write down why it stays"},
	{find: regexp.MustCompile(`(?:^|[^\w.~/-])/(?:wo` + `rk|ro` + `ot|ho` + `me|fa` + `rm|tm` + `p)/`), why: "a path of one machine; a test has t.TempDir"},
	{
		find: regexp.MustCompile(`\bt\.Sk` + `ip(?:f|Now)?\(`), why: "a test that does not run proves nothing",
		except: "integration/conformance/suite.go", // a backend that has no process to kill
	},
	{find: regexp.MustCompile(`^(?:<<<<` + `<<<|>>>>` + `>>>)`), why: "a conflict of a merge"},
}

// unbanned are files whose text is somebody else's.
var unbanned = []string{"LICENSE", "go.sum", "tools/go.sum"}

// TestTreeHoldsNothingBanned looks at every line of every text file.
func TestTreeHoldsNothingBanned(t *testing.T) {
	t.Parallel()
	for _, f := range tree(t) {
		if slices.Contains(unbanned, f.path) || bytes.IndexByte(f.text, 0) >= 0 {
			continue
		}
		for i, line := range strings.Split(string(f.text), "\n") {
			for _, b := range banned(line) {
				if f.path == b.except {
					continue
				}
				t.Errorf("%s:%d: %q: %s", f.path, i+1, strings.TrimSpace(line), b.why)
			}
		}
	}
}

func banned(line string) []ban {
	var found []ban
	for _, b := range bans {
		if b.find.MatchString(line) {
			found = append(found, b)
		}
	}
	return found
}

func TestBansFindWhatIsPlanted(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"// TO" + "DO: later":                 true,
		"// FIX" + "ME":                       true,
		"\tt.Sk" + "ip(\"slow\")":             true,
		"dir := \"/tm" + "p/x\"":              true,
		"see /wo" + "rk/main":                 true,
		"/ro" + "ot/.bashrc":                  true,
		"<<<<" + "<<< HEAD":                   true,
		"context.TO" + "DO()":                 false, // context-as-argument and usetesting look at these
		"docs/wo" + "rk/flows.md":             false,
		"https://example.com/ho" + "me/":      false,
		"mktemp -d holdfast.XX" + "XX" + "XX": false,
		"a method on the todo list":           false,
		"t.Context()":                         false,
	} {
		if got := len(banned(line)) > 0; got != want {
			t.Errorf("%q: banned %v, want %v", line, got, want)
		}
	}
}

// link finds the target of an inline link or image, or of a reference.
var link = regexp.MustCompile(`\]\(<?([^)>\s]+)|^\[[^\]]+\]:\s*<?([^>\s]+)`)

// TestLinksResolve fails for a relative link of a document that leads to no file.
func TestLinksResolve(t *testing.T) {
	t.Parallel()
	for _, f := range tree(t, ".md") {
		for _, target := range targets(string(f.text)) {
			path := filepath.Join(filepath.Dir(f.path), target)
			if !filepath.IsLocal(path) {
				t.Errorf("%s: the link %q leaves the repository", f.path, target)
			} else if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s: the link %q leads to no file: %v", f.path, target, err)
			}
		}
	}
}

// targets returns the relative paths that a document links to, outside its blocks
// of code.
func targets(text string) []string {
	var found []string
	code := false
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
		}
		if code {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(line, -1) {
			target, _, _ := strings.Cut(m[1]+m[2], "#")
			if target != "" && !strings.Contains(target, ":") {
				found = append(found, target)
			}
		}
	}
	return found
}

func TestTargets(t *testing.T) {
	t.Parallel()
	got := targets("See [a](docs/a.md#top), ![b](<b.png>) and [c](https://example.com/c).\n" +
		"[here](#here) [mail](mailto:a@example.com)\n[d]: ../d.md \"title\"\n```\n[e](e.md)\n```\n[f](f.md)")
	if want := []string{"docs/a.md", "b.png", "../d.md", "f.md"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
