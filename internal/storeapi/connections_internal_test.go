package storeapi

// This test is inside the package: the limit of open files is the whole process's.

import "testing"

func TestDefaultConnections(t *testing.T) {
	t.Parallel()
	for files, want := range map[uint64]int{
		0: 1, 3: 1, 8: 2, 256: 64, 1024: 256, 4095: 1023, 4096: 1024, 1 << 20: 1024, 1<<64 - 1: 1024,
	} {
		if got := defaultConnections(files); got != want {
			t.Errorf("%d open files: %d connections, want %d", files, got, want)
		}
	}
	if n := defaultConnections(openFiles()); n < 1 || n > MaxConnections {
		t.Errorf("%d connections here", n)
	}
}
