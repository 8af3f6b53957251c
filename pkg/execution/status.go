package execution

// A Status is where an execution is in its life. (RFC 002, Proposed API.)
type Status string

// The five statuses.
const (
	StatusAdmitted  Status = "admitted"  // never acknowledged yet
	StatusRunning   Status = "running"   // a live lease exists
	StatusSuspended Status = "suspended" // acknowledged as suspended at least once
	StatusCompleted Status = "completed" // terminal
	StatusFailed    Status = "failed"    // terminal; a cancelled execution too
)

// Terminal says whether the status never changes again.
func (s Status) Terminal() bool { return s == StatusCompleted || s == StatusFailed }

// Statuses lists every status, in the order of an execution's life.
func Statuses() []Status {
	return []Status{StatusAdmitted, StatusRunning, StatusSuspended, StatusCompleted, StatusFailed}
}
