package demo_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// session returns the living processes of the program's session, by name. Its
// children are in it, whatever process groups they are in.
func session(t *testing.T, p *program) []string {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var living []string
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has just ended
		}
		end := bytes.LastIndexByte(stat, ')')
		fields := bytes.Fields(stat[end+1:]) // state, parent, group, session
		if len(fields) > 3 && string(fields[3]) == strconv.Itoa(p.cmd.Process.Pid) && string(fields[0]) != "Z" {
			living = append(living, string(stat[:end+1]))
		}
	}
	return living
}

func TestNoProcessOutlivesTheDemo(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		signal syscall.Signal
		status int
	}{
		{"interrupt", syscall.SIGINT, 1},
		{"kill", syscall.SIGKILL, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, "demo", "--lease=5s")
			p.await(t, "FREEZE")
			if n := len(session(t, p)); n != 4 { // itself, the provider, a worker, a frozen one
				t.Errorf("%d processes while it runs, want 4: %v", n, session(t, p))
			}
			p.signal(t, tt.signal)
			if status := p.exit(t); status != tt.status {
				t.Errorf("exit status %d, want %d", status, tt.status)
			}
			deadline := time.After(patience)
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for len(session(t, p)) > 0 {
				select {
				case <-tick.C:
				case <-deadline:
					t.Fatalf("processes are left: %v", session(t, p))
				}
			}
			if p.stdout.Len() > 0 {
				t.Errorf("a demo that was cut short prints a result: %s", p.stdout.String())
			}
		})
	}
}
