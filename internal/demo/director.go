package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/internal/process"
	"github.com/holdfast-io/holdfast/internal/shop"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// stallTimeout is how long the demo waits without any news, beside what leases take.
const stallTimeout = time.Minute

// A director runs the play: it takes in what the children say and what the history
// shows, and does to the workers what the script wants. One goroutine owns it.
type director struct {
	cfg     Config
	crew    *crew
	inbox   *inbox
	script  *script
	tell    narrator
	history *history

	endpoint, namespace, ledger string

	provider  string                      // its URL, once it is known
	status    map[string]execution.Status // of the orders that have ended
	attempts  int
	charges   int
	takeovers int
	refused   []RefusedWrite
	revision  int64 // up to which the history was followed
	retiring  bool  // the children were asked to end
	unwell    error // of those that did not end well when they were
}

// admitted is the news that every order is in etcd.
type admitted struct{ orders int }

// direct starts the children, follows the script to its end and until every order
// has ended, and sends the children home. Afterwards every write of theirs has been
// answered, told and followed.
func (d *director) direct(ctx context.Context) error {
	if err := d.crew.startProvider(d.ledger, holds(d.cfg.Orders.Valid)); err != nil {
		return err
	}
	if err := d.until(ctx, func() bool { return d.provider != "" }); err != nil {
		return err
	}
	if err := d.crew.startWorkers(d.endpoint, d.namespace, d.provider); err != nil {
		return err
	}
	d.introduce()
	if err := d.until(ctx, func() bool { return d.script.over() && len(d.status) == len(d.cfg.Orders.Valid) }); err != nil {
		return err
	}
	d.progress()
	d.retiring = true
	d.unwell = d.crew.retire(d.script.killed)
	newest, err := d.history.newest(ctx)
	if err != nil {
		return err
	}
	if err := d.takeAll(ctx); err != nil {
		return err
	}
	return d.until(ctx, func() bool { return d.revision >= newest })
}

// introduce says who takes part.
func (d *director) introduce() {
	d.tell.say("payment provider: pid %d, %s", d.crew.provider.Pid(), d.provider)
	for _, w := range d.crew.workers {
		d.tell.say("%s: pid %d, at most %s at once", w.Name(), w.Pid(), plural(d.cfg.Concurrency, "order"))
	}
	d.tell.say("the demo's lease is %v, renewed every %v, so that a takeover doesn't take long; outside of it 30s is the default",
		d.cfg.Lease, renewal(d.cfg.Lease))
}

// until takes in the news until done.
func (d *director) until(ctx context.Context, done func() bool) error {
	patience := stallTimeout + 4*d.cfg.Lease
	stall := time.NewTimer(patience)
	defer stall.Stop()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for !done() {
		select {
		case <-d.inbox.wake:
			if err := d.takeAll(ctx); err != nil {
				return err
			}
			stall.Reset(patience)
		case <-tick.C:
			d.progress()
		case <-stall.C:
			return fmt.Errorf("nothing has happened for %v; %d of %s ended; %s",
				patience, len(d.status), plural(len(d.cfg.Orders.Valid), "order"), d.script.waiting())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (d *director) takeAll(ctx context.Context) error {
	for _, item := range d.inbox.take() {
		if err := d.take(ctx, item); err != nil {
			return err
		}
	}
	return nil
}

// take takes in one piece of news.
func (d *director) take(ctx context.Context, item any) error {
	switch item := item.(type) {
	case admitted:
		d.tell.say("%s in etcd, each an execution of the workflow %s", plural(item.orders, "order"), shop.WorkflowName)
	case ended:
		return d.ended(item.child)
	case sighting:
		return d.act(ctx, d.sighting(item))
	case said:
		switch {
		case item.Listening != "":
			d.provider = item.Listening
		case item.Notice != nil:
			d.count(item.Notice)
			return d.act(ctx, d.script.notice(*item.Notice))
		case item.Event != nil:
			d.event(item.by, *item.Event)
		}
	}
	return nil
}

// ended judges the end of a child: only the worker that is killed may end before
// it is asked to.
func (d *director) ended(child *process.Child) error {
	if d.retiring || child.Name() == d.script.killed {
		return nil
	}
	why := child.Err()
	if why == nil {
		why = errors.New(child.Name() + ": exit status 0")
	}
	return fmt.Errorf("a process has ended before its time: %w", why)
}

func (d *director) sighting(s sighting) act {
	d.revision = max(d.revision, s.revision)
	if s.takeover {
		d.takeovers++
	}
	if s.status != "" {
		d.status[s.id] = s.status
	}
	if s.token > 0 {
		return d.script.write(s.id, s.token)
	}
	return nothing
}

func (d *director) count(n *shop.Notice) {
	if n.Sent {
		return // it was counted when it was withheld
	}
	d.attempts++
	if n.Entry.Answer == shop.AnswerCharged {
		d.charges++
	}
}

// event tells of a takeover or a refused write.
func (d *director) event(worker string, e Event) {
	switch e.Kind {
	case execution.EventTakeover:
		d.tell.say("takeover: %s continues %s with token %d; the lease before has expired", worker, name(string(e.ID)), e.Token)
	case execution.EventRefused:
		d.refused = append(d.refused, RefusedWrite{ExecutionID: e.ID, Operation: e.Operation, Carried: e.Token, Current: e.Current, Worker: worker})
		d.script.refusal(worker)
		d.tell.say("refused: %s of %s by %s, which carried token %d; the current token is %d", e.Operation, name(string(e.ID)), worker, e.Token, e.Current)
	}
}

// actTimeout bounds what is done to a process; it takes milliseconds.
const actTimeout = 30 * time.Second

// act does what the script wants.
func (d *director) act(ctx context.Context, a act) error {
	ctx, cancel := context.WithTimeout(ctx, actTimeout)
	defer cancel()
	switch a {
	case kill:
		return d.kill(ctx)
	case freeze:
		return d.freeze(ctx)
	case wake:
		w, id := d.crew.worker(d.script.frozen), d.script.held.OrderID
		d.tell.say("WAKE %s with SIGCONT: %s was written with token %d meanwhile; %s has the provider's answer now, and still token %d",
			w.Name(), name(id), d.script.written[id], w.Name(), d.script.held.Token)
		return w.Thaw()
	}
	return nil
}

func (d *director) kill(ctx context.Context) error {
	w := d.crew.worker(d.script.killed)
	if w == nil {
		return fmt.Errorf("the provider withholds an answer to %q, which is no worker", d.script.killed)
	}
	if err := w.Kill(ctx); err != nil {
		return err
	}
	d.tell.say("KILL %s (pid %d) with SIGKILL while it charged %s: the provider has decided, its answer never arrived",
		w.Name(), w.Pid(), name(d.script.lastWords.OrderID))
	return nil
}

func (d *director) freeze(ctx context.Context) error {
	w := d.crew.worker(d.script.frozen)
	if w == nil {
		return fmt.Errorf("the provider withholds an answer to %q, which is no worker", d.script.frozen)
	}
	if err := w.Freeze(ctx); err != nil {
		return err
	}
	d.tell.say("FREEZE %s (pid %d) with SIGSTOP while it charges %s with token %d; the provider's answer will wait for it",
		w.Name(), w.Pid(), name(d.script.held.OrderID), d.script.held.Token)
	return d.crew.release(holdFreeze)
}

// progress tells how far things are.
func (d *director) progress() {
	d.tell.say("%d of %s ended, %s, %s, %s; %s", len(d.status), plural(len(d.cfg.Orders.Valid), "order"),
		plural(d.attempts, "attempt"), plural(d.charges, "charge"), plural(d.takeovers, "takeover"), d.script.waiting())
}
