package memetcd_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/status"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/etcdv3"
	"github.com/holdfast-io/holdfast/internal/memetcd"
	"github.com/holdfast-io/holdfast/pkg/embedded"
)

// patience bounds how long a watch of a real etcd may take.
const patience = 30 * time.Second

// A pair is a real etcd and one in memory that have been asked the same. Etcd
// leases go by the numbers that they have in memory.
type pair struct {
	t      *testing.T
	rng    *rand.Rand
	counts map[string]int
	recent []string

	client *clientv3.Client
	alarms pb.MaintenanceClient
	real   etcd.Store
	model  *memetcd.Server
	store  etcd.Store // of the model

	toReal, toModel map[etcd.LeaseID]etcd.LeaseID
	leases          []etcd.LeaseID // all that were granted, ended ones too

	compacted int64
	full      int // operations until there is space again; 0: there is
	live      []*followed
}

func newPair(t *testing.T, rng *rand.Rand) *pair {
	t.Helper()
	server, err := embedded.Start(t.Context(), embedded.Config{Dir: t.TempDir(), NoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	remote, err := clientv3.NewFromURL(server.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = remote.Close() })
	p := &pair{
		t: t, rng: rng, counts: map[string]int{},
		client: server.Client(), real: etcdv3.New(server.Client(), server.Client()),
		alarms: pb.NewMaintenanceClient(remote.ActiveConnection()),
		toReal: map[etcd.LeaseID]etcd.LeaseID{}, toModel: map[etcd.LeaseID]etcd.LeaseID{},
	}
	p.model, p.store = open(t)
	return p
}

// An answer is what a call returned, rendered so that alike is equal.
type answer struct {
	class string // of the error
	text  string
}

func (a answer) String() string {
	if a.class != "" {
		return "error: " + a.class
	}
	return a.text
}

func (p *pair) answer(value any, err error) answer {
	p.t.Helper()
	if err != nil {
		return answer{class: classOf(err)}
	}
	text, err := json.Marshal(value)
	if err != nil {
		p.t.Fatal(err)
	}
	return answer{text: string(text)}
}

func classOf(err error) string {
	if compacted, ok := errors.AsType[*etcd.CompactedError](err); ok {
		return fmt.Sprintf("compacted %d", compacted.Revision)
	}
	for class, kind := range map[string]error{
		"no space": etcd.ErrNoSpace, "too many": etcd.ErrTooManyOps, "too large": etcd.ErrTooLarge, "duplicate": etcd.ErrDuplicateKey,
		"lease not found": etcd.ErrLeaseNotFound, "invalid": etcd.ErrInvalid,
	} {
		if errors.Is(err, kind) {
			return class
		}
	}
	if strings.HasPrefix(err.Error(), "etcd: ") && strings.HasSuffix(err.Error(), " is empty") {
		return "empty range"
	}
	return "other: " + err.Error()
}

func (p *pair) grant(ttl time.Duration) {
	p.t.Helper()
	p.note("grant %v", ttl)
	id, wantTTL, wantErr := p.real.Grant(p.t.Context(), ttl)
	got, gotTTL, err := p.store.Grant(p.t.Context(), ttl)
	p.same("grant", p.answer(wantTTL, wantErr), p.answer(gotTTL, err))
	if wantErr != nil || err != nil {
		return
	}
	p.toReal[got], p.toModel[id] = id, got
	p.leases = append(p.leases, got)
	if gotTTL < time.Minute { // it could end by itself, at a moment of etcd's choice
		p.revoke(got)
	}
}

// realLease translates; what was never granted stays as it is.
func (p *pair) realLease(id etcd.LeaseID) etcd.LeaseID {
	if its, ok := p.toReal[id]; ok {
		return its
	}
	return id
}

func (p *pair) realTxn(txn *etcd.Txn) *etcd.Txn {
	return &etcd.Txn{If: txn.If, Then: p.realOps(txn.Then), Else: p.realOps(txn.Else)}
}

func (p *pair) realOps(ops []etcd.Op) []etcd.Op {
	var out []etcd.Op
	for _, o := range ops {
		switch op := o.(type) {
		case etcd.Put:
			op.Lease = p.realLease(op.Lease)
			o = op
		case *etcd.Txn:
			o = p.realTxn(op)
		}
		out = append(out, o)
	}
	return out
}

func (p *pair) modelResult(r *etcd.TxnResult) *etcd.TxnResult {
	if r == nil {
		return nil
	}
	out := &etcd.TxnResult{Succeeded: r.Succeeded, Revision: r.Revision, Results: []etcd.Result{}}
	for _, one := range r.Results {
		out.Results = append(out.Results, p.modelRead(one))
	}
	return out
}

func (p *pair) modelRead(r etcd.Result) etcd.Result {
	out := etcd.Result{More: r.More, Count: r.Count, Txn: p.modelResult(r.Txn)}
	for _, kv := range r.KVs {
		out.KVs = append(out.KVs, p.modelKV(kv))
	}
	return out
}

// modelKV also makes no difference between no value and an empty one.
func (p *pair) modelKV(kv etcd.KV) etcd.KV {
	if id, ok := p.toModel[kv.Lease]; ok {
		kv.Lease = id
	}
	if len(kv.Value) == 0 {
		kv.Value = nil
	}
	return kv
}

// compact forgets the past on both, after the watches have seen it.
func (p *pair) compact(revision int64) {
	p.t.Helper()
	for _, l := range p.live {
		p.catchUp(l)
	}
	p.note("compact at %d", revision)
	_, wantErr := p.client.Compact(p.t.Context(), revision, clientv3.WithCompactPhysical())
	err := p.model.Compact(revision)
	p.same("compact", p.answer(nil, refused(wantErr)), p.answer(nil, err))
	if err == nil {
		p.compacted = revision
	}
}

// refused gives the client's errors of a compaction, which no store makes, a type.
func refused(err error) error {
	switch {
	case err == nil:
		return nil
	case status.Convert(err).Message() == "etcdserver: mvcc: required revision has been compacted":
		return &etcd.CompactedError{}
	case status.Convert(err).Message() == "etcdserver: mvcc: required revision is a future revision":
		return etcd.ErrInvalid
	}
	return err
}

// setSpace raises the alarm, or clears it, on both.
func (p *pair) setSpace(full bool) {
	p.t.Helper()
	p.note("space full: %t", full)
	action, space := pb.AlarmRequest_DEACTIVATE, memetcd.SpaceFree
	if full {
		action, space = pb.AlarmRequest_ACTIVATE, memetcd.SpaceFull
	}
	ctx, cancel := p.bounded()
	defer cancel()
	if _, err := p.alarms.Alarm(ctx, &pb.AlarmRequest{Action: action, MemberID: 1, Alarm: pb.AlarmType_NOSPACE}); err != nil {
		p.t.Fatal(err)
	}
	p.model.SetSpace(space)
}
