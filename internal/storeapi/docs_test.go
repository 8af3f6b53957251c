package storeapi_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

var (
	example  = regexp.MustCompile(`(?m)^\$ curl -s \$NS/(\w+) -d '([^']*)'\n(.*)$`)
	commands = regexp.MustCompile(`(?m)^\$ `)
	instance = regexp.MustCompile(`"instanceId":"([^"]*)"`)
)

// ids are the ids of the text, by those that take their place here.
type ids map[string]string

// replace puts the ids of here into a text, or, back, those of the text.
func (i ids) replace(text string, back bool) string {
	for theirs, ours := range i {
		if back {
			theirs, ours = ours, theirs
		}
		text = strings.ReplaceAll(text, theirs, ours)
	}
	return text
}

// TestExamplesOfTheDescription runs the session of docs/store-api.md. Ids differ from
// time to time, and so does the order of wakes.
func TestExamplesOfTheDescription(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/store-api.md")
	if err != nil {
		t.Fatal(err)
	}
	s, known, ran := newScene(t), ids{}, map[string]bool{}
	found := example.FindAllStringSubmatch(string(text), -1)
	if n := len(commands.FindAll(text, -1)); n != len(found) || n == 0 {
		t.Fatalf("%d of %d commands were understood", len(found), n)
	}
	for _, e := range found {
		op, body, want := e[1], known.replace(e[2], false), e[3]
		_, got := s.post("shop", op, body)
		ran[op] = true
		if op == "pendingWakes" {
			theirs, ours := byEvent(t, want), byEvent(t, got)
			for event, id := range theirs {
				if ours[event] == "" || len(ours) != len(theirs) {
					t.Fatalf("%s\n got %s\nwant %s", op, got, want)
				}
				known[id] = ours[event]
			}
			continue
		}
		if theirs, ours := instance.FindStringSubmatch(want), instance.FindStringSubmatch(got); theirs != nil && ours != nil {
			known[theirs[1]] = ours[1]
		}
		if got = known.replace(got, true); got != want {
			t.Errorf("%s %s\n got %s\nwant %s", op, e[2], got, want)
		}
	}
	if len(ran) != 11 {
		t.Errorf("the examples are of %d operations, want all 11", len(ran))
	}
}

// byEvent returns the wakes' ids by their events.
func byEvent(t *testing.T, answer string) map[string]string {
	t.Helper()
	var p struct{ Wakes []wake }
	if err := json.Unmarshal([]byte(answer), &p); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, w := range p.Wakes {
		out[string(w.Event)] = w.ID
	}
	return out
}
