package memetcd_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/internal/etcd"
)

var (
	seed = flag.Uint64("seed", 0, "seed of the random operations; 0: a random one")
	ops  = flag.Int("ops", 10000, "how many random operations")
)

// TestMetamorphic sends the same random operations, illegal ones among them, to an
// etcd in memory and to a real one. Their answers must be alike, revisions and
// errors included, and so must what watches deliver. To replay:
//
//	go test ./internal/memetcd -run TestMetamorphic -seed N
func TestMetamorphic(t *testing.T) {
	n := *seed
	if n == 0 {
		n = rand.Uint64()
	}
	t.Logf("-seed %d", n)
	p := newPair(t, rand.New(rand.NewPCG(n, 0)))
	for i := range *ops {
		p.step()
		if t.Failed() {
			t.Fatalf("operation %d with -seed %d; the operations before it:\n%s", i, n, strings.Join(p.recent, "\n"))
		}
	}
	p.finish()
	var happened []string
	for _, what := range expected {
		happened = append(happened, fmt.Sprintf("%s %d", what, p.counts[what]))
		if p.counts[what] == 0 && *ops >= 10000 {
			t.Errorf("in %d operations with -seed %d it never happened: %s", *ops, n, what)
		}
	}
	t.Log(strings.Join(happened, ", "))
}

// What must happen in a run of 10,000 operations.
var expected = []string{
	"txn", "get", "grant", "keepalive", "revoke", "compact", "probe", "live watch",
	"txn succeeded", "txn refused", "nested succeeded", "nested refused", "more", "keys deleted with a lease",
	"txn: no space", "txn: too many", "txn: too large", "txn: duplicate", "txn: lease not found", "txn: invalid", "txn: compacted 0",
	"get: invalid", "get: compacted 0", "grant: invalid", "grant: no space", "keepalive: lease not found", "revoke: lease not found",
	"compact: invalid", "compact: compacted 0", "probe: compacted", "probe: empty",
}

// step runs one random operation on both.
func (p *pair) step() {
	if p.full > 0 {
		if p.full--; p.full == 0 {
			p.setSpace(false)
		}
	}
	switch n := p.rng.IntN(1000); {
	case n < 650:
		p.txn(p.randomTxn())
	case n < 835:
		p.get(p.randomGet())
	case n < 880:
		p.grant(p.randomTTL())
	case n < 925:
		p.keepAlive(p.randomLease())
	case n < 955:
		p.revoke(p.randomLease())
	case n < 960:
		p.dump()
	case n < 966:
		p.txn(p.hugeTxn())
		p.txn(&etcd.Txn{Then: []etcd.Op{etcd.Delete{Key: "huge", End: "huge~"}}})
	case n < 972 && p.full == 0:
		p.setSpace(true)
		p.full = 1 + p.rng.IntN(20)
	case p.full > 0: // watches are compared by puts
	case n < 982:
		p.compact(p.randomRevision())
	case n < 984:
		p.overwrite()
	case n < 988:
		p.probe(p.randomSpan(), p.randomRevision())
	case n < 993 && len(p.live) < 4:
		p.follow(p.randomSpan())
	case len(p.live) > 0:
		p.unfollow(p.rng.IntN(len(p.live)))
	}
}

// finish compares all that is left, what every watch has seen since it began, and
// what new ones see of the past.
func (p *pair) finish() {
	if p.full > 0 {
		p.setSpace(false)
	}
	p.dump()
	p.compact(p.model.Revision() + 100)
	p.compact(p.compacted)
	oldest, current := p.compacted, p.model.Revision()
	for _, revision := range []int64{-1, 1, oldest - 1, oldest, oldest + 1, (oldest + current) / 2, current, current + 1} {
		p.probe(everything, revision)
		for range 3 {
			p.probe(p.randomSpan(), revision)
		}
	}
}

func (p *pair) note(format string, args ...any) {
	const most = 20
	p.recent = append(p.recent, fmt.Sprintf(format, args...))
	p.recent = p.recent[max(0, len(p.recent)-most):]
}

// same compares two answers, and counts them.
func (p *pair) same(what string, want, got answer) {
	p.t.Helper()
	p.counts[what]++
	if want.class != "" {
		p.counts[what+": "+want.class]++
	}
	if want != got {
		p.t.Errorf("%s\n  etcd:   %s\n  memory: %s", p.recent[len(p.recent)-1], want, got)
	}
}

func (p *pair) txn(txn *etcd.Txn) *etcd.TxnResult {
	p.t.Helper()
	p.note("%s", describe(txn))
	want, wantErr := p.real.Txn(p.t.Context(), p.realTxn(txn))
	got, err := p.store.Txn(p.t.Context(), txn)
	p.same("txn", p.answer(p.modelResult(want), wantErr), p.answer(got, err))
	if err == nil {
		p.tally("txn", got)
	}
	return got
}

// tally counts what became of a transaction and those nested in it.
func (p *pair) tally(what string, r *etcd.TxnResult) {
	if r.Succeeded {
		p.counts[what+" succeeded"]++
	} else {
		p.counts[what+" refused"]++
	}
	for _, one := range r.Results {
		if one.More {
			p.counts["more"]++
		}
		if one.Txn != nil {
			p.tally("nested", one.Txn)
		}
	}
}

func (p *pair) get(get etcd.Get) {
	p.t.Helper()
	p.note("%s", describeGet(get))
	want, wantRevision, wantErr := p.real.Get(p.t.Context(), get)
	got, revision, err := p.store.Get(p.t.Context(), get)
	p.same("get", p.answer([]any{p.modelRead(want), wantRevision}, wantErr), p.answer([]any{got, revision}, err))
}

// dump compares all that is there.
func (p *pair) dump() {
	p.t.Helper()
	p.note("dump")
	want, revision, err := p.real.Get(p.t.Context(), etcd.Get{Key: everything.start, End: everything.end})
	got := p.model.Dump()
	p.same("dump", p.answer([]any{p.modelRead(want), revision}, err), p.answer([]any{etcd.Result{KVs: got, Count: int64(len(got))}, p.model.Revision()}, nil))
}

func (p *pair) keepAlive(id etcd.LeaseID) {
	p.t.Helper()
	p.note("keepalive %d", id)
	want, wantErr := p.real.KeepAlive(p.t.Context(), p.realLease(id))
	got, err := p.store.KeepAlive(p.t.Context(), id)
	p.same("keepalive", p.answer(want, wantErr), p.answer(got, err))
}

func (p *pair) revoke(id etcd.LeaseID) {
	p.t.Helper()
	p.note("revoke %d", id)
	before := len(p.model.Dump())
	wantErr := p.real.Revoke(p.t.Context(), p.realLease(id))
	err := p.store.Revoke(p.t.Context(), id)
	p.same("revoke", p.answer(nil, wantErr), p.answer(nil, err))
	if len(p.model.Dump()) < before {
		p.counts["keys deleted with a lease"]++
	}
}

func (p *pair) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(p.t.Context(), patience)
}
