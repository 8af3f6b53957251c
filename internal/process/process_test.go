package process_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-io/holdfast/internal/process"
)

// patience bounds every wait of these tests; none comes near it.
const patience = 30 * time.Second

// rolePrefix begins the only argument of this binary where it plays a role.
const rolePrefix = "role: "

// TestMain runs the tests, or one of the roles that the tests start this binary for.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && strings.HasPrefix(os.Args[1], rolePrefix) {
		os.Exit(play(strings.TrimPrefix(os.Args[1], rolePrefix)))
	}
	goleak.VerifyTestMain(m)
}

func play(role string) int {
	switch role {
	case "echo": // answers each line, ends with its parent
		process.ExitWithParent(func(line []byte) { fmt.Printf("heard %s\n", line) })
		fmt.Println("ready")
		select {}
	case "deaf": // ignores its input and every polite request
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
		fmt.Println("ready")
		select {}
	case "polite": // ends by itself when asked to
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, syscall.SIGTERM)
		fmt.Println("ready")
		<-asked
		fmt.Println("goodbye")
		return 0
	case "parent of deaf", "parent of frozen deaf", "parent of echo":
		return parent(role)
	}
	return 9
}

// parent starts a child that shares its standard error, and waits to be killed.
func parent(role string) int {
	child := role[strings.LastIndex(role, " ")+1:]
	ready := make(chan struct{}, 1)
	c, err := process.Start(process.Config{
		Name: child, Path: os.Args[0], Args: []string{rolePrefix + child}, Stderr: os.Stderr,
		Line: func([]byte) { ready <- struct{}{} },
	})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	<-ready
	if strings.Contains(role, "frozen") {
		if err := c.Freeze(context.Background()); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	fmt.Println("ready")
	select {}
}

// Whoever still runs holds the write end of the pipe that is its standard error;
// the pipe ends when all of them are gone.
func TestNoChildOutlivesItsParent(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"parent of echo", "parent of deaf", "parent of frozen deaf"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer read.Close()
			cmd := exec.Command(os.Args[0], rolePrefix+role)
			cmd.Stderr = write
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cmd.Wait() }()
			write.Close()
			ready := make([]byte, len("ready\n"))
			if _, err := io.ReadFull(stdout, ready); err != nil || string(ready) != "ready\n" {
				t.Fatalf("the parent said %q (%v)", ready, err)
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := read.SetReadDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			if rest, err := io.ReadAll(read); err != nil {
				t.Fatalf("somebody is still there: %v (%s)", err, rest)
			}
		})
	}
}

// start runs a role and waits until it is ready; lines receives what it says next.
func start(t *testing.T, role string) (c *process.Child, lines <-chan string) {
	t.Helper()
	said := make(chan string, 100)
	c, err := process.Start(process.Config{
		Name: role, Path: os.Args[0], Args: []string{rolePrefix + role},
		Line: func(line []byte) { said <- string(line) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Kill(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if got := next(t, said); got != "ready" {
		t.Fatalf("the child said %q", got)
	}
	return c, said
}

func next(t *testing.T, lines <-chan string) string {
	t.Helper()
	select {
	case l := <-lines:
		return l
	case <-time.After(patience):
		t.Fatal("the child said nothing")
		return ""
	}
}

func TestFrozenChildAnswersOnceThawed(t *testing.T) {
	t.Parallel()
	c, lines := start(t, "echo")
	if err := c.Freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Send([]byte("one")); err != nil {
		t.Fatal(err)
	}
	select {
	case l := <-lines:
		t.Fatalf("a frozen child said %q", l)
	default:
	}
	if err := c.Thaw(); err != nil {
		t.Fatal(err)
	}
	if got := next(t, lines); got != "heard one" {
		t.Fatalf("the child said %q", got)
	}
}

func TestKillEndsTheChild(t *testing.T) {
	t.Parallel()
	c, _ := start(t, "deaf")
	if err := c.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Err(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("Err() = %v, want that it was killed", err)
	}
	if err := c.Kill(t.Context()); err != nil {
		t.Errorf("a second Kill: %v", err)
	}
	if err := c.Freeze(t.Context()); err == nil {
		t.Error("a dead child could be frozen")
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, role string
		freeze     bool
		grace      time.Duration
		said       string
		fails      bool
	}{
		{name: "ends by itself", role: "polite", grace: patience, said: "goodbye"},
		{name: "frozen, ends by itself", role: "polite", freeze: true, grace: patience, said: "goodbye"},
		{name: "does not listen", role: "deaf", grace: time.Millisecond, fails: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, lines := start(t, tt.role)
			if tt.freeze {
				if err := c.Freeze(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.Stop(tt.grace); (err != nil) != tt.fails {
				t.Errorf("Stop() = %v, want an error: %v", err, tt.fails)
			}
			select {
			case <-c.Done():
			default:
				t.Error("Stop returned before the child had ended")
			}
			if tt.said != "" {
				if got := next(t, lines); got != tt.said {
					t.Errorf("the child said %q, want %q", got, tt.said)
				}
			}
			if err := c.Stop(tt.grace); (err != nil) != tt.fails {
				t.Errorf("a second Stop() = %v", err)
			}
		})
	}
}

func TestStartFailsOnAMissingProgram(t *testing.T) {
	t.Parallel()
	if _, err := process.Start(process.Config{Name: "nobody", Path: "./no-such-program"}); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("Start() = %v, want an error that names the child", err)
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	var got []string
	take := func(l []byte) { got = append(got, string(l)) }
	if err := process.Lines(strings.NewReader("a\n\nb"), take); err != nil || fmt.Sprint(got) != "[a  b]" {
		t.Errorf("Lines gave %q, %v", got, err)
	}
	r := bytes.NewReader(bytes.Repeat([]byte("x"), process.MaxLineBytes+1))
	if err := process.Lines(r, take); err == nil || r.Len() != 0 {
		t.Errorf("an over-long line: %v, %d bytes left", err, r.Len())
	}
}
