package embedded

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
)

// lockName is the file whose lock says that the data directory is in use. Its first
// line is the process id of the last who used it, its second one where that etcd
// listens, once it does. It stays.
const lockName = "holdfast.lock"

// ErrNotServed says that no etcd serves a data directory.
var ErrNotServed = errors.New("no process serves it now")

// lockPatience is how long a lock is tried that somebody holds, perhaps only to see
// whether anybody does: see [Serving].
const lockPatience = 100 * time.Millisecond

// lockDir makes the data directory and locks it, or fails almost at once: etcd itself
// would wait for the other process without end. Closing the file unlocks. The
// address is the one where the directory was served before, or empty.
func lockDir(dir string) (f *os.File, before string, err error) {
	if err := os.MkdirAll(dir, fileutil.PrivateDirMode); err != nil {
		return nil, "", fmt.Errorf("embedded etcd: data directory %q can't be made: %w", dir, err)
	}
	path := filepath.Join(dir, lockName)
	locked, err := tryLock(path)
	if errors.Is(err, fileutil.ErrLocked) {
		pid, _ := signature(path)
		return nil, "", fmt.Errorf("embedded etcd: data directory %q is in use by %s: stop that one, or give another directory", dir, owner(pid))
	}
	if err != nil {
		return nil, "", fmt.Errorf("embedded etcd: data directory %q is not writable: %w", dir, err)
	}
	_, before = signature(path)
	if err := sign(locked.File, ""); err != nil {
		return nil, "", errors.Join(fmt.Errorf("embedded etcd: data directory %q is not writable: %w", dir, err), locked.Close())
	}
	return locked.File, before, nil
}

func tryLock(path string) (locked *fileutil.LockedFile, err error) {
	const pauses = 5
	for i := 0; ; i++ {
		locked, err = fileutil.TryLockFile(path, os.O_RDWR|os.O_CREATE, fileutil.PrivateFileMode)
		if !errors.Is(err, fileutil.ErrLocked) || i == pauses {
			return locked, err
		}
		<-time.After(lockPatience / pauses)
	}
}

// sign writes who has the lock, and where it listens.
func sign(f *os.File, endpoint string) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"+endpoint+"\n"), 0)
	return err
}

// signature reads what the last holder of the lock signed with, as far as there is
// anything to read.
func signature(path string) (pid, endpoint string) {
	f, err := os.Open(path)
	if err != nil {
		return "", ""
	}
	defer func() { _ = f.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(f, 1<<10))
	if err != nil {
		return "", ""
	}
	pid, rest, _ := strings.Cut(string(text), "\n")
	endpoint, _, _ = strings.Cut(rest, "\n")
	return strings.TrimSpace(pid), strings.TrimSpace(endpoint)
}

// owner names the process that holds the lock.
func owner(pid string) string {
	if pid == "" {
		return "another process"
	}
	return "process " + pid
}

// Serving returns the endpoint of the etcd that serves the data directory now, in
// whatever process, or an error that wraps [ErrNotServed]. It makes nothing and
// believes only what is written by a process that lives: the lock of one that was
// killed has ended with it.
func Serving(dir string) (string, error) {
	path := filepath.Join(dir, lockName)
	locked, err := fileutil.TryLockFile(path, os.O_RDWR, fileutil.PrivateFileMode)
	switch {
	case err == nil:
		return "", errors.Join(fmt.Errorf("data directory %q: %w", dir, ErrNotServed), locked.Close())
	case errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("data directory %q: %w", dir, ErrNotServed)
	case !errors.Is(err, fileutil.ErrLocked):
		return "", fmt.Errorf("data directory %q: %w", dir, err)
	}
	pid, endpoint := signature(path)
	if endpoint == "" {
		return "", fmt.Errorf("data directory %q is in use by %s, whose etcd is not up; try again in a moment: %w", dir, owner(pid), ErrNotServed)
	}
	return endpoint, nil
}
