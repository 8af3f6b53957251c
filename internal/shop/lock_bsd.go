//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package shop

import (
	"errors"
	"os"
	"syscall"
)

// lockFile locks the file until it is closed, or says that somebody else has.
func lockFile(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errLedgerInUse
	}
	return err
}
