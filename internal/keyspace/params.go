package keyspace

// Params returns the key of the params of one run, but for the first one, whose
// params are in the spec.
func (s Space) Params(id string, inc, run int64) string {
	return s.params(id, inc) + counter(run)
}

func (s Space) params(id string, inc int64) string {
	return s.root + "params/" + escape(id) + "/" + number(inc, revisionDigits) + "/"
}

// ParamsOf returns the span of the params of an incarnation's runs, by run.
func (s Space) ParamsOf(id string, inc int64) Span { return prefixSpan(s.params(id, inc)) }

// AnyParams returns the span of the params of the id's runs, whatever its incarnation.
func (s Space) AnyParams(id string) Span { return prefixSpan(s.root + "params/" + escape(id) + "/") }

// AllParams returns the span of the params of all executions.
func (s Space) AllParams() Span { return prefixSpan(s.root + "params/") }
