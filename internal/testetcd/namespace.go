package testetcd

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/holdfast-io/holdfast/internal/keyspace"
)

var namespaces atomic.Int64

// namespace returns a new namespace that begins with as much of the test's name
// as fits.
func namespace(test string) string {
	suffix := fmt.Sprintf("-%d", namespaces.Add(1))
	room := min(len(test), keyspace.MaxNamespaceBytes-len(suffix))
	return strings.ToValidUTF8(test[:room], "") + suffix
}
