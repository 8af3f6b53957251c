package demo

import (
	"encoding/json"
	"fmt"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A Report is what came of a demo. Its JSON is what --json prints.
type Report struct {
	Orders         int            `json:"orders"`
	Completed      int            `json:"completed"`
	Failed         int            `json:"failed"`
	ChargeAttempts int            `json:"chargeAttempts"`
	Charges        int            `json:"charges"`
	Takeovers      int            `json:"takeovers"`
	RefusedWrites  []RefusedWrite `json:"refusedWrites"`
	// AcceptedStaleWrites is counted by a watch of every revision.
	AcceptedStaleWrites int `json:"acceptedStaleWrites"`
	SkippedLines        int `json:"skippedLines"`

	Workers int    `json:"-"`
	Lease   string `json:"-"`
	Killed  string `json:"-"` // the workers' names
	Frozen  string `json:"-"`
	Ledger  string `json:"-"` // the file, if it is kept
	// Problems are the reasons why the demo has failed; none: it hasn't.
	Problems []string `json:"-"`
}

// A RefusedWrite is a fenced operation (a step, a renewal, a release or an
// acknowledgement) of a holder whose token was not current any more.
type RefusedWrite struct {
	ExecutionID execution.ID    `json:"executionId"`
	Operation   string          `json:"operation"`
	Carried     execution.Token `json:"carried"`
	Current     execution.Token `json:"current"`

	Worker string `json:"-"`
}

// OK says that everything that the demo promises was seen to hold.
func (r *Report) OK() bool { return len(r.Problems) == 0 }

// JSON renders the report in one line.
func (r *Report) JSON() ([]byte, error) {
	c := *r
	if c.RefusedWrites == nil {
		c.RefusedWrites = []RefusedWrite{}
	}
	return json.Marshal(c)
}

func (r *Report) problem(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}
