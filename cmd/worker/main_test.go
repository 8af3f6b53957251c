package main_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience bounds every wait of these tests; none comes near it.
const patience = 2 * time.Minute

// worker is the real binary, built once.
var worker string

func TestMain(m *testing.M) { os.Exit(withWorker(m.Run)) }

func withWorker(run func() int) int {
	dir, err := os.MkdirTemp("", "holdfast-worker-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	worker = filepath.Join(dir, "worker")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", worker, "github.com/holdfast-io/holdfast/cmd/worker")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v: %v\n%s", build, err, out)
		return 1
	}
	code := run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// A program is the worker binary while it runs.
type program struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended

	mu   sync.Mutex
	log  []string
	news chan struct{} // closed and replaced with each line
}

// start starts the worker binary; the test's end ends it.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	return startCommand(t, exec.Command(worker, args...))
}

func startCommand(t *testing.T, cmd *exec.Cmd) *program {
	t.Helper()
	p := &program{cmd: cmd, done: make(chan struct{}), news: make(chan struct{})}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			p.heard(lines.Text())
		}
		_ = p.cmd.Wait() // its status is looked at
	}()
	t.Cleanup(func() {
		p.end(t, os.Kill)
		if t.Failed() {
			t.Logf("%s\n%s", strings.Join(cmd.Args, " "), p.text())
		}
	})
	return p
}

func (p *program) heard(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, line)
	close(p.news)
	p.news = make(chan struct{})
}

// text returns its standard error so far.
func (p *program) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.log, "\n")
}

// await waits for a line of its standard error that holds the text.
func (p *program) await(t *testing.T, text string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for ended := false; ; {
		p.mu.Lock()
		news := p.news
		p.mu.Unlock()
		for line := range strings.SplitSeq(p.text(), "\n") {
			if strings.Contains(line, text) {
				return line
			}
		}
		if ended || ctx.Err() != nil {
			t.Fatalf("it did not say %q", text)
		}
		select {
		case <-news:
		case <-p.done:
			ended = true
		case <-ctx.Done():
		}
	}
}

// end ends it by the signal and returns its exit status; -1: the signal ended it.
func (p *program) end(t *testing.T, signal os.Signal) int {
	t.Helper()
	_ = p.cmd.Process.Signal(signal) // it may have ended by itself
	return p.exit(t)
}

// exit waits for its end and returns its exit status.
func (p *program) exit(t *testing.T) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		t.Error("it did not end")
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	return p.cmd.ProcessState.ExitCode()
}
