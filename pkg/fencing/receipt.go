package fencing

import (
	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// Receipted returns the compares of a write that leaves a receipt, in the place of a
// [Guard]: the step's execution is there, of the step's incarnation and in its run, and
// is not being deleted. So nothing is applied of what was deleted, whose receipts are
// gone. Whoever holds the execution plays no part. (I10)
func Receipted(space keyspace.Space, step execution.StepID) []etcd.Compare {
	id := string(step.Execution)
	return []etcd.Compare{
		etcd.CreatedIs(space.State(id), step.Incarnation), etcd.Absent(space.Purging(id)), inRun(space, step),
	}
}

// inRun demands what shows that the step's run is the current one: its params are there
// or, in the first run, those of no run are.
func inRun(space keyspace.Space, step execution.StepID) etcd.Compare {
	if step.Run > 0 {
		return etcd.Present(space.Params(string(step.Execution), step.Incarnation, step.Run))
	}
	runs := space.ParamsOf(string(step.Execution), step.Incarnation)
	return etcd.RangeEmpty(runs.Start, runs.End)
}

// ReceiptedGets returns the operations whose results [Gone] reads.
func ReceiptedGets(space keyspace.Space, step execution.StepID) []etcd.Op {
	id, run := string(step.Execution), inRun(space, step)
	return []etcd.Op{
		etcd.Get{Key: space.State(id), KeysOnly: true},
		etcd.Get{Key: space.Purging(id), KeysOnly: true},
		etcd.Get{Key: run.Key, End: run.End, Limit: 1, KeysOnly: true},
	}
}

// Gone says why the compares of [Receipted] can't hold any more; empty: they do.
func Gone(step execution.StepID, results []etcd.Result) string {
	state, _ := results[0].One()
	_, purging := results[1].One()
	_, params := results[2].One()
	switch {
	case state.Created != step.Incarnation || purging:
		return "the execution was deleted"
	case params != (step.Run > 0):
		return "the execution went on as another run"
	}
	return ""
}
