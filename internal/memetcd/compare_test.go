package memetcd_test

import (
	"testing"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/testetcd"
)

// A compare of a range holds in memory exactly where it does in a real etcd: if it
// holds of every key, or, of a range without one, if it holds of an absent key.
func TestRangeCompares(t *testing.T) {
	for name, store := range map[string]func(t *testing.T) etcd.Store{
		"memory": func(t *testing.T) etcd.Store { _, store := open(t); return store },
		"etcd":   func(t *testing.T) etcd.Store { return testetcd.Start(t) },
	} {
		t.Run(name, func(t *testing.T) { rangeCompares(t, store(t), testetcd.Space(t).All().Start) })
	}
}

// rangeCompares runs the table on keys that begin with p: old, new and newer, of
// which the last was written twice, and gone, which was deleted.
func rangeCompares(t *testing.T, store etcd.Store, p string) {
	first := put(t, store, p+"gone", p+"k/new", p+"k/newer", p+"k/old")
	second := do(t, store, etcd.Put{Key: p + "k/newer", Value: []byte("same")}, etcd.Put{Key: p + "k/new", Value: []byte("same")})
	do(t, store, etcd.Delete{Key: p + "gone"})
	const (
		mod     = etcd.ModRevision
		created = etcd.CreateRevision
		value   = etcd.Value
	)
	for name, tc := range map[string]struct {
		start, end string
		compare    etcd.Compare // of that range
		want       bool
	}{
		"created, of all":                   {"k/", "k0", etcd.Compare{Target: created, Revision: first}, true},
		"created, of none":                  {"k/", "k0", etcd.Compare{Target: created, Revision: second}, false},
		"not created":                       {"k/", "k0", etcd.Compare{Target: created, Revision: second, Not: true}, true},
		"not created, but all":              {"k/", "k0", etcd.Compare{Target: created, Revision: first, Not: true}, false},
		"mod, of some":                      {"k/", "k0", etcd.Compare{Target: mod, Revision: second}, false},
		"not mod, of some":                  {"k/", "k0", etcd.Compare{Target: mod, Revision: second, Not: true}, false},
		"mod, of all before the end":        {"k/", "k/old", etcd.Compare{Target: mod, Revision: second}, true},
		"mod, of all from the start":        {"k/old", "k0", etcd.Compare{Target: mod, Revision: first}, true},
		"value, of all before the end":      {"k/", "k/old", etcd.Compare{Target: value, Value: "same"}, true},
		"value, of some":                    {"k/", "k0", etcd.Compare{Target: value, Value: "same"}, false},
		"not value, of all":                 {"k/", "k0", etcd.Compare{Target: value, Value: "other", Not: true}, true},
		"not value, of some":                {"k/", "k0", etcd.Compare{Target: value, Value: "same", Not: true}, false},
		"empty":                             {"a", "b", etcd.Compare{Target: created}, true},
		"empty, but not":                    {"k/", "k0", etcd.Compare{Target: created}, false},
		"empty, of mod":                     {"a", "b", etcd.Compare{Target: mod}, true},
		"empty, present":                    {"a", "b", etcd.Compare{Target: created, Not: true}, false},
		"empty, with a revision":            {"a", "b", etcd.Compare{Target: created, Revision: first}, false},
		"empty, without a revision":         {"a", "b", etcd.Compare{Target: mod, Revision: first, Not: true}, true},
		"empty, with a value":               {"a", "b", etcd.Compare{Target: value, Value: ""}, false},
		"empty, without a value":            {"a", "b", etcd.Compare{Target: value, Value: "x", Not: true}, false},
		"empty, since its key is gone":      {"g", "h", etcd.Compare{Target: created}, true},
		"empty, since it ends at its start": {"k/old", "k/old", etcd.Compare{Target: created}, true},
		"empty, since it is reversed":       {"k0", "k/", etcd.Compare{Target: created}, true},
		"one key":                           {"k/old", "k/old\x00", etcd.Compare{Target: mod, Revision: first}, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := tc.compare
			c.Key, c.End = p+tc.start, p+tc.end
			result, err := store.Txn(t.Context(), &etcd.Txn{If: []etcd.Compare{c}})
			if err != nil || result.Succeeded != tc.want {
				t.Errorf("got %+v, %v, want %v", result, err, tc.want)
			}
		})
	}
}

// A range to the last key is judged by all keys from its start on.
func TestRangeCompareToTheLastKey(t *testing.T) {
	for name, store := range map[string]func(t *testing.T) etcd.Store{
		"memory": func(t *testing.T) etcd.Store { _, store := open(t); return store },
		"etcd":   func(t *testing.T) etcd.Store { return testetcd.Start(t) },
	} {
		t.Run(name, func(t *testing.T) {
			s, p := store(t), testetcd.Space(t).All().Start
			put(t, s, p+"k")
			for start, want := range map[string]bool{p: false, "\xff\xff": true} {
				result, err := s.Txn(t.Context(), &etcd.Txn{If: []etcd.Compare{etcd.RangeEmpty(start, "\x00")}})
				if err != nil || result.Succeeded != want {
					t.Errorf("from %q: got %+v, %v, want %v", start, result, err, want)
				}
			}
		})
	}
}
