package keyspace

// Start returns the key of what the step's start of a workflow came to.
func (s Space) Start(c CallKey) string { return s.root + "start/" + c.segments() }

// StartsOf returns the span of every start of the execution, whatever its incarnation
// and run.
func (s Space) StartsOf(id string) Span { return prefixSpan(s.root + "start/" + escape(id) + "/") }

// StartsOfRun returns the span of the starts of one run.
func (s Space) StartsOfRun(id string, inc, run int64) Span {
	return prefixSpan(s.root + "start/" + runSegments(id, inc, run))
}

// Starts returns the span of the starts of all executions.
func (s Space) Starts() Span { return prefixSpan(s.root + "start/") }

// Ending returns the store as whose change the end of the execution is waited for. The
// name is frozen.
func Ending(id string) StoreKey { return StoreKey{Name: "holdfast:execution", ID: id} }
