package etcdv3

import (
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-io/holdfast/internal/etcd"
)

func txnOp(txn *etcd.Txn) (clientv3.Op, error) {
	compares := make([]clientv3.Cmp, len(txn.If))
	for i, c := range txn.If {
		var err error
		if compares[i], err = compare(c); err != nil {
			return clientv3.Op{}, err
		}
	}
	then, err := ops(txn.Then)
	if err != nil {
		return clientv3.Op{}, err
	}
	otherwise, err := ops(txn.Else)
	if err != nil {
		return clientv3.Op{}, err
	}
	return clientv3.OpTxn(compares, then, otherwise), nil
}

func ops(list []etcd.Op) ([]clientv3.Op, error) {
	out := make([]clientv3.Op, len(list))
	for i, o := range list {
		var err error
		if out[i], err = op(o); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func op(o etcd.Op) (clientv3.Op, error) {
	switch o := o.(type) {
	case etcd.Put:
		if o.Lease == 0 {
			return clientv3.OpPut(o.Key, string(o.Value)), nil
		}
		return clientv3.OpPut(o.Key, string(o.Value), clientv3.WithLease(clientv3.LeaseID(o.Lease))), nil
	case etcd.Delete:
		if o.End == "" {
			return clientv3.OpDelete(o.Key), nil
		}
		return clientv3.OpDelete(o.Key, clientv3.WithRange(o.End)), nil
	case etcd.Get:
		return getOp(o), nil
	case *etcd.Txn:
		return txnOp(o)
	default:
		return clientv3.Op{}, fmt.Errorf("%w: operation of type %T", etcd.ErrInvalid, o)
	}
}

func getOp(get etcd.Get) clientv3.Op {
	var opts []clientv3.OpOption
	if get.End != "" {
		opts = append(opts, clientv3.WithRange(get.End))
	}
	if get.Limit != 0 {
		opts = append(opts, clientv3.WithLimit(get.Limit))
	}
	if get.Revision != 0 {
		opts = append(opts, clientv3.WithRev(get.Revision))
	}
	if get.KeysOnly {
		opts = append(opts, clientv3.WithKeysOnly())
	}
	return clientv3.OpGet(get.Key, opts...)
}

func compare(c etcd.Compare) (clientv3.Cmp, error) {
	sign := "="
	if c.Not {
		sign = "!="
	}
	var cmp clientv3.Cmp
	switch c.Target {
	case etcd.ModRevision:
		cmp = clientv3.Compare(clientv3.ModRevision(c.Key), sign, c.Revision)
	case etcd.CreateRevision:
		cmp = clientv3.Compare(clientv3.CreateRevision(c.Key), sign, c.Revision)
	case etcd.Value:
		cmp = clientv3.Compare(clientv3.Value(c.Key), sign, c.Value)
	default:
		return clientv3.Cmp{}, fmt.Errorf("%w: compare of key %q with target %d", etcd.ErrInvalid, c.Key, c.Target)
	}
	if c.End != "" {
		cmp = cmp.WithRange(c.End)
	}
	return cmp, nil
}

// txnResult takes the revision from outside, since etcd writes none into the
// result of a nested transaction.
func txnResult(resp *clientv3.TxnResponse, revision int64) *etcd.TxnResult {
	result := &etcd.TxnResult{Succeeded: resp.Succeeded, Revision: revision, Results: make([]etcd.Result, len(resp.Responses))}
	for i, r := range resp.Responses {
		switch r := r.Response.(type) {
		case *pb.ResponseOp_ResponseRange:
			result.Results[i] = etcd.Result{KVs: kvs(r.ResponseRange.Kvs), More: r.ResponseRange.More, Count: r.ResponseRange.Count}
		case *pb.ResponseOp_ResponseTxn:
			result.Results[i].Txn = txnResult((*clientv3.TxnResponse)(r.ResponseTxn), revision)
		}
	}
	return result
}

func kvs(list []*mvccpb.KeyValue) []etcd.KV {
	if len(list) == 0 {
		return nil
	}
	out := make([]etcd.KV, len(list))
	for i, kv := range list {
		out[i] = etcd.KV{Key: string(kv.Key), Value: kv.Value, Created: kv.CreateRevision, Modified: kv.ModRevision, Lease: etcd.LeaseID(kv.Lease)}
	}
	return out
}

// payload returns how many bytes of keys and values the transaction holds.
func payload(txn *etcd.Txn) int {
	n := 0
	for _, c := range txn.If {
		n += len(c.Key) + len(c.End) + len(c.Value)
	}
	for _, branch := range [][]etcd.Op{txn.Then, txn.Else} {
		for _, o := range branch {
			switch o := o.(type) {
			case etcd.Put:
				n += len(o.Key) + len(o.Value)
			case etcd.Delete:
				n += len(o.Key) + len(o.End)
			case etcd.Get:
				n += len(o.Key) + len(o.End)
			case *etcd.Txn:
				n += payload(o)
			}
		}
	}
	return n
}
