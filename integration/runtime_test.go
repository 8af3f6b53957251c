package integration_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/holdfast-io/holdfast/integration/conformance"
	"github.com/holdfast-io/holdfast/internal/etcdv3"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/process"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/leasing"
)

// runtimeCommand as the first argument makes the test binary a runtime process;
// the others are the endpoint, the namespace, the name and the role.
const runtimeCommand = "runtime-process"

// runRuntime runs a dispatcher until SIGTERM, or until its parent has gone.
func runRuntime(args []string) error {
	if len(args) != 4 {
		return fmt.Errorf("%s: arguments %q, want endpoint, namespace, name and role", runtimeCommand, args)
	}
	heard := make(chan string, 16)
	process.ExitWithParent(func(line []byte) { heard <- string(line) })
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	store, closeStore, err := etcdv3.Dial(etcdv3.DialConfig{Endpoints: args[:1]})
	if err != nil {
		return err
	}
	defer closeStore() //nolint:errcheck // the process ends
	space, err := keyspace.New(keyPrefix, args[1])
	if err != nil {
		return err
	}
	c, err := newClient(ctx, store, space, leasing.DelayPolicy{Base: delayBase})
	if err != nil {
		return err
	}
	handler, err := conformance.ProcessHandler(args[3], c, heard, func(line string) { fmt.Println(line) })
	if err != nil {
		return err
	}
	d, err := startDispatcher(c, conformance.DispatcherConfig{Name: args[2], Concurrency: 4, Handler: handler})
	if err != nil {
		return err
	}
	<-ctx.Done()
	d.Stop()
	return nil
}

// StartProcess starts this binary again, as a runtime process.
func (h *harness) StartProcess(name, role string) conformance.Process {
	h.t.Helper()
	path, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	lines := make(chan string, 16)
	child, err := process.Start(process.Config{
		Name: name, Path: path, Args: []string{runtimeCommand, testetcd.Endpoint(h.t), h.namespace, name, role},
		Stderr: os.Stderr, Line: func(line []byte) { lines <- string(line) },
	})
	if err != nil {
		h.t.Fatal(err)
	}
	p := &runtimeProcess{h, child, lines}
	go func() {
		<-child.Done()
		close(lines)
	}()
	h.t.Cleanup(p.Kill)
	return p
}

// A runtimeProcess is a child that runs runRuntime.
type runtimeProcess struct {
	h     *harness
	child *process.Child
	lines chan string
}

func (p *runtimeProcess) Lines() <-chan string { return p.lines }

func (p *runtimeProcess) Tell(line string) {
	p.h.t.Helper()
	p.must(p.child.Send([]byte(line)))
}

// Kill also ends a process that is paused.
func (p *runtimeProcess) Kill() {
	p.h.t.Helper()
	p.bounded(p.child.Kill)
}

func (p *runtimeProcess) Pause() {
	p.h.t.Helper()
	p.bounded(p.child.Freeze)
}

func (p *runtimeProcess) Resume() {
	p.h.t.Helper()
	p.must(p.child.Thaw())
}

func (p *runtimeProcess) bounded(do func(context.Context) error) {
	p.h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p.must(do(ctx))
}

func (p *runtimeProcess) must(err error) {
	p.h.t.Helper()
	if err != nil {
		p.h.t.Error(err)
	}
}
