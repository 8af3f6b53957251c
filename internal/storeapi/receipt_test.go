package storeapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/internal/storeapi"
)

// A step id names one call: the receipt of a commit says nothing of a deletion, and that
// of a deletion nothing of a commit.
func TestReceiptsOfOtherCalls(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	commit := `{` + key + `,"expected":%s,"nextState":1,"changedPaths":[[]],"result":null,%s}`
	remove := `{` + key + `,"expected":%s,%s}`
	other := strings.Replace(step, `"s"`, `"t"`, 1)
	s.expect(`{"status":"committed"}`, "commit", commit, s.version("a"), step)
	at := s.version("a")
	got := s.refused(storeapi.Invalid, "deleteStoreFrom", fmt.Sprintf(remove, at, step))
	if !strings.Contains(got, `was used for another call, of the kind "commit"`) {
		t.Errorf("got %s", got)
	}
	s.expect(`{"deleted":true}`, "deleteStoreFrom", remove, at, other)
	at = s.version("a")
	got = s.refused(storeapi.Invalid, "commit", fmt.Sprintf(commit, at, other))
	if !strings.Contains(got, `was used for another call, of the kind "delete"`) {
		t.Errorf("got %s", got)
	}
	if now := s.version("a"); now != at {
		t.Errorf("the store became %s", now)
	}
}

// Documents that could not be read in an answer are refused.
func TestDeepDocuments(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	got := s.refused(storeapi.Invalid, "createStore", `{`+key+`,"state":`+strings.Repeat("[", 9001)+strings.Repeat("]", 9001)+`}`)
	if !strings.Contains(got, "is nested deeper than 9000 levels") {
		t.Errorf("got %s", got)
	}
}
