package memetcd

import (
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-io/holdfast/internal/etcd"
)

var errEmptyKey = fmt.Errorf("%w: a key is empty", etcd.ErrInvalid)

// check refuses what etcd refuses whatever its state is, in etcd's order.
func (c Config) check(txn *etcd.Txn) error {
	if err := checkKinds(txn); err != nil {
		return err
	}
	if err := checkOps(txn, c.MaxTxnOps); err != nil {
		return err
	}
	for _, branch := range [][]etcd.Op{txn.Then, txn.Else} {
		if _, err := footprintOf(branch); err != nil {
			return err
		}
	}
	if n := requestSize(txn); n > c.MaxRequestBytes && !readOnly(txn) {
		return fmt.Errorf("%w: %d bytes, at most %d", etcd.ErrTooLarge, n, c.MaxRequestBytes)
	}
	return nil
}

// checkKinds refuses what no client of etcd could send.
func checkKinds(txn *etcd.Txn) error {
	for _, c := range txn.If {
		if c.Target < etcd.ModRevision || c.Target > etcd.Value {
			return fmt.Errorf("%w: compare of key %q with target %d", etcd.ErrInvalid, c.Key, c.Target)
		}
	}
	for _, o := range slices.Concat(txn.Then, txn.Else) {
		switch o := o.(type) {
		case etcd.Put, etcd.Delete, etcd.Get:
		case *etcd.Txn:
			if err := checkKinds(o); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%w: operation of type %T", etcd.ErrInvalid, o)
		}
	}
	return nil
}

// checkOps counts as etcd does: the longest of a transaction's three lists, and
// what is left of the limit is that of each transaction nested in it.
func checkOps(txn *etcd.Txn, limit int) error {
	n := max(len(txn.If), len(txn.Then), len(txn.Else))
	if n > limit {
		return fmt.Errorf("%w: %d where at most %d are allowed", etcd.ErrTooManyOps, n, limit)
	}
	for _, c := range txn.If {
		if c.Key == "" {
			return errEmptyKey
		}
	}
	for _, o := range slices.Concat(txn.Then, txn.Else) {
		if nested, ok := o.(*etcd.Txn); ok {
			if err := checkOps(nested, limit-n); err != nil {
				return err
			}
		} else if spanOf(o).start == "" {
			return errEmptyKey
		}
	}
	return nil
}

// spanOf returns the keys that an operation is about.
func spanOf(o etcd.Op) span {
	switch o := o.(type) {
	case etcd.Put:
		return span{start: o.Key}
	case etcd.Delete:
		return span{o.Key, o.End}
	case etcd.Get:
		return span{o.Key, o.End}
	}
	return span{}
}

// A footprint is what a list of operations could write, nested ones included.
type footprint struct {
	puts    map[string]bool
	deletes []span
}

// footprintOf refuses a list in which a key could be put twice, or put and deleted.
// It does so exactly where etcd does, which looks at nested transactions in order:
// a put in an earlier one and a deletion of its key in a later one pass.
func footprintOf(ops []etcd.Op) (footprint, error) {
	all := footprint{puts: map[string]bool{}}
	for _, o := range ops {
		if del, ok := o.(etcd.Delete); ok {
			all.deletes = append(all.deletes, span{del.Key, del.End})
		}
	}
	for _, o := range ops {
		nested, ok := o.(*etcd.Txn)
		if !ok {
			continue
		}
		then, err := footprintOf(nested.Then)
		if err != nil {
			return all, err
		}
		otherwise, err := footprintOf(nested.Else)
		if err != nil {
			return all, err
		}
		if err := all.merge(then, otherwise); err != nil {
			return all, err
		}
	}
	for _, o := range ops {
		if put, ok := o.(etcd.Put); ok {
			if err := all.put(put.Key, nil); err != nil {
				return all, err
			}
		}
	}
	return all, nil
}

// merge adds the branches of one nested transaction, of which one runs.
func (f *footprint) merge(then, otherwise footprint) error {
	for _, key := range slices.Sorted(maps.Keys(then.puts)) {
		if err := f.put(key, nil); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(otherwise.puts)) {
		if err := f.put(key, then.puts); err != nil {
			return err
		}
	}
	f.deletes = slices.Concat(f.deletes, then.deletes, otherwise.deletes)
	return nil
}

// put adds a put, which may repeat only what the other branch puts.
func (f *footprint) put(key string, other map[string]bool) error {
	if f.puts[key] && !other[key] {
		return fmt.Errorf("%w: key %q", etcd.ErrDuplicateKey, key)
	}
	for _, del := range f.deletes {
		// Etcd takes an open end for what it says here, not for the last key.
		if del.end != toTheLast && del.contains(key) {
			return fmt.Errorf("%w: key %q is put and deleted", etcd.ErrDuplicateKey, key)
		}
	}
	f.puts[key] = true
	return nil
}

// readOnly says whether etcd answers the transaction without its log: a nested one
// goes through it, whatever it holds.
func readOnly(txn *etcd.Txn) bool {
	for _, o := range slices.Concat(txn.Then, txn.Else) {
		if _, ok := o.(etcd.Get); !ok {
			return false
		}
	}
	return true
}

// puts says whether the transaction has a put, in a branch that is taken or not.
func puts(txn *etcd.Txn) bool {
	return slices.ContainsFunc(slices.Concat(txn.Then, txn.Else), func(o etcd.Op) bool {
		switch o := o.(type) {
		case etcd.Put:
			return true
		case *etcd.Txn:
			return puts(o)
		}
		return false
	})
}
