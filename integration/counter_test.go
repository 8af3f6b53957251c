package integration_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/pkg/store"
)

const (
	counterExecutions = 50
	counterSteps      = 100

	// counterTries is more often than any update may have to begin anew. With three
	// processes whose calls take turns it needs a handful.
	counterTries = 200
)

var counter = store.Define[int]("counter")

func counterTrade(say say) []holdfast.WorkerOption {
	return []holdfast.WorkerOption{holdfast.Define("count", func(ctx holdfast.Context, _ int) (int, error) {
		for i := range counterSteps {
			tries := 0
			_, err := store.Update(ctx, fmt.Sprintf("add-%d", i), counter.At("shared"), func(n *int) error {
				tries++
				*n++
				return nil
			})
			if tries > 1 {
				say("tries %d", tries)
			}
			if err != nil {
				return 0, err
			}
		}
		return counterSteps, nil
	})}
}

// TestCounterUnderKills: 50 executions each add 1 to one store 100 times, while
// workers are killed. Nothing is lost and nothing doubled, there is one receipt a
// step, and nobody waits for the others without end.
func TestCounterUnderKills(t *testing.T) {
	t.Parallel()
	var most high
	f := newFleet(t, "counter", 3, func(line string) {
		if n, err := strconv.ParseInt(strings.TrimPrefix(line, "tries "), 10, 64); err == nil {
			most.see(n)
		}
	})
	shared := counter.At("shared").On(f.client.Stores())
	if _, err := shared.GetOrCreate(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	kills := f.killWhile(2*time.Second, func() { f.runAll("count", counterExecutions) })
	now, err := shared.Get(t.Context())
	const sum = counterExecutions * counterSteps
	if err != nil || now.State != sum || now.Version != sum {
		t.Errorf("the store holds %d at version %d, %v; want %d at version %d", now.State, now.Version, err, sum, sum)
	}
	receipts := f.h.space.Receipts()
	if n := f.keysOf(receipts.Start, receipts.End); n != sum {
		t.Errorf("%d receipts, want %d", n, sum)
	}
	if most.n.Load() > counterTries {
		t.Errorf("an update began anew %d times", most.n.Load())
	}
	t.Logf("%d workers were killed; no update ran more than %d times", kills, max(most.n.Load(), 1))
}

// runAll starts n executions of the workflow, with the ids 0 to n-1 and these as their
// inputs, and waits for all of them to complete.
func (f *fleet) runAll(workflow string, n int) {
	stub := holdfast.Define(workflow, func(holdfast.Context, int) (int, error) { return 0, nil })
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			h, err := stub.Start(f.t.Context(), f.client, i, holdfast.WithID(strconv.Itoa(i)))
			if err == nil {
				_, err = h.Wait(f.t.Context())
			}
			if err != nil {
				f.t.Errorf("execution %d: %v", i, err)
			}
		})
	}
	all.Wait()
}
