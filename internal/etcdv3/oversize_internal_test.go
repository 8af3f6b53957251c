package etcdv3

// This test is inside the package: an answer above a client's receive limit takes
// a client that Dial does not make.

import "testing"

func TestOversize(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		sent int
		want bool
	}{
		"refused before it was sent": {"trying to send message larger than max (2097300 vs. 2097152)", 2097152, true},
		"request":                    {"grpc: received message larger than max (2097300 vs. 1572864)", 2097152, true},
		"answer of a small request":  {"grpc: received message larger than max (4194400 vs. 4194304)", 100, false},
		"answer of a large request":  {"grpc: received message larger than max (4194400 vs. 4194304)", 1 << 20, false},
		"larger request than answer": {"grpc: received message larger than max (600 vs. 512)", 1 << 20, false},
		"other text":                 {"quota of a proxy", 100, false},
	} {
		if got := oversize(tc.text, tc.sent); got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}
