// Package keyspace is the only code that builds, parses, orders or documents a
// key. It imports the standard library only.
//
// # Schema
//
// Every key of a namespace lies under "<prefix>/v1/<namespace>/". Only proc/ is
// bound to an etcd lease; every other key is an ordinary record.
//
//	key                                       value                                   written by, in which transaction
//	epoch                                     a random string                         the first client; a restore rewrites it
//	proc/<P>                                  who the process is                      a holder, with its etcd lease (the only leased key)
//	spec/<id>                                 workflow, queue, params, admitted-at    admit; never changes
//	state/<id>                                the execution's state record; its       admit, claim, release, acknowledge, requestWake
//	                                          mod-revision is the fencing token       (unclaimed), cancel, fence
//	                                          while a delivery runs
//	live/<id>                                 token, P, a reaper's due time           claim, renew (another P), reap; deleted by whatever
//	                                                                                  ends the delivery; exists iff state says claimed
//	due/<queue>/<priority>/<shard>/<time>/<id>  what a claim needs of the state       admit, release, acknowledge, requestWake, fence, reap;
//	                                                                                  deleted by claim and whatever moves it
//	evict/<P>/<id>                            a token                                 cancel and fence of a claimed execution; deleted by P
//	wake/<id>                                 earliest wake since the claim           requestWake of a claimed execution; deleted by claim and
//	                                                                                  whatever ends the delivery
//	step/<id>/<inc>/<run>/<key>/<attempt>     one attempt's response                  writeStep; never changes
//	done/<time>/<id>                          empty                                   whatever makes the execution terminal
//
// inc is the incarnation: the create-revision of the state record, so that an id
// admitted again after its deletion shares nothing with the older one.
//
// # Encoding
//
// A segment that a user chose (namespace, id, queue, step key) is written as it
// is, except that the bytes '/', '%', those below 0x20 and 0x7f become '%' and
// two upper-case hexadecimal digits. So no segment holds a separator, "<id>/" is
// never the beginning of another id's keys, and the encoding of a prefix is a
// prefix of the encoding: an id prefix can be listed by a range. Times are 15
// decimal digits of Unix milliseconds, counters 10 decimal digits and revisions
// 19, so that the order of the bytes is the order of the numbers.
//
// The format is frozen: what one release writes, every later one reads.
package keyspace
