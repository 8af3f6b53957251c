//go:build unix

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Freeze stops the child with SIGSTOP and returns once nothing of it runs.
func (c *Child) Freeze(ctx context.Context) error {
	if err := c.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		is, err := stopped(c.Pid())
		switch {
		case err != nil:
			return fmt.Errorf("freeze %s (pid %d): %w", c.name, c.Pid(), err)
		case is:
			return nil
		}
		select {
		case <-tick.C:
		case <-c.done:
			return fmt.Errorf("freeze %s (pid %d): it has ended", c.name, c.Pid())
		case <-ctx.Done():
			return fmt.Errorf("freeze %s (pid %d): %w", c.name, c.Pid(), context.Cause(ctx))
		}
	}
}

// Thaw lets a frozen child go on.
func (c *Child) Thaw() error { return c.signal(syscall.SIGCONT) }

func isGone(err error) bool {
	return errors.Is(err, os.ErrProcessDone) || errors.Is(err, syscall.ESRCH)
}
