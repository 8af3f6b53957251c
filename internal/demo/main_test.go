package demo_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
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
	dir, err := os.MkdirTemp("", "holdfast-demo-test-")
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

// A program is the worker binary while it runs, in a session of its own.
type program struct {
	cmd    *exec.Cmd
	temp   string // its directory of temporary files
	stdout bytes.Buffer
	done   chan struct{} // closed when it has ended
	err    error

	mu     sync.Mutex
	stderr []string
	news   chan struct{} // closed and replaced with each line
}

// start starts the worker binary; the test's end ends it.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	p := &program{cmd: exec.Command(worker, args...), temp: t.TempDir(), done: make(chan struct{}), news: make(chan struct{})}
	p.cmd.Stdout = &p.stdout
	p.cmd.Env = append(os.Environ(), "TMPDIR="+p.temp) // a demo that is killed can't tidy up
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
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
		p.err = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("worker %s\n%s\n%s", strings.Join(args, " "), p.log(), p.stdout.String())
		}
	})
	return p
}

func (p *program) heard(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stderr = append(p.stderr, line)
	close(p.news)
	p.news = make(chan struct{})
}

// log returns its standard error so far.
func (p *program) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.stderr, "\n")
}

// await waits until its standard error holds the text.
func (p *program) await(t *testing.T, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		p.mu.Lock()
		news := p.news
		p.mu.Unlock()
		if strings.Contains(p.log(), text) {
			return
		}
		select {
		case <-news:
		case <-p.done:
			if !strings.Contains(p.log(), text) {
				t.Fatalf("it ended (%v) without saying %q", p.err, text)
			}
		case <-ctx.Done():
			t.Fatalf("it did not say %q", text)
		}
	}
}

func (p *program) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// exit waits for its end and returns the exit status; -1: a signal ended it.
func (p *program) exit(t *testing.T) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		t.Fatal("it did not end")
	}
	var failed *exec.ExitError
	if p.err != nil && !errors.As(p.err, &failed) {
		t.Fatal(p.err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// leavesNothing checks that its temporary files are gone.
func (p *program) leavesNothing(t *testing.T) {
	t.Helper()
	if left, err := os.ReadDir(p.temp); err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v, %v", left, err)
	}
}

// run runs the worker binary to its end.
func run(t *testing.T, args ...string) (p *program, status int) {
	t.Helper()
	p = start(t, args...)
	return p, p.exit(t)
}

// file writes a file of the lines and returns its path.
func file(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "orders.jsonl")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// order returns an order's line.
func order(id string, amount int64, card string) string {
	return fmt.Sprintf(`{"id":%q,"customer":"Zoë 🎁","amountCents":%d,"currency":"EUR","card":%q}`, id, amount, card)
}
