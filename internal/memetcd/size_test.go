package memetcd_test

import (
	"errors"
	"sort"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/memetcd"
	"github.com/holdfast-io/holdfast/internal/testetcd"
)

// The largest transaction that is accepted in memory is the largest that a real
// etcd accepts, give or take the byte that the request's number there takes.
func TestRequestSize(t *testing.T) {
	_, memory := open(t)
	disk, p := testetcd.Start(t), testetcd.Space(t).All().Start
	for name, shape := range map[string]func(etcd.Put) *etcd.Txn{
		"put": func(put etcd.Put) *etcd.Txn { return &etcd.Txn{Then: []etcd.Op{put}} },
		"compares": func(put etcd.Put) *etcd.Txn {
			not := etcd.ModIs(p, 1<<40)
			not.Not = true
			return &etcd.Txn{If: []etcd.Compare{etcd.Absent(p), not, etcd.ModIs(p, -1), etcd.ValueIs(p+"k", ""), etcd.ValueIs(p, strings.Repeat("v", 200))}, Else: []etcd.Op{put}}
		},
		"compares of ranges": func(put etcd.Put) *etcd.Txn {
			value := etcd.ValueIs(p, "v")
			value.End = p + strings.Repeat("e", 200)
			return &etcd.Txn{If: []etcd.Compare{etcd.RangeEmpty(p, p+"~"), value, value}, Else: []etcd.Op{put}}
		},
		"operations": func(put etcd.Put) *etcd.Txn {
			return &etcd.Txn{Then: []etcd.Op{
				etcd.Put{Key: p + "empty"},
				etcd.Delete{Key: p + "a"},
				etcd.Delete{Key: p + "b", End: p + "c"},
				put,
				etcd.Get{Key: p},
				etcd.Get{Key: p, End: p + "~", Limit: 200, Revision: 1, KeysOnly: true},
			}}
		},
		"nested": func(put etcd.Put) *etcd.Txn {
			inner := &etcd.Txn{If: []etcd.Compare{etcd.Absent(p)}, Then: []etcd.Op{put}, Else: []etcd.Op{&etcd.Txn{}}}
			return &etcd.Txn{Then: []etcd.Op{&etcd.Txn{Then: []etcd.Op{inner}}}}
		},
		"compare": func(put etcd.Put) *etcd.Txn {
			return &etcd.Txn{If: []etcd.Compare{etcd.ValueIs(p, string(put.Value))}, Then: []etcd.Op{etcd.Delete{Key: p}}}
		},
	} {
		refused := func(store etcd.Store, n int) bool {
			_, err := store.Txn(t.Context(), shape(etcd.Put{Key: p + "k", Value: make([]byte, n)}))
			return errors.Is(err, etcd.ErrTooLarge)
		}
		first := sort.Search(memetcd.DefaultMaxRequestBytes, func(n int) bool { return refused(memory, n) })
		if refused(disk, first-1) {
			t.Errorf("%s: a real etcd refuses %d bytes, which are accepted in memory", name, first-1)
		}
		if !refused(disk, first+1) {
			t.Errorf("%s: a real etcd accepts %d bytes, which are refused in memory", name, first+1)
		}
	}
}
