package simulate

import (
	"fmt"
	"strings"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/memetcd"
	"github.com/holdfast-io/holdfast/internal/record"
)

// names describes calls so that the description does not depend on what the engine
// draws at random: each client's processes are numbered as they appear.
type names struct {
	space keyspace.Space
	procs map[string]string
	count map[string]int // of a client's processes
}

// learn numbers the process that a call records.
func (n *names) learn(call memetcd.Call) {
	if call.Txn == nil {
		return
	}
	for _, op := range call.Txn.Then {
		if put, ok := op.(etcd.Put); ok {
			if k, err := n.space.Parse(put.Key); err == nil && k.Kind == keyspace.KindProc && n.procs[k.Proc] == "" {
				n.count[call.Client]++
				n.procs[k.Proc] = fmt.Sprintf("%s#%d", call.Client, n.count[call.Client])
			}
		}
	}
}

// key renders a key without the namespace.
func (n *names) key(key string) string {
	short := strings.TrimPrefix(key, n.space.All().Start)
	kind, rest, _ := strings.Cut(short, "/")
	if kind != string(keyspace.KindProc) && kind != string(keyspace.KindEvict) || rest == "" {
		return short
	}
	proc, rest, _ := strings.Cut(rest, "/")
	if alias := n.procs[proc]; alias != "" {
		proc = alias
	} else {
		proc = "new"
	}
	return strings.TrimSuffix(kind+"/"+proc+"/"+rest, "/")
}

// order describes who calls, what and which keys.
func (n *names) order(call memetcd.Call, what string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", call.Client, call.Operation)
	switch call.Operation {
	case memetcd.Txn:
		b.WriteString(" " + what)
		n.keys(&b, call.Txn)
	case memetcd.Get:
		b.WriteString(" " + n.key(call.Get.Key))
	case memetcd.Watch:
		fmt.Fprintf(&b, " %s from %d", n.key(call.Key), call.Revision)
	case memetcd.KeepAlive, memetcd.Revoke:
		fmt.Fprintf(&b, " %d", call.Lease)
	case memetcd.Grant:
	}
	return b.String()
}

func (n *names) keys(b *strings.Builder, txn *etcd.Txn) {
	for _, c := range txn.If {
		fmt.Fprintf(b, " %s=%d", n.key(c.Key), c.Revision)
	}
	for _, op := range txn.Then {
		switch op := op.(type) {
		case etcd.Put:
			b.WriteString(" +" + n.key(op.Key))
		case etcd.Delete:
			b.WriteString(" -" + n.key(op.Key))
		case etcd.Get:
			b.WriteString(" ?" + n.key(op.Key))
		case *etcd.Txn:
			b.WriteString(" [")
			n.keys(b, op)
			b.WriteString("]")
		}
	}
}

// operation names what a transaction is for, by what it writes.
func (n *names) operation(txn *etcd.Txn) string {
	puts, deletes := map[keyspace.Kind]etcd.Put{}, map[keyspace.Kind]bool{}
	for _, op := range txn.Then {
		switch op := op.(type) {
		case *etcd.Txn:
			return n.operation(op)
		case etcd.Put:
			if k, err := n.space.Parse(op.Key); err == nil {
				puts[k.Kind] = op
			}
		case etcd.Delete:
			if k, err := n.space.Parse(op.Key); err == nil {
				deletes[k.Kind] = true
			}
		}
	}
	has := func(k keyspace.Kind) bool { _, ok := puts[k]; return ok }
	switch {
	case has(keyspace.KindSpec):
		return "admit"
	case has(keyspace.KindProc):
		return "proc"
	case has(keyspace.KindStep):
		return "step"
	case has(keyspace.KindState) && has(keyspace.KindLive):
		return "claim"
	case has(keyspace.KindLive) && has(keyspace.KindDue):
		return "reap"
	case has(keyspace.KindLive):
		return "renew onto a new etcd lease"
	case has(keyspace.KindState):
		return ending(puts[keyspace.KindState], deletes[keyspace.KindLive])
	case has(keyspace.KindWake):
		return "wake of a claimed one"
	case deletes[keyspace.KindEvict]:
		return "eviction acted on"
	case has(keyspace.KindEpoch):
		return "epoch"
	}
	return "read"
}

// ending names what a write of the state alone is for.
func ending(put etcd.Put, unclaims bool) string {
	s, err := record.DecodeState(put.Value)
	switch {
	case err != nil:
		return "state"
	case unclaims && s.Last() != nil:
		return string(s.Last().How)
	case s.Terminal():
		return "cancelled"
	}
	return "wake"
}
