// Package process runs child processes that cannot outlive their parent, and
// freezes, wakes and ends them one by one.
//
// A child ends when its parent does, however that came about, by two means that
// do not depend on each other:
//
//   - On Linux the kernel kills it: a parent-death signal of SIGKILL, which also
//     ends a process that is stopped. The signal is sent when the *thread* that
//     started the child ends, so each child is started from a thread of its own
//     that waits for it.
//   - Everywhere the child's standard input is a pipe that its parent holds, and
//     [ExitWithParent] ends the child when the pipe does. A child that is stopped
//     can't notice; outside Linux it is woken by the SIGHUP and SIGCONT that Unix
//     sends to the stopped processes of a group whose last parent has gone.
//
// Children run in process groups of their own: a Ctrl-C in the terminal reaches
// the parent alone, which then ends them in its own order.
package process

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// MaxLineBytes bounds a line that parent and child exchange.
const MaxLineBytes = 1 << 20

// A Config says what to run.
type Config struct {
	Name string   // what messages call the child; required
	Path string   // the executable; required
	Args []string // its arguments, without the name
	// Stderr receives the child's standard error. Default: nothing does.
	Stderr *os.File
	// Line is called with each line that the child writes to its standard output,
	// from one goroutine; it must not keep the bytes. Default: lines are dropped.
	Line func([]byte)
}

// A Child is a running process, or one that has ended.
type Child struct {
	name  string
	line  func([]byte)
	cmd   *exec.Cmd
	stdin io.WriteCloser
	done  chan struct{}
	err   error // how it ended; set before done closes
}

// Start runs a child. It goes on until it ends by itself, is ended, or this
// process ends; whoever starts it waits for [Child.Done].
func Start(cfg Config) (*Child, error) {
	c := &Child{name: cfg.Name, line: cfg.Line, cmd: exec.Command(cfg.Path, cfg.Args...), //nolint:gosec,noctx // it runs what the caller names, until Stop or Kill
		done: make(chan struct{})}
	if cfg.Stderr != nil {
		c.cmd.Stderr = cfg.Stderr
	}
	c.cmd.SysProcAttr = attributes()
	var err error
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	started := make(chan error)
	go c.run(stdout, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	return c, nil
}

// run starts the child and waits for it without ever leaving its thread, so that
// the parent-death signal means the death of the process and nothing less.
func (c *Child) run(stdout io.Reader, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(c.done)
	err := c.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	readErr := Lines(stdout, c.line)
	c.err = c.cmd.Wait()
	if c.err == nil && readErr != nil {
		c.err = fmt.Errorf("read its output: %w", readErr)
	}
}

// Name returns what messages call the child.
func (c *Child) Name() string { return c.name }

// Pid returns the child's process id.
func (c *Child) Pid() int { return c.cmd.Process.Pid }

// Done is closed when the child has ended and its last line was handed over.
func (c *Child) Done() <-chan struct{} { return c.done }

// Err says how the child ended: nil for exit status 0. It is valid once Done is closed.
func (c *Child) Err() error {
	if c.err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", c.name, c.err)
}

// Send writes one line to the child's standard input.
func (c *Child) Send(line []byte) error {
	if _, err := c.stdin.Write(append(slices.Clip(line), '\n')); err != nil {
		return fmt.Errorf("send to %s: %w", c.name, err)
	}
	return nil
}

// Kill ends the child with SIGKILL and waits until it is gone. A child that has
// ended already is left as it is.
func (c *Child) Kill(ctx context.Context) error {
	if err := c.signal(syscall.SIGKILL); err != nil {
		return err
	}
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the death of %s (pid %d): %w", c.name, c.Pid(), context.Cause(ctx))
	}
}

// Stop asks the child to end, frozen or not, waits for at most the grace, and
// then kills it. It returns how the child ended.
func (c *Child) Stop(grace time.Duration) error {
	err := c.signal(syscall.SIGTERM)
	if thawErr := c.Thaw(); err == nil {
		err = thawErr
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	if err == nil {
		select {
		case <-c.done:
			return c.Err()
		case <-timer.C:
		}
	}
	if err := c.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-c.done
	return c.Err()
}

// signal sends the signal unless the child has ended.
func (c *Child) signal(sig os.Signal) error {
	select {
	case <-c.done:
		return nil
	default:
	}
	if err := c.cmd.Process.Signal(sig); err != nil && !isGone(err) {
		return fmt.Errorf("send %v to %s (pid %d): %w", sig, c.name, c.Pid(), err)
	}
	return nil
}

// Lines calls line, unless it is nil, with each line of r until r ends. What it
// is given is valid during the call only.
func Lines(r io.Reader, line func([]byte)) error {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 4096), MaxLineBytes)
	for s.Scan() {
		if line != nil {
			line(s.Bytes())
		}
	}
	if err := s.Err(); err != nil {
		_, _ = io.Copy(io.Discard, r) // so that the writer is never stuck on a full pipe
		return err
	}
	return nil
}

// ExitOrphaned is the exit status of a child whose parent went away.
const ExitOrphaned = 4

// ExitWithParent ties this process, which was started by [Start], to its parent:
// it hands each line of standard input to line, which may be nil, and ends the
// process at once when the input ends. The goroutine lives as long as the process.
func ExitWithParent(line func([]byte)) {
	go func() {
		_ = Lines(os.Stdin, line)
		os.Exit(ExitOrphaned)
	}()
}
