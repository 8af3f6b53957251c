package memetcd_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/memetcd"
)

// Few keys, so that compares and ranges hit, and deletions find something.
var names = []string{"\x00", "a", "a/", "a/b", "a0", "b", "é", "z"}

// A span is a key, or the range [start, end).
type span struct{ start, end string }

var everything = span{"\x00", "\x00"}

func describe(txn *etcd.Txn) string { return memetcd.Call{Operation: memetcd.Txn, Txn: txn}.String() }

func describeGet(get etcd.Get) string {
	return memetcd.Call{Operation: memetcd.Get, Get: get}.String()
}

func (p *pair) chance(percent int) bool { return p.rng.IntN(100) < percent }

func pick[T any](p *pair, from []T) T { return from[p.rng.IntN(len(from))] }

// randomKey is empty now and then, which etcd refuses.
func (p *pair) randomKey() string {
	if p.chance(1) {
		return ""
	}
	return pick(p, names)
}

// randomSpan is a key, or a range, which may be empty, reversed or without end.
func (p *pair) randomSpan() span {
	switch n := p.rng.IntN(10); {
	case n < 4:
		return span{start: p.randomKey()}
	case n < 5:
		return span{p.randomKey(), "\x00"}
	}
	return span{p.randomKey(), p.randomKey()}
}

// randomRevision is any, a little too old or too new ones among them.
func (p *pair) randomRevision() int64 {
	current := p.model.Revision()
	switch n := p.rng.IntN(4); {
	case n < 1:
		return p.compacted - 2 + p.rng.Int64N(5)
	case n < 2:
		return current - 1 + p.rng.Int64N(4)
	}
	return p.compacted + p.rng.Int64N(current-p.compacted+1)
}

func (p *pair) randomValue() []byte {
	return pick(p, [][]byte{nil, []byte("v"), []byte("w"), []byte("a value of some length")})
}

// randomLease is one that was granted, lately for the most part, or never.
func (p *pair) randomLease() etcd.LeaseID {
	if p.chance(5) || len(p.leases) == 0 {
		return pick(p, []etcd.LeaseID{-1, 1 << 40})
	}
	lately := p.leases[max(0, len(p.leases)-6):]
	return pick(p, lately)
}

func (p *pair) randomTTL() time.Duration {
	return pick(p, []time.Duration{
		-time.Second, 0, 1, time.Second, time.Minute, time.Minute + 1, 61500 * time.Millisecond, time.Hour, time.Hour,
		9_000_000_000 * time.Second, 9_000_000_000*time.Second + 1,
	})
}

func (p *pair) randomGet() etcd.Get {
	s := p.randomSpan()
	get := etcd.Get{Key: s.start, End: s.end, KeysOnly: p.chance(30)}
	if p.chance(40) {
		get.Limit = p.rng.Int64N(5) - 1
	}
	if p.chance(30) {
		get.Revision = p.randomRevision()
	}
	return get
}

// randomCompare holds about every other time, and of a range less often.
func (p *pair) randomCompare(now map[string]etcd.KV) etcd.Compare {
	key := p.randomKey()
	kv := now[key]
	c := etcd.Compare{Key: key, Target: etcd.Target(p.rng.IntN(3)), Not: p.chance(25)}
	if p.chance(25) {
		s := p.randomSpan()
		if c.Key, c.End = s.start, s.end; p.chance(50) {
			c.Target = etcd.CreateRevision // 0, as for an absent key
			return c
		}
	}
	if p.chance(1) {
		c.Target = 3
	}
	switch {
	case c.Target == etcd.Value && p.chance(60):
		c.Value = string(kv.Value)
	case c.Target == etcd.Value:
		c.Value = string(p.randomValue())
	case p.chance(20):
	case c.Target == etcd.ModRevision && p.chance(75):
		c.Revision = kv.Modified
	case c.Target == etcd.CreateRevision && p.chance(75):
		c.Revision = kv.Created
	default:
		c.Revision = p.randomRevision()
	}
	return c
}

// randomTxn writes some keys twice, but not as often as chance would.
func (p *pair) randomTxn() *etcd.Txn {
	now := map[string]etcd.KV{}
	for _, kv := range p.model.Dump() {
		now[kv.Key] = kv
	}
	free := slices.Clone(names)
	p.rng.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
	if p.chance(15) {
		free = nil
	}
	txn := p.randomNested(0, now, &free)
	if puts(txn) {
		closeRanges(txn)
	}
	return txn
}

func (p *pair) randomNested(depth int, now map[string]etcd.KV, free *[]string) *etcd.Txn {
	txn := &etcd.Txn{}
	for range p.rng.IntN(3) {
		txn.If = append(txn.If, p.randomCompare(now))
	}
	for _, branch := range []*[]etcd.Op{&txn.Then, &txn.Else} {
		for range p.rng.IntN(4) {
			p.addOp(branch, depth, now, free)
		}
	}
	return txn
}

// addOp appends a random operation.
func (p *pair) addOp(branch *[]etcd.Op, depth int, now map[string]etcd.KV, free *[]string) {
	add := func(o etcd.Op) { *branch = append(*branch, o) }
	switch n := p.rng.IntN(100); {
	case n < 1 && depth > 0:
		add(nil) // which no client could send
	case n < 20 && depth < 3:
		add(p.randomNested(depth+1, now, free))
	case n < 40:
		add(p.randomGet())
	case n < 60 && len(*free) > 0 && !p.chance(5):
		add(etcd.Delete{Key: p.unused(free)})
	case n < 60:
		s := p.randomSpan()
		add(etcd.Delete{Key: s.start, End: s.end})
	default:
		put := etcd.Put{Key: p.unused(free), Value: p.randomValue()}
		if p.chance(30) {
			put.Lease = p.randomLease()
		}
		add(put)
	}
}

// unused takes a key that the transaction does not write yet, as long as there are.
func (p *pair) unused(free *[]string) string {
	if len(*free) == 0 || p.chance(2) {
		return p.randomKey()
	}
	key := (*free)[0]
	*free = (*free)[1:]
	return key
}

func puts(txn *etcd.Txn) bool {
	return slices.ContainsFunc(slices.Concat(txn.Then, txn.Else), func(o etcd.Op) bool {
		nested, ok := o.(*etcd.Txn)
		_, put := o.(etcd.Put)
		return put || ok && puts(nested)
	})
}

// closeRanges gives deletions without an end one: beside a put, they ruin a real
// etcd.
func closeRanges(txn *etcd.Txn) {
	for _, branch := range [][]etcd.Op{txn.Then, txn.Else} {
		for i, o := range branch {
			switch o := o.(type) {
			case etcd.Delete:
				if o.End == "\x00" {
					branch[i] = etcd.Delete{Key: o.Key}
				}
			case *etcd.Txn:
				closeRanges(o)
			}
		}
	}
}

// hugeTxn is about as large as etcd allows, in operations or in bytes. It holds
// keys between huge and huge~.
func (p *pair) hugeTxn() *etcd.Txn {
	if p.chance(40) {
		size := memetcd.DefaultMaxRequestBytes - 60 + p.rng.IntN(90)
		return &etcd.Txn{Then: []etcd.Op{etcd.Put{Key: "huge", Value: make([]byte, size)}}}
	}
	if p.chance(40) {
		return p.longTxn(122 + p.rng.IntN(8))
	}
	inner := p.rng.IntN(128)
	txn := p.longTxn(123 + p.rng.IntN(8) - inner)
	nested := p.longTxn(inner)
	for i, o := range nested.Then {
		nested.Then[i] = etcd.Put{Key: fmt.Sprint("huge/inner/", i)}
		nested.Else = append(nested.Else, o)
	}
	txn.Else = append(txn.Else, nested)
	return txn
}

// longTxn has n elements in one of its lists, and up to n in the others.
func (p *pair) longTxn(n int) *etcd.Txn {
	n = max(n, 0)
	length := []int{p.rng.IntN(n + 1), p.rng.IntN(n + 1), p.rng.IntN(n + 1)}
	length[p.rng.IntN(3)] = n
	txn := &etcd.Txn{}
	for i := range length[0] {
		txn.If = append(txn.If, etcd.Absent(fmt.Sprint("huge/outer/", i)))
	}
	for i := range length[1] {
		txn.Then = append(txn.Then, etcd.Put{Key: fmt.Sprint("huge/outer/", i)})
	}
	for i := range length[2] {
		txn.Else = append(txn.Else, etcd.Get{Key: fmt.Sprint("huge/outer/", i)})
	}
	return txn
}
