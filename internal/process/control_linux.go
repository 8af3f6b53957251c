package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// stopped says whether every thread of the process is stopped. The state that
// /proc shows of a process is its first thread's only; the others stop a moment
// earlier or later.
func stopped(pid int) (bool, error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "task")
	threads, err := os.ReadDir(dir)
	if err != nil {
		return false, err
	}
	for _, t := range threads {
		stat, err := os.ReadFile(filepath.Join(dir, t.Name(), "stat"))
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			return false, nil // that thread has just ended; look again
		}
		if err != nil {
			return false, err
		}
		s, err := state(stat)
		if err != nil || s != 'T' {
			return false, err
		}
	}
	return len(threads) > 0, nil
}

// state returns the third field of a stat line. The second is the program's name
// in parentheses and may hold anything.
func state(stat []byte) (byte, error) {
	i := bytes.LastIndex(stat, []byte(") "))
	if i < 0 || i+2 >= len(stat) {
		return 0, fmt.Errorf("stat line %q has no state", stat)
	}
	return stat[i+2], nil
}
