package holdfast

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A Fencing is what a step can pass on to an external system, so that it refuses
// to do one thing twice, and refuses a holder that comes late.
type Fencing = execution.Fencing

// Fence returns the step's idempotency key and fencing token. ctx is the context
// that the step's function was given, or one derived from it; with any other one
// the result is the zero Fencing.
func Fence(ctx context.Context) Fencing { return execution.FencingOf(ctx) }

// fencing makes the Fencing of one step.
func fencing(namespace string, lease execution.Lease, step string) Fencing {
	return Fencing{
		Key:         idempotencyKey(namespace, lease, step),
		Token:       int64(lease.Token),
		Namespace:   namespace,
		ExecutionID: string(lease.ID),
		Step:        step,
	}
}

// idempotencyKey is frozen: an external system may remember the key of a step
// that an earlier release ran. None of the parts can hold a NUL.
func idempotencyKey(namespace string, lease execution.Lease, step string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{
		namespace, string(lease.ID),
		strconv.FormatInt(lease.Incarnation, 10), strconv.FormatInt(lease.Run, 10),
		step,
	}, "\x00")))
	return "hf-" + hex.EncodeToString(sum[:16])
}
