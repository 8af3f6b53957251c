package fencing_test

import (
	"testing"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
)

// Whatever there is of the execution: the compares hold if and only if Gone has nothing
// to say.
func TestReceipted(t *testing.T) {
	const deleted, turned = "the execution was deleted", "the execution went on as another run"
	for name, c := range map[string]struct {
		state, purging bool
		older          bool  // the step's incarnation is not the state's
		params         int64 // of which run there are params; 0: of none
		run            int64 // the step's
		gone           string
	}{
		"the first run":              {state: true},
		"another run":                {state: true, params: 3, run: 3},
		"nothing":                    {gone: deleted},
		"an earlier incarnation":     {state: true, older: true, gone: deleted},
		"being deleted":              {state: true, purging: true, gone: deleted},
		"being deleted, another run": {state: true, purging: true, params: 3, run: 2, gone: deleted},
		"the first run has ended":    {state: true, params: 1, gone: turned},
		"a later run has ended":      {state: true, params: 3, run: 2, gone: turned},
		"a run that is to come":      {state: true, run: 1, gone: turned},
	} {
		t.Run(name, func(t *testing.T) {
			store, space := testetcd.Start(t), testetcd.Space(t)
			step := execution.StepID{Execution: "a/b", Incarnation: 1, Run: c.run, Step: "s"}
			write := func(key string) int64 {
				t.Helper()
				res, err := store.Txn(t.Context(), &etcd.Txn{Then: []etcd.Op{etcd.Put{Key: key, Value: []byte("x")}}})
				if err != nil {
					t.Fatal(err)
				}
				return res.Revision
			}
			if c.state {
				step.Incarnation = write(space.State("a/b"))
			}
			if c.purging {
				write(space.Purging("a/b"))
			}
			if c.params > 0 {
				write(space.Params("a/b", step.Incarnation, c.params))
			}
			if c.older {
				step.Incarnation--
			}
			gets := fencing.ReceiptedGets(space, step)
			res, err := store.Txn(t.Context(), &etcd.Txn{If: fencing.Receipted(space, step), Then: gets, Else: gets})
			if err != nil {
				t.Fatal(err)
			}
			if gone := fencing.Gone(step, res.Results); gone != c.gone || res.Succeeded != (gone == "") {
				t.Errorf("the compares hold: %t, and it is gone by %q, want %q", res.Succeeded, gone, c.gone)
			}
		})
	}
}
