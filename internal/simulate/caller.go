package simulate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/pkg/dispatch"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
	"github.com/holdfast-io/holdfast/pkg/leasing"
)

// caller is a direct holder: it claims one execution at a time by itself, renews it
// when it thinks of it, and notices nothing until etcd refuses it.
func (w *world) caller(ctx context.Context, name string) {
	executions, steps, err := w.engine(ctx, name, time.Now)
	if err != nil {
		return
	}
	for round := 0; !pause(ctx, w.span(800*time.Millisecond, name, round)); round++ {
		ds, err := executions.ClaimDue(ctx, execution.ClaimRequest{Limit: 1, Duration: leaseDuration})
		if err != nil || len(ds) == 0 {
			continue
		}
		p := &play{world: w, executions: executions, steps: steps, delivery: ds[0]}
		w.complain(name, w.hold(ctx, executions, p))
	}
}

// hold works on one claim, for longer than the lease now and then.
func (w *world) hold(ctx context.Context, executions *leasing.Client, p *play) error {
	lease := p.delivery.Lease
	for i := range stepsEach {
		pause(ctx, p.span(2*leaseDuration, fmt.Sprint("hold ", i)))
		if p.draw(2, fmt.Sprint("renew ", i)) == 0 {
			renewed, err := executions.Renew(ctx, lease, leaseDuration)
			if err != nil {
				return expected(err)
			}
			lease = renewed
		}
		if err := p.write(ctx, fmt.Sprint("step-", i)); err != nil {
			return expected(err)
		}
	}
	switch p.draw(4, "end") {
	case 0:
		return expected(executions.Release(ctx, lease, "simulated"))
	case 1:
		return expected(executions.Acknowledge(ctx, lease, execution.Outcome{Kind: execution.Suspended, Wake: w.wall()}))
	case 2:
		return nil // it forgets about it
	}
	return expected(executions.Acknowledge(ctx, lease, execution.Outcome{Kind: execution.Completed}))
}

// expected passes only the errors on that a correct engine never gives.
func expected(err error) error {
	for _, e := range []error{
		nil, execution.ErrLost, execution.ErrNotFound, execution.ErrTerminal, fencing.ErrUnknown,
		context.Canceled, context.DeadlineExceeded, errDead, errDropped, dispatch.ErrUnended,
		etcd.ErrLeaseNotFound, // it had ended before it was used
	} {
		if errors.Is(err, e) {
			return nil
		}
	}
	return err
}

// operator admits, wakes, cancels and fences.
func (w *world) operator(ctx context.Context, name string) {
	executions, _, err := w.engine(ctx, name, time.Now)
	if err != nil {
		return
	}
	for i := range population {
		w.admit(ctx, executions, i)
	}
	for round := 0; !pause(ctx, 100*time.Millisecond+w.span(900*time.Millisecond, name, round)); round++ {
		id := execution.ID(fmt.Sprint("x", w.draw(population, name, round, "id")))
		switch w.draw(12, name, round, "what") {
		case 0:
			w.complain("cancel", expected(executions.Cancel(ctx, id, "simulated")))
		case 1, 2:
			w.complain("fence", expected(executions.Fence(ctx, id, "simulated")))
		default:
			at := w.wall().Add(w.span(time.Second, name, round, "at"))
			w.complain("wake", expected(executions.RequestWake(ctx, id, at)))
		}
	}
}

// admit admits one execution, trying until etcd answers.
func (w *world) admit(ctx context.Context, executions *leasing.Client, i int) {
	req := execution.AdmitRequest{ID: execution.ID(fmt.Sprint("x", i)), Workflow: workflow}
	for {
		_, err := executions.Admit(ctx, req)
		if err == nil || ctx.Err() != nil {
			w.complain("admit", expected(err))
			return
		}
		pause(ctx, 50*time.Millisecond)
	}
}
