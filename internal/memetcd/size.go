package memetcd

import (
	"math/bits"

	"github.com/holdfast-io/holdfast/internal/etcd"
)

// requestHeader is the part of a request that etcd adds to it: a header with the
// request's number, which takes one byte less now and then.
const requestHeader = 14

// requestSize returns the size of a transaction as etcd encodes it (protocol
// buffers, whose field numbers take one byte here but for one) to put it into its
// log.
func requestSize(txn *etcd.Txn) int { return requestHeader + message(txnSize(txn)) }

func txnSize(txn *etcd.Txn) int {
	n := 0
	for _, c := range txn.If {
		n += message(compareSize(c))
	}
	for _, branch := range [][]etcd.Op{txn.Then, txn.Else} {
		for _, o := range branch {
			n += message(message(opSize(o)))
		}
	}
	return n
}

func compareSize(c etcd.Compare) int {
	n := 2 + text(len(c.Key)) // the target
	if c.Not {
		n += 2
	}
	if c.End != "" {
		n += 1 + message(len(c.End)) // a field number of two bytes
	}
	if c.Target == etcd.Value {
		return n + message(len(c.Value))
	}
	return n + 1 + varint(c.Revision)
}

func opSize(o etcd.Op) int {
	switch o := o.(type) {
	case etcd.Put:
		return text(len(o.Key)) + text(len(o.Value)) + number(int64(o.Lease))
	case etcd.Delete:
		return text(len(o.Key)) + text(len(o.End))
	case etcd.Get:
		n := text(len(o.Key)) + text(len(o.End)) + number(o.Limit) + number(o.Revision)
		if o.KeysOnly {
			n += 2
		}
		return n
	case *etcd.Txn:
		return txnSize(o)
	}
	return 0
}

// message is the size of a field of n bytes, which is there even if it is empty.
func message(n int) int { return 1 + varint(int64(n)) + n }

// text is the size of a field of n bytes, left out if it is empty.
func text(n int) int {
	if n == 0 {
		return 0
	}
	return message(n)
}

// number is the size of a field that is left out if it is 0.
func number(n int64) int {
	if n == 0 {
		return 0
	}
	return 1 + varint(n)
}

func varint(n int64) int { return (bits.Len64(uint64(n)|1) + 6) / 7 }
