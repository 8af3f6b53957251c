package etcd

// An Op is one operation of a transaction: [Put], [Delete], [Get] or a nested *[Txn].
type Op interface{ op() }

// Put writes a key, bound to an etcd lease unless Lease is 0.
type Put struct {
	Key   string
	Value []byte
	Lease LeaseID
}

// Delete removes a key, or the keys of [Key, End) where End is set.
type Delete struct{ Key, End string }

// Get reads a key, or the keys of [Key, End) in ascending order where End is set.
type Get struct {
	Key, End string
	Limit    int64 // 0: all
	Revision int64 // 0: the current one
	KeysOnly bool
}

// A Txn is a transaction: all compares see the state before it, then either
// branch's operations run at one revision. Etcd refuses a transaction that
// writes one key twice in branches that could both run.
type Txn struct {
	If         []Compare
	Then, Else []Op
}

func (Put) op()    {}
func (Delete) op() {}
func (Get) op()    {}
func (*Txn) op()   {}

// A Target is what a compare looks at.
type Target int

// The targets that the engine uses.
const (
	ModRevision Target = iota
	CreateRevision
	Value
)

// A Compare demands that the target of the key equals, or with Not does not
// equal, the given revision or value. A key that is absent has revisions 0 and
// fails every compare of its value. Where End is set, the demand is made of every
// key of [Key, End); a range without a key is judged as one absent key.
type Compare struct {
	Key, End string
	Target   Target
	Revision int64
	Value    string
	Not      bool
}

// ModIs demands the key's mod-revision; 0: the key is absent.
func ModIs(key string, revision int64) Compare {
	return Compare{Key: key, Target: ModRevision, Revision: revision}
}

// CreatedIs demands the key's create-revision.
func CreatedIs(key string, revision int64) Compare {
	return Compare{Key: key, Target: CreateRevision, Revision: revision}
}

// Absent demands that the key does not exist.
func Absent(key string) Compare { return CreatedIs(key, 0) }

// RangeEmpty demands that no key of [start, end) exists.
func RangeEmpty(start, end string) Compare {
	return Compare{Key: start, End: end, Target: CreateRevision}
}

// Present demands that the key exists.
func Present(key string) Compare {
	return Compare{Key: key, Target: CreateRevision, Not: true}
}

// ValueIs demands the key's value.
func ValueIs(key, value string) Compare {
	return Compare{Key: key, Target: Value, Value: value}
}

// A KV is a key with its value and revisions.
type KV struct {
	Key      string
	Value    []byte
	Created  int64
	Modified int64
	Lease    LeaseID
}

// A Result is what one operation returned.
type Result struct {
	KVs  []KV // Get
	More bool // Get: the limit left some out
	// Count is, of a Get, how many keys the range holds, whatever the limit.
	Count int64
	Txn   *TxnResult
}

// One returns the single key of a Get, or false.
func (r Result) One() (KV, bool) {
	if len(r.KVs) == 0 {
		return KV{}, false
	}
	return r.KVs[0], true
}

// A TxnResult is what a transaction returned: which branch ran, at which
// revision of the store, and a result an operation of that branch.
type TxnResult struct {
	Succeeded bool
	Revision  int64
	Results   []Result
}
