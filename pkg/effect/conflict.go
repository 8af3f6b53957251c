package effect

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// The bounds of the reports that are kept of one effect. Those that come later are only
// counted, and results for which there is no room are known by their digest.
const (
	maxReports     = 16
	maxReportBytes = 640 << 10
)

// A Conflict is an effect for which results were brought that differ from the one that
// it is settled with. It may have been done more than once.
type Conflict struct {
	Effect    string // its id
	Operation string
	Result    Result // what counts
	Settled   By     // who has settled it
	Reports   []Report
	Omitted   int64 // how many reports more there were
}

// A Report is a result that does not count.
type Report struct {
	Result Result // neither a value nor a refusal: it was too large to be kept
	SHA256 string // of the result as it would have been kept
	By     By     // who has brought it
}

// reports is what the store of an effect's conflicts holds. Frozen.
type reports struct {
	V         int      `json:"v"`
	Operation string   `json:"operation"`
	Result    *Result  `json:"result"`
	Settled   *mark    `json:"settled"`
	Reports   []report `json:"reports"`
	Omitted   int64    `json:"omitted,omitempty"`
}

// A report is one of them. Frozen.
type report struct {
	Result *Result `json:"conflictingResult,omitempty"`
	SHA256 string  `json:"sha256"`
	mark
}

func conflictsOf(id string) execution.StoreID { return execution.StoreID{Name: conflicts, ID: id} }

// newReport returns the report and how many bytes its result takes.
func newReport(r Result, by mark) (report, int, error) {
	doc, err := encode(r)
	sum := sha256.Sum256(doc)
	return report{Result: &r, SHA256: hex.EncodeToString(sum[:]), mark: by}, len(doc), err
}

// add adds a report, unless the same step has brought the same result before.
func (r *reports) add(n report, size int) (added bool, err error) {
	same := func(o report) bool {
		return o.SHA256 == n.SHA256 && o.Execution == n.Execution && o.Run == n.Run && o.Step == n.Step
	}
	if slices.ContainsFunc(r.Reports, same) {
		return false, nil
	}
	if len(r.Reports) == maxReports {
		r.Omitted++
		return true, nil
	}
	doc, err := encode(r.Reports)
	if err != nil {
		return false, err
	}
	if len(doc)+size > maxReportBytes {
		n.Result = nil
	}
	r.Reports = append(r.Reports, n)
	return true, nil
}

// report keeps that a result was brought for an effect that was settled before.
func (c *Client) report(ctx context.Context, id string, before *state, r Result, by mark) error {
	n, size, err := newReport(r, by)
	if err != nil {
		return err
	}
	first, err := encode(reports{V: version, Operation: before.Operation, Result: before.Result, Settled: before.Settled, Reports: []report{}})
	if err != nil {
		return err
	}
	key := conflictsOf(id)
	if _, err := c.protocol.Create(ctx, key, func() ([]byte, error) { return first, nil }); err != nil {
		return err
	}
	_, err = c.protocol.Update(ctx, key, nil, "report", func(now stores.Snapshot) (*stores.Mutation, error) {
		all, err := decodeReports(id, now.State)
		if err != nil {
			return nil, err
		}
		added, err := all.add(n, size)
		if !added || err != nil {
			return nil, err
		}
		doc, err := encode(all)
		return &stores.Mutation{State: doc, Changed: stores.Paths{{}}, Result: []byte("null")}, err
	})
	return err
}

func decodeReports(id string, raw []byte) (reports, error) {
	var r reports
	err := json.Unmarshal(raw, &r)
	if err == nil {
		err = checkVersion(r.V)
	}
	if err == nil && r.Result == nil {
		err = errors.New("there is no result in it")
	}
	if err != nil {
		return r, &Error{Effect: id, Why: CodeInvariant, Reason: "the reports of its conflicts are not readable", Err: err}
	}
	return r, nil
}

// Conflicts returns the effects for which conflicts were reported, in the order of
// their ids. They are kept for ever. An effect whose reports can't be read is left out,
// and named by the error beside the others.
func (c *Client) Conflicts(ctx context.Context) ([]Conflict, error) {
	if c.bad != nil {
		return nil, c.bad
	}
	ids, err := c.protocol.List(ctx, conflicts)
	if err != nil {
		return nil, fmt.Errorf("list the conflicts of effects: %w", err)
	}
	var all []Conflict
	var unreadable error
	for _, id := range ids {
		now, err := c.protocol.Get(ctx, conflictsOf(id))
		if err != nil {
			return nil, kept(id, err)
		}
		r, err := decodeReports(id, now.State)
		if err != nil {
			unreadable = errors.Join(unreadable, err)
			continue
		}
		if len(r.Reports) > 0 { // whoever was to report may have died
			all = append(all, r.conflict(id))
		}
	}
	return all, unreadable
}

// conflict returns the reports as callers are given them.
func (r *reports) conflict(id string) Conflict {
	c := Conflict{Effect: id, Operation: r.Operation, Result: *r.Result, Settled: r.Settled.by(), Omitted: r.Omitted}
	for _, one := range r.Reports {
		out := Report{SHA256: one.SHA256, By: one.by()}
		if one.Result != nil {
			out.Result = *one.Result
		}
		c.Reports = append(c.Reports, out)
	}
	return c
}
