package embedded

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
)

// lockName is the file whose lock says that the data directory is in use, and
// which holds the process id of the last who used it. It stays.
const lockName = "holdfast.lock"

// lockDir makes the data directory and locks it, or fails at once: etcd itself
// would wait for the other process without end. Closing the file unlocks.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, fileutil.PrivateDirMode); err != nil {
		return nil, fmt.Errorf("embedded etcd: data directory %q can't be made: %w", dir, err)
	}
	path := filepath.Join(dir, lockName)
	locked, err := fileutil.TryLockFile(path, os.O_RDWR|os.O_CREATE, fileutil.PrivateFileMode)
	if errors.Is(err, fileutil.ErrLocked) {
		return nil, fmt.Errorf("embedded etcd: data directory %q is in use by %s: stop that one, or give another directory", dir, owner(path))
	}
	if err != nil {
		return nil, fmt.Errorf("embedded etcd: data directory %q is not writable: %w", dir, err)
	}
	if err := sign(locked.File); err != nil {
		return nil, errors.Join(fmt.Errorf("embedded etcd: data directory %q is not writable: %w", dir, err), locked.Close())
	}
	return locked.File, nil
}

func sign(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// owner names the process that holds the lock, as far as the file tells.
func owner(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return "another process"
	}
	defer func() { _ = f.Close() }() // it was only read
	pid, err := io.ReadAll(io.LimitReader(f, 32))
	if err != nil || len(pid) == 0 {
		return "another process"
	}
	return "process " + strings.TrimSpace(string(pid))
}
