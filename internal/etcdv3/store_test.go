package etcdv3_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
)

func keys(result etcd.Result) []string {
	var names []string
	for _, kv := range result.KVs {
		names = append(names, kv.Key)
	}
	return names
}

func TestGet(t *testing.T) {
	both(t, func(t *testing.T, store etcd.Store, p string) {
		first := put(t, store, p+"b", p+"a", p+"c")
		second := put(t, store, p+"b")
		all := etcd.Get{Key: p, End: p + "~"}

		if got, want := keys(get(t, store, all)), []string{p + "a", p + "b", p + "c"}; !slices.Equal(got, want) {
			t.Errorf("range: got %q, want %q", got, want)
		}
		limited := all
		limited.Limit = 2
		if got := get(t, store, limited); len(got.KVs) != 2 || !got.More {
			t.Errorf("limit 2 of 3: got %q, more %v", keys(got), got.More)
		}
		limited.Limit = 3
		if got := get(t, store, limited); len(got.KVs) != 3 || got.More {
			t.Errorf("limit 3 of 3: got %q, more %v", keys(got), got.More)
		}
		one, ok := get(t, store, etcd.Get{Key: p + "b"}).One()
		if !ok || one.Key != p+"b" || string(one.Value) != p+"b" || one.Created != first || one.Modified != second || one.Lease != 0 {
			t.Errorf("one key: got %+v, %v", one, ok)
		}
		old, _ := get(t, store, etcd.Get{Key: p + "b", Revision: first}).One()
		if old.Modified != first {
			t.Errorf("at revision %d: got %+v", first, old)
		}
		bare, _ := get(t, store, etcd.Get{Key: p + "b", KeysOnly: true}).One()
		if bare.Key != p+"b" || len(bare.Value) != 0 || bare.Modified != second {
			t.Errorf("keys only: got %+v", bare)
		}
		result, revision, err := store.Get(t.Context(), etcd.Get{Key: p + "absent"})
		if err != nil || len(result.KVs) != 0 || revision < second {
			t.Errorf("absent key: got %+v at %d, %v", result, revision, err)
		}
	})
}

func TestCompares(t *testing.T) {
	both(t, func(t *testing.T, store etcd.Store, p string) {
		created := put(t, store, p+"k", p+"k/1")
		modified := put(t, store, p+"k")
		span := func(c etcd.Compare, end string) etcd.Compare { c.End = end; return c }
		not := func(c etcd.Compare) etcd.Compare { c.Not = true; return c }
		for name, tc := range map[string]struct {
			compare etcd.Compare
			want    bool
		}{
			"mod is":                  {etcd.ModIs(p+"k", modified), true},
			"mod is another":          {etcd.ModIs(p+"k", created), false},
			"mod is not":              {not(etcd.ModIs(p+"k", created)), true},
			"mod of an absent key":    {etcd.ModIs(p+"absent", 0), true},
			"created is":              {etcd.CreatedIs(p+"k", created), true},
			"created is another":      {etcd.CreatedIs(p+"k", modified), false},
			"absent":                  {etcd.Absent(p + "absent"), true},
			"absent, but there":       {etcd.Absent(p + "k"), false},
			"present":                 {etcd.Present(p + "k"), true},
			"present, but absent":     {etcd.Present(p + "absent"), false},
			"value is":                {etcd.ValueIs(p+"k", p+"k"), true},
			"value is another":        {etcd.ValueIs(p+"k", "x"), false},
			"value is not":            {not(etcd.ValueIs(p+"k", "x")), true},
			"value of an absent key":  {etcd.ValueIs(p+"absent", ""), false},
			"not value, but no value": {not(etcd.ValueIs(p+"absent", "x")), false},
			"range is empty":          {etcd.RangeEmpty(p+"absent", p+"b"), true},
			"range is not empty":      {etcd.RangeEmpty(p, p+"~"), false},
			"range created at once":   {span(etcd.CreatedIs(p+"k", created), p+"k~"), true},
			"range modified at once":  {span(etcd.ModIs(p+"k", created), p+"k~"), false},
			"range to the last key":   {span(etcd.Present(p+"k"), "\x00"), true},
			"range after itself":      {etcd.RangeEmpty(p+"k", p+"a"), true},
		} {
			if got := txn(t, store, &etcd.Txn{If: []etcd.Compare{tc.compare}}).Succeeded; got != tc.want {
				t.Errorf("%s: got %v, want %v", name, got, tc.want)
			}
		}
		if txn(t, store, &etcd.Txn{If: []etcd.Compare{etcd.Present(p + "k"), etcd.Absent(p + "k")}}).Succeeded {
			t.Error("a transaction succeeded with one compare that does not hold")
		}
	})
}

func TestTxnRunsOneBranchAtOneRevision(t *testing.T) {
	both(t, func(t *testing.T, store etcd.Store, p string) {
		before := put(t, store, p+"gone", p+"range/1", p+"range/2")
		result := txn(t, store, &etcd.Txn{
			If: []etcd.Compare{etcd.Absent(p + "k")},
			Then: []etcd.Op{
				etcd.Put{Key: p + "k", Value: []byte("v")},
				etcd.Delete{Key: p + "gone"},
				etcd.Delete{Key: p + "range/", End: p + "range0"},
				etcd.Get{Key: p, End: p + "~"},
			},
			Else: []etcd.Op{etcd.Put{Key: p + "else"}},
		})
		if !result.Succeeded || result.Revision != before+1 || len(result.Results) != 4 {
			t.Fatalf("got %+v", result)
		}
		// A read sees what the operations before it wrote.
		if kv, ok := result.Results[3].One(); !ok || len(result.Results[3].KVs) != 1 || kv.Key != p+"k" || kv.Modified != result.Revision {
			t.Fatalf("after the writes: got %+v", result.Results[3])
		}
		again := txn(t, store, &etcd.Txn{
			If:   []etcd.Compare{etcd.Absent(p + "k")},
			Then: []etcd.Op{etcd.Put{Key: p + "k"}},
			Else: []etcd.Op{etcd.Get{Key: p + "k"}},
		})
		if kv, _ := again.Results[0].One(); again.Succeeded || again.Revision != result.Revision || string(kv.Value) != "v" {
			t.Fatalf("refused transaction: got %+v", again)
		}
	})
}

func TestNestedTxns(t *testing.T) {
	both(t, func(t *testing.T, store etcd.Store, p string) {
		put(t, store, p+"there")
		result := txn(t, store, &etcd.Txn{
			Then: []etcd.Op{
				etcd.Put{Key: p + "a"},
				// All compares see the state before the transaction, thus no a.
				&etcd.Txn{If: []etcd.Compare{etcd.Absent(p + "a")}, Then: []etcd.Op{etcd.Put{Key: p + "b"}, etcd.Get{Key: p + "there"}}},
				&etcd.Txn{
					If:   []etcd.Compare{etcd.Absent(p + "there")},
					Then: []etcd.Op{etcd.Put{Key: p + "c"}},
					Else: []etcd.Op{&etcd.Txn{If: []etcd.Compare{etcd.Present(p + "there")}, Then: []etcd.Op{etcd.Get{Key: p + "a"}}}},
				},
			},
		})
		first, second := result.Results[1].Txn, result.Results[2].Txn
		if !first.Succeeded || second.Succeeded {
			t.Fatalf("branches: got %v and %v, want true and false", first.Succeeded, second.Succeeded)
		}
		if kv, ok := first.Results[1].One(); !ok || kv.Key != p+"there" {
			t.Errorf("read in the first: got %+v", first.Results)
		}
		inner := second.Results[0].Txn
		if kv, ok := inner.Results[0].One(); !inner.Succeeded || !ok || kv.Modified != result.Revision {
			t.Errorf("read two levels down: got %+v", inner)
		}
		for _, r := range []*etcd.TxnResult{first, second, inner} {
			if r.Revision != result.Revision {
				t.Errorf("nested revision %d, want %d", r.Revision, result.Revision)
			}
		}
		if got, want := keys(get(t, store, etcd.Get{Key: p, End: p + "~"})), []string{p + "a", p + "b", p + "there"}; !slices.Equal(got, want) {
			t.Errorf("afterwards: got %q, want %q", got, want)
		}
	})
}

func TestLease(t *testing.T) {
	both(t, func(t *testing.T, store etcd.Store, p string) {
		id, ttl, err := store.Grant(t.Context(), time.Minute)
		if err != nil || ttl != time.Minute {
			t.Fatalf("granted %v, %v", ttl, err)
		}
		txn(t, store, &etcd.Txn{Then: []etcd.Op{etcd.Put{Key: p + "leased", Lease: id}, etcd.Put{Key: p + "own"}}})
		if kv, _ := get(t, store, etcd.Get{Key: p + "leased"}).One(); kv.Lease != id {
			t.Fatalf("got lease %d, want %d", kv.Lease, id)
		}
		if ttl, err = store.KeepAlive(t.Context(), id); err != nil || ttl != time.Minute {
			t.Fatalf("kept alive for %v, %v", ttl, err)
		}
		if err := store.Revoke(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if got, want := keys(get(t, store, etcd.Get{Key: p, End: p + "~"})), []string{p + "own"}; !slices.Equal(got, want) {
			t.Fatalf("after the revocation: got %q, want %q", got, want)
		}
	})
}

func TestGrantRoundsUp(t *testing.T) {
	both(t, func(t *testing.T, store etcd.Store, _ string) {
		for asked, want := range map[time.Duration]time.Duration{
			time.Nanosecond:         time.Second,
			time.Second:             time.Second,
			1001 * time.Millisecond: 2 * time.Second,
			3 * time.Second:         3 * time.Second,
		} {
			id, got, err := store.Grant(t.Context(), asked)
			if err != nil || got != want {
				t.Errorf("asked for %v: got %v, %v, want %v", asked, got, err, want)
			}
			if err := store.Revoke(t.Context(), id); err != nil {
				t.Error(err)
			}
		}
		for _, asked := range []time.Duration{0, -time.Second} {
			if _, _, err := store.Grant(t.Context(), asked); !errors.Is(err, etcd.ErrInvalid) {
				t.Errorf("asked for %v: got %v, want %v", asked, err, etcd.ErrInvalid)
			}
		}
	})
}
