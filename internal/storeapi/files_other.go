//go:build !unix

package storeapi

// openFiles returns how many files the process may have open.
func openFiles() uint64 { return 4 * MaxConnections }
