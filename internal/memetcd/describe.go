package memetcd

import (
	"fmt"
	"strings"

	"github.com/holdfast-io/holdfast/internal/etcd"
)

// String returns the span as it is written after a verb: (key) or (from, to).
func (s span) String() string {
	if s.end == "" {
		return fmt.Sprintf("(%q)", s.start)
	}
	return fmt.Sprintf("(%q, %q)", s.start, s.end)
}

// describe renders a transaction on one line.
func describe(txn *etcd.Txn) string {
	var parts []string
	if len(txn.If) > 0 {
		parts = append(parts, "if "+list(txn.If, " and ", describeCompare))
	}
	if len(txn.Then) > 0 {
		parts = append(parts, "then "+list(txn.Then, ", ", describeOp))
	}
	if len(txn.Else) > 0 {
		parts = append(parts, "else "+list(txn.Else, ", ", describeOp))
	}
	return "txn{" + strings.Join(parts, " ") + "}"
}

func list[T any](items []T, separator string, describe func(T) string) string {
	parts := make([]string, len(items))
	for i, item := range items {
		parts[i] = describe(item)
	}
	return strings.Join(parts, separator)
}

func describeCompare(c etcd.Compare) string {
	sign := "="
	if c.Not {
		sign = "!="
	}
	of := span{c.Key, c.End}
	switch c.Target {
	case etcd.ModRevision:
		return fmt.Sprintf("mod%s%s%d", of, sign, c.Revision)
	case etcd.CreateRevision:
		return fmt.Sprintf("created%s%s%d", of, sign, c.Revision)
	case etcd.Value:
		return fmt.Sprintf("value%s%s%s", of, sign, describeValue([]byte(c.Value)))
	}
	return fmt.Sprintf("target %d of %s", c.Target, of)
}

func describeOp(o etcd.Op) string {
	switch o := o.(type) {
	case etcd.Put:
		if o.Lease != 0 {
			return fmt.Sprintf("put(%q, %s, etcd lease %d)", o.Key, describeValue(o.Value), o.Lease)
		}
		return fmt.Sprintf("put(%q, %s)", o.Key, describeValue(o.Value))
	case etcd.Delete:
		return "delete" + span{o.Key, o.End}.String()
	case etcd.Get:
		what := "get" + span{o.Key, o.End}.String()
		if o.KeysOnly {
			what = "keys" + span{o.Key, o.End}.String()
		}
		if o.Limit != 0 {
			what += fmt.Sprintf(" limit %d", o.Limit)
		}
		if o.Revision != 0 {
			what += fmt.Sprintf(" at %d", o.Revision)
		}
		return what
	case *etcd.Txn:
		return describe(o)
	}
	return fmt.Sprintf("%T", o)
}

// describeValue renders a short value, and of a long one its size.
func describeValue(v []byte) string {
	const short = 16
	if len(v) <= short {
		return fmt.Sprintf("%q", v)
	}
	return fmt.Sprintf("%d bytes", len(v))
}

func describeResult(r *etcd.TxnResult) string {
	what := fmt.Sprintf("succeeded at %d", r.Revision)
	if !r.Succeeded {
		what = fmt.Sprintf("refused at %d", r.Revision)
	}
	for i, one := range r.Results {
		switch {
		case one.Txn != nil:
			what += fmt.Sprintf("; %d: %s", i, describeResult(one.Txn))
		case len(one.KVs) > 0 || one.More:
			what += fmt.Sprintf("; %d: %s", i, describeRead(one))
		}
	}
	return what
}

func describeRead(r etcd.Result) string {
	what := list(r.KVs, ", ", describeKV)
	if r.More {
		what += " and more"
	}
	return "[" + what + "]"
}

func describeKV(kv etcd.KV) string {
	what := fmt.Sprintf("%q=%s created %d modified %d", kv.Key, describeValue(kv.Value), kv.Created, kv.Modified)
	if kv.Lease != 0 {
		what += fmt.Sprintf(" etcd lease %d", kv.Lease)
	}
	return what
}

func describeBatch(b etcd.Batch) string {
	if b.Err != nil {
		return b.Err.Error()
	}
	return "[" + list(b.Events, ", ", describeEvent) + "]"
}

func describeEvent(e etcd.Event) string {
	if e.Deleted {
		return fmt.Sprintf("-%q at %d", e.KV.Key, e.KV.Modified)
	}
	return "+" + describeKV(e.KV)
}
