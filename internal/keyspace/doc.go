// Package keyspace is the only code that builds, parses, orders or documents a
// key. It imports the standard library only.
//
// # Schema
//
// Every key of a namespace lies under "<prefix>/v1/<namespace>/". Only proc/ is
// bound to an etcd lease, which its process was granted; every other key is an
// ordinary one. The values are those of internal/record, but for epoch and done.
//
//	key                                         value        written by                           deleted by
//	epoch                                       random text  the namespace's first client; a      -
//	                                                         restore rewrites it
//	proc/<P>                                    Proc         a holder, with its etcd lease        the etcd lease's end
//	spec/<id>                                   Spec         admit; never changes                 -
//	state/<id>                                  State        admit, claim, release, acknowledge,  -
//	                                                         cancel, fence, and requestWake of
//	                                                         an unclaimed execution
//	live/<id>                                   Live         claim; renew, onto another P; reap   release, acknowledge, cancel, fence
//	due/<queue>/<priority>/<shard>/<time>/<id>  Due          admit, release, acknowledge, fence,  claim, cancel, renew of a reaped
//	                                                         requestWake of an unclaimed          delivery, and whatever writes
//	                                                         execution, reap                      another one in its place
//	evict/<P>/<id>                              Evict        cancel and fence of a claimed        P's process; a scan, where P is gone
//	                                                         execution
//	wake/<id>                                   Wake         requestWake of a claimed execution   claim, release, acknowledge, cancel,
//	                                                                                              fence
//	step/<id>/<inc>/<run>/<key>/<attempt>       Step         writeStep; never changes             -
//	done/<time>/<id>                            empty        acknowledge with a terminal          -
//	                                                         outcome, cancel
//
// A row is one transaction with its neighbours: admit writes spec, state and due
// together, and so on. The state's mod-revision is the fencing token while a
// delivery runs. live exists exactly while state says claimed. P names a holder's
// process, anew for each etcd lease. inc is the incarnation, the create-revision
// of the state record, so that an id that is admitted again after its deletion
// shares nothing with the older one.
//
// # Encoding
//
// A name (namespace, id, queue, P, step key) is one segment. It is written as it
// is, except that the bytes '/', '%', those below 0x20 and 0x7f become '%' and
// two upper-case hexadecimal digits. So no segment holds a separator, "<id>/" is
// never the beginning of another id's keys, and the encoding of a prefix is a
// prefix of the encoding: the ids with a prefix are one range. Ids do not sort
// quite as their bytes do: '/' sorts as '%'.
//
// Times are 15 decimal digits of Unix milliseconds, runs and attempts 10 decimal
// digits, incarnations 19, so that the order of the bytes is the order of the
// numbers. The priority is one decimal digit and the shard one hexadecimal digit,
// a hash of the id. A number outside its range is written as the nearest one in
// it, so that no key is ever malformed: whoever takes a number from a user refuses
// it first.
//
// The format is frozen: what one release writes, every later one reads.
package keyspace
