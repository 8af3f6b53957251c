package leasing

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
)

// The bounds of one transaction of [Client.AdmitMany]. Etcd counts the outer operations
// and those of the largest nested transaction, and allows 128 by default; a request may
// have 1.5 MiB.
const (
	admitBatch = 124
	admitBytes = 1 << 20
)

// An AdmitAnswer is what one request of [Client.AdmitMany] came to: an admission, or an
// error.
type AdmitAnswer struct {
	execution.Admission
	Err error
}

// AdmitMany admits many executions, as [Client.Admit] does each, in few transactions of
// up to 124 admissions. Each succeeds or fails by itself, and has its answer, in the
// place of its request. The error says that etcd did not answer, or ctx ended, and is
// that of every request from there on: ask for the same again, and those that were
// admitted are answered as existing ones.
func (c *Client) AdmitMany(ctx context.Context, reqs []execution.AdmitRequest) ([]AdmitAnswer, error) {
	answers := make([]AdmitAnswer, len(reqs))
	b := admitting{client: c, ids: map[execution.ID]bool{}}
	for i, req := range reqs {
		answers[i].ID = req.ID
		if answers[i].Err = completeAdmit(&req); answers[i].Err != nil {
			continue
		}
		answers[i].ID = req.ID
		one := newAdmitting(c, req, &answers[i])
		if !b.takes(one) {
			if err := b.send(ctx); err != nil {
				err = fmt.Errorf("admit many: %w", err)
				for j := i; j < len(reqs); j++ {
					answers[j] = AdmitAnswer{execution.Admission{ID: reqs[j].ID}, err}
				}
				return answers, err
			}
		}
		b.add(one)
	}
	if err := b.send(ctx); err != nil {
		return answers, fmt.Errorf("admit many: %w", err)
	}
	return answers, nil
}

// An admittingOne is one request, with the place for its answer.
type admittingOne struct {
	req    execution.AdmitRequest
	nonce  string
	txn    *etcd.Txn
	bytes  int
	answer *AdmitAnswer
}

func newAdmitting(c *Client, req execution.AdmitRequest, answer *AdmitAnswer) admittingOne {
	one := admittingOne{req: req, nonce: newNonce(), answer: answer}
	one.txn = c.admission(req, one.nonce)
	for _, op := range one.txn.Then {
		if put, is := op.(etcd.Put); is {
			one.bytes += len(put.Key) + len(put.Value)
		}
	}
	return one
}

// An admitting is what is to be admitted in one transaction. Etcd refuses one that
// writes a key twice, so that it has each id once.
type admitting struct {
	client *Client
	ones   []admittingOne
	ids    map[execution.ID]bool
	bytes  int
}

// takes says whether there is room for one more.
func (b *admitting) takes(one admittingOne) bool {
	return len(b.ones) == 0 ||
		len(b.ones) < admitBatch && b.bytes+one.bytes <= admitBytes && !b.ids[one.req.ID]
}

func (b *admitting) add(one admittingOne) {
	b.ones = append(b.ones, one)
	b.ids[one.req.ID] = true
	b.bytes += one.bytes
}

// send admits what there is, and begins anew. An error is that of all that was not
// answered.
func (b *admitting) send(ctx context.Context) error {
	err := b.client.admitAll(ctx, b.ones)
	b.ones, b.bytes = b.ones[:0], 0
	clear(b.ids)
	return err
}

// admitAll admits in one transaction, or in smaller ones where etcd's limits are lower
// than those that are known here.
//
//	for each  compare  the state record is absent
//	          then     spec, state, due entry
func (c *Client) admitAll(ctx context.Context, ones []admittingOne) error {
	if len(ones) == 0 {
		return nil
	}
	txn := &etcd.Txn{}
	for _, one := range ones {
		txn.Then = append(txn.Then, one.txn)
	}
	res, _, err := fencing.Send(ctx, c.store, txn)
	beyond := errors.Is(err, etcd.ErrTooLarge) || errors.Is(err, etcd.ErrTooManyOps)
	switch {
	case beyond && len(ones) > 1:
		half := len(ones) / 2
		if err := c.admitAll(ctx, ones[:half]); err != nil {
			failAll(ones[half:], err)
			return err
		}
		return c.admitAll(ctx, ones[half:])
	case beyond:
		ones[0].answer.Err = fmt.Errorf("admit %q: %w", string(ones[0].req.ID), err)
		return nil
	case err != nil:
		failAll(ones, err)
		return err
	}
	for i := range ones {
		c.admitAnswer(ctx, &ones[i], res.Results[i].Txn)
	}
	return nil
}

func failAll(ones []admittingOne, err error) {
	for i := range ones {
		ones[i].answer.Err = fmt.Errorf("admit %q: %w", string(ones[i].req.ID), err)
	}
}

// admitAnswer answers one request. Where a deletion is to be finished first, it is
// admitted by itself.
func (c *Client) admitAnswer(ctx context.Context, one *admittingOne, res *etcd.TxnResult) {
	adm, purging, err := c.admissionAnswer(one.req, one.nonce, res)
	if purging {
		adm, err = c.admit(ctx, one.req, one.txn, one.nonce)
	}
	if err != nil {
		one.answer.Err = err
		return
	}
	one.answer.Admission = adm
}
