package execution

// An AppliedEvent names an event that was sent to an execution, and that a step is
// recorded with.
type AppliedEvent struct {
	Name string // what is waited for: 1 to 512 bytes of UTF-8 without NUL
	ID   string // tells it from others of the name; likewise
	// Digest is that of its payload, as its sender wrote it; its receipt keeps it.
	Digest string
}

// Validate returns an [*InvalidError] unless the names are well formed.
func (e AppliedEvent) Validate() error {
	if err := ValidateName("event name", e.Name); err != nil {
		return err
	}
	return ValidateName("event id", e.ID)
}
