//go:build unix

package storeapi

import "syscall"

// openFiles returns how many files the process may have open.
func openFiles() uint64 {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 4 * MaxConnections // as where there is no such limit
	}
	return uint64(l.Cur) //nolint:unconvert // it is signed on some systems
}
