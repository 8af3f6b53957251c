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
//	spec/<id>                                   Spec         admit; never changes                 the last piece of a deletion
//	state/<id>                                  State        admit, claim, release, acknowledge,  the last piece of a deletion
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
//	step/<id>/<inc>/<run>/<key>/<attempt>       Step         writeStep; never changes             a piece of a deletion, or of the
//	                                                                                              clean-up after its run
//	params/<id>/<inc>/<run>                     Params       the turnover to the run, an          the next turnover; the last piece of
//	                                                         acknowledgement; never changes       a deletion
//	done/<time>/<id>                            empty        acknowledge with a terminal          the last piece of a deletion
//	                                                         outcome, cancel
//	start/<id>/<inc>/<run>/<key>                Start        a step's start of a workflow, in     a piece of the execution's deletion,
//	                                                         the admission of what it has         or of the clean-up after its run
//	                                                         started; never changes
//	purging/<id>                                Purging      delete of an execution, first        the last piece of the deletion
//	event/<id>/<inc>/<name>/<event>             Event        a sender, with the wake that it      the record of the step that applies
//	                                                         asks for; never changes              it; a piece of a deletion
//	applied/<id>/<inc>/<name>/<event>           Applied      the record of the step that applies  a piece of a deletion
//	                                                         the event; never changes
//
// Those of stores, where <store> is a name and an id, two segments:
//
//	store/<store>                               Store        getOrCreate, every commit            delete of the store
//	receipt/<id>/<inc>/<run>/<key>/<store>      Receipt      a step's commit or delete, in its    a piece of the execution's deletion,
//	                                                         own transaction; never changes       or of the clean-up after its run
//	waiter/<store>/<id>/<inc>/<run>/<key>       Waiter       the registration of a step, in the   its wake, a stale registration in its
//	                                                         place of an earlier one of it        place, unregister, the record of the
//	                                                                                              step's answer, delete of the store,
//	                                                                                              a piece of the execution's deletion,
//	                                                                                              or of the clean-up after its run
//	outbox/change/<store>/<version>             Change       a commit that finds waiters          whoever has woken them all; delete of
//	                                                                                              the store
//	outbox/wake/<store>/<wake>                  Owed         a stale registration; a wake that    its delivery; delete of the store
//	                                                         failed
//	pulled/<store>/<wake>                       Owed         a wake, or a stale registration, of  the client of the HTTP API that has
//	                                                         a waiter that is not the engine's    fetched it; delete of the store
//
// A row is one transaction with its neighbours: admit writes spec, state and due
// together, and so on. The state's mod-revision is the fencing token while a
// delivery runs. live exists exactly while state says claimed. P names a holder's
// process, anew for each etcd lease. inc is the incarnation, the create-revision
// of the state record, so that an id that is admitted again after its deletion
// shares nothing with the older one. Executions of other runtimes, which use the
// stores only, have inc and run 0.
//
// run counts the turnovers, each of which is an acknowledgement that begins the next
// run. The params of run 0 are in spec, those of a later one in params, where there are
// only those of the current run: so run 0 is current as long as the incarnation has
// none there, and a later run as long as its own are.
//
// The end of an execution is waited for as a change of the store with the name
// "holdfast:execution" and the execution's id. That store has no record: its instance
// is the incarnation, in decimal digits, and its only change, of the version of the same
// number, is written with the terminal state, if there are waiters.
//
// Events have no run: those that no step has applied wait for the next one. They are
// ordered by their create-revisions. The receipt of one that was applied stays, so that
// an event that is sent again is not applied again.
//
// A receipt belongs to the name of a store and not to one instance of it: it stays
// when the store is deleted and created again. The drop of a namespace without
// executions deletes everything of stores, receipts of other runtimes among it.
//
// # Encoding
//
// A name (namespace, id, queue, P, step key, a store's name and id, an event's, wake) is one
// segment. It is written as it is, except that the bytes '/', '%', those below 0x20
// and 0x7f become '%' and two upper-case hexadecimal digits. So no segment holds a
// separator, "<id>/" is never the beginning of another id's keys, and the encoding
// of a prefix is a prefix of the encoding: the ids with a prefix are one range. Ids
// do not sort quite as their bytes do: '/' sorts as '%'.
//
// Times are 15 decimal digits of Unix milliseconds, runs and attempts 10 decimal
// digits, incarnations and versions 19, so that the order of the bytes is the order
// of the numbers. The priority is one decimal digit and the shard one hexadecimal
// digit, a hash of the id. A number outside its range is written as the nearest one
// in it, so that no key is ever malformed: whoever takes a number from a user
// refuses it first.
//
// The format is frozen: what one release writes, every later one reads.
package keyspace
