package storeapi

// MaxConnections bounds how many connections are open at once, unless it is configured
// otherwise. Where the process may have few files open it is less, a quarter of those:
// an etcd in the same process ends when it can't open its own.
const MaxConnections = 1024

// defaultConnections returns the bound for a process that may have so many files open.
func defaultConnections(files uint64) int {
	return int(min(MaxConnections, max(files/4, 1)))
}
