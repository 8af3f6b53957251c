//go:build unix && !linux

package process

import (
	"bytes"
	"os/exec"
	"strconv"
	"syscall"
)

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// stopped says whether the process is stopped, as ps tells it.
func stopped(pid int) (bool, error) {
	out, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return false, err
	}
	return bytes.HasPrefix(bytes.TrimSpace(out), []byte("T")), nil
}
