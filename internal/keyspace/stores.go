package keyspace

// A StoreKey names a store.
type StoreKey struct{ Name, ID string }

// A CallKey names one step of an execution, as the keys of stores do: without the
// attempt.
type CallKey struct {
	ID          string
	Incarnation int64 // not negative
	Run         int64 // 0 to MaxCounter; one outside is written as the nearest
	Step        string
}

func (k StoreKey) segments() string { return escape(k.Name) + "/" + escape(k.ID) }

func (k CallKey) segments() string { return runSegments(k.ID, k.Incarnation, k.Run) + escape(k.Step) }

func runSegments(id string, inc, run int64) string {
	return escape(id) + "/" + number(inc, revisionDigits) + "/" + counter(run) + "/"
}

// Store returns the key of the store.
func (s Space) Store(k StoreKey) string { return s.root + "store/" + k.segments() }

// Stores returns the span of the stores of one definition.
func (s Space) Stores(name string) Span { return prefixSpan(s.root + "store/" + escape(name) + "/") }

// AllStores returns the span of all stores.
func (s Space) AllStores() Span { return prefixSpan(s.root + "store/") }

// Receipt returns the key of what the step's mutation of the store came to.
func (s Space) Receipt(c CallKey, k StoreKey) string {
	return s.root + "receipt/" + c.segments() + "/" + k.segments()
}

// ReceiptsOf returns the span of every receipt of the execution, whatever its
// incarnation and run.
func (s Space) ReceiptsOf(id string) Span { return prefixSpan(s.root + "receipt/" + escape(id) + "/") }

// ReceiptsOfRun returns the span of the receipts of one run.
func (s Space) ReceiptsOfRun(id string, inc, run int64) Span {
	return prefixSpan(s.root + "receipt/" + runSegments(id, inc, run))
}

// Receipts returns the span of the receipts of all executions.
func (s Space) Receipts() Span { return prefixSpan(s.root + "receipt/") }

// Waiter returns the key of the step's registration at the store.
func (s Space) Waiter(k StoreKey, c CallKey) string { return s.waiters(k) + c.segments() }

func (s Space) waiters(k StoreKey) string { return s.root + "waiter/" + k.segments() + "/" }

// WaitersOf returns the span of the registrations at one store.
func (s Space) WaitersOf(k StoreKey) Span { return prefixSpan(s.waiters(k)) }

// Waiters returns the span of the registrations at all stores.
func (s Space) Waiters() Span { return prefixSpan(s.root + "waiter/") }

// parseStoreKey reads a name and an id.
func parseStoreKey(seg []string) (k StoreKey, err error) {
	if k.Name, err = unescape(seg[0]); err == nil {
		k.ID, err = unescape(seg[1])
	}
	return k, err
}

// parseCallKey reads an id, an incarnation, a run and a step.
func parseCallKey(seg []string) (c CallKey, err error) {
	if c.ID, c.Incarnation, c.Run, err = parseRun(seg); err == nil {
		c.Step, err = unescape(seg[3])
	}
	return c, err
}

func parseRun(seg []string) (id string, inc, run int64, err error) {
	if id, err = unescape(seg[0]); err != nil {
		return id, inc, run, err
	}
	if inc, err = parseNumber(seg[1], revisionDigits); err != nil {
		return id, inc, run, err
	}
	run, err = parseNumber(seg[2], counterDigits)
	return id, inc, run, err
}
