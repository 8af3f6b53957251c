package execution_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// refused fails unless the error is an [*execution.InvalidError] about what; without
// what, unless there is none.
func refused(t *testing.T, err error, what string) {
	t.Helper()
	if what == "" {
		if err != nil {
			t.Errorf("refused: %v", err)
		}
		return
	}
	var invalid *execution.InvalidError
	if !errors.As(err, &invalid) || invalid.What != what || !strings.HasPrefix(err.Error(), what+" ") {
		t.Errorf("got %v, want an *InvalidError about the %s", err, what)
	}
}

func TestStoreIDs(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", execution.MaxNameBytes)
	for name, c := range map[string]struct {
		id   execution.StoreID
		what string // the refused part; empty: none
	}{
		"plain":            {execution.StoreID{Name: "stock", ID: "eu"}, ""},
		"any characters":   {execution.StoreID{Name: "a/b 🦀", ID: "../%2F\n"}, ""},
		"of 512 bytes":     {execution.StoreID{Name: long, ID: long}, ""},
		"none":             {execution.StoreID{}, "store name"},
		"no name":          {execution.StoreID{ID: "eu"}, "store name"},
		"no id":            {execution.StoreID{Name: "stock"}, "store id"},
		"name of 513":      {execution.StoreID{Name: long + "a", ID: "eu"}, "store name"},
		"id of 513":        {execution.StoreID{Name: "stock", ID: long + "a"}, "store id"},
		"NUL in the name":  {execution.StoreID{Name: "\x00", ID: "eu"}, "store name"},
		"id that's broken": {execution.StoreID{Name: "stock", ID: "\xff"}, "store id"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, c.id.Validate(), c.what)
		})
	}
}

func TestStoreIDAsText(t *testing.T) {
	t.Parallel()
	id := execution.StoreID{Name: "stock", ID: "a/b"}
	if got := id.String(); got != "stock/a/b" {
		t.Errorf("String() = %q", got)
	}
	const want = `{"storeName":"stock","storeId":"a/b"}`
	b, err := json.Marshal(id)
	if err != nil || string(b) != want {
		t.Errorf("got %s, %v, want %s", b, err, want)
	}
	var back execution.StoreID
	if err := json.Unmarshal(b, &back); err != nil || back != id {
		t.Errorf("read back %+v, %v; want %+v", back, err, id)
	}
}

func TestStepIDs(t *testing.T) {
	t.Parallel()
	const lastRun = 9_999_999_999
	for name, c := range map[string]struct {
		id   execution.StepID
		what string // the refused part; empty: none
	}{
		"of the engine":          {execution.StepID{Execution: "order/42", Incarnation: 7, Run: 1, Step: "take one"}, ""},
		"of another runtime":     {execution.StepID{Execution: "py-1", Step: "0"}, ""},
		"greatest numbers":       {execution.StepID{Execution: "a", Incarnation: 1<<63 - 1, Run: lastRun, Step: "k"}, ""},
		"none":                   {execution.StepID{}, "execution id"},
		"no execution":           {execution.StepID{Step: "k"}, "execution id"},
		"no step":                {execution.StepID{Execution: "a"}, "step key"},
		"step with a NUL":        {execution.StepID{Execution: "a", Step: "k\x00"}, "step key"},
		"incarnation below zero": {execution.StepID{Execution: "a", Incarnation: -1, Step: "k"}, "incarnation"},
		"run below zero":         {execution.StepID{Execution: "a", Run: -1, Step: "k"}, "run"},
		"run too great":          {execution.StepID{Execution: "a", Run: lastRun + 1, Step: "k"}, "run"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, c.id.Validate(), c.what)
		})
	}
}
