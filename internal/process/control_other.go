//go:build !unix

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
)

func attributes() *syscall.SysProcAttr { return nil }

// Freeze needs a system that can stop a process: Unix.
func (c *Child) Freeze(context.Context) error {
	return fmt.Errorf("freeze %s: %w: this system has no SIGSTOP", c.name, errors.ErrUnsupported)
}

// Thaw has nothing to do where nothing can be frozen.
func (c *Child) Thaw() error { return nil }

func isGone(err error) bool { return errors.Is(err, os.ErrProcessDone) }
