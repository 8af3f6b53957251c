package storeapi

import (
	"context"

	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// commitKind is the kind of the receipts that commit leaves.
const commitKind = "commit"

// An operation takes what it needs out of a request's members, does it, and returns
// its answer. It does nothing unless the members are exactly those that it takes.
type operation func(ctx context.Context, c *stores.Client, m *members) ([]byte, error)

func operations() map[string]operation {
	return map[string]operation{
		"createStore":     createStore,
		"getStore":        getStore,
		"listStores":      listStores,
		"deleteStore":     deleteStore,
		"deleteStoreFrom": deleteStoreFrom,
		"getReceipt":      getReceipt,
		"commit":          commit,
		"registerWaiter":  registerWaiter,
		"pendingWakes":    pendingWakes,
		"ackWake":         ackWake,
		"dropNamespace":   dropNamespace,
	}
}

func createStore(ctx context.Context, c *stores.Client, m *members) ([]byte, error) {
	key, state := m.store(), m.raw("state")
	if err := m.end(); err != nil {
		return nil, err
	}
	s, err := c.Create(ctx, key, func() ([]byte, error) { return state, nil })
	if err != nil {
		return nil, err
	}
	return snapshotAnswer(s), nil
}

func getStore(ctx context.Context, c *stores.Client, m *members) ([]byte, error) {
	key := m.store()
	if err := m.end(); err != nil {
		return nil, err
	}
	s, err := c.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	return snapshotAnswer(s), nil
}

func listStores(ctx context.Context, c *stores.Client, m *members) ([]byte, error) {
	name := m.storeName()
	if err := m.end(); err != nil {
		return nil, err
	}
	ids, err := c.List(ctx, name)
	if err != nil {
		return nil, err
	}
	quoted := make([][]byte, len(ids))
	for i, id := range ids {
		quoted[i] = quote(id)
	}
	return object().raw("ids", list(quoted)).end(), nil
}

func deleteStore(ctx context.Context, c *stores.Client, m *members) ([]byte, error) {
	key := m.store()
	if err := m.end(); err != nil {
		return nil, err
	}
	return nothing(c.Delete(ctx, key))
}

func deleteStoreFrom(ctx context.Context, c *stores.Client, m *members) ([]byte, error) {
	key, expected, step := m.store(), m.expected(), m.optionalStep()
	if err := m.end(); err != nil {
		return nil, err
	}
	d, err := c.DeleteFrom(ctx, key, step, expected)
	if err != nil {
		return nil, err
	}
	a := object().flag("deleted", d.Deleted)
	if d.Deleted {
		return a.end(), nil
	}
	a.text("reason", d.Reason).text("expectedInstanceId", d.Expected.Instance).number("expectedVersion", d.Expected.Version)
	if d.Actual != nil {
		a.text("actualInstanceId", d.Actual.Instance).number("actualVersion", d.Actual.Version)
	}
	return a.end(), nil
}

func getReceipt(ctx context.Context, c *stores.Client, m *members) ([]byte, error) {
	key, step := m.store(), m.step()
	if err := m.end(); err != nil {
		return nil, err
	}
	result, found, err := c.Receipt(ctx, key, step)
	if err != nil {
		return nil, err
	}
	a := object().flag("found", found)
	if found {
		a.raw("result", result)
	}
	return a.end(), nil
}

func commit(ctx context.Context, c *stores.Client, m *members) ([]byte, error) {
	key, expected, step := m.store(), m.expected(), m.optionalStep()
	next := &stores.Mutation{State: m.raw("nextState"), Changed: m.paths("changedPaths"), Result: m.raw("result")}
	if err := m.end(); err != nil {
		return nil, err
	}
	done, err := c.Commit(ctx, key, step, commitKind, expected, func(stores.Snapshot) (*stores.Mutation, error) { return next, nil })
	if err != nil {
		return nil, err
	}
	a := object().text("status", string(done.Status))
	switch done.Status {
	case stores.AlreadyApplied:
		a.raw("result", done.Result)
	case stores.Conflict:
		a.raw("snapshot", snapshotAnswer(done.Current))
	}
	return a.end(), nil
}

func registerWaiter(ctx context.Context, c *stores.Client, m *members) ([]byte, error) {
	w := stores.Waiter{
		Store: m.store(), Workflow: m.text("workflowId"),
		Step:     execution.StepID{Execution: execution.ID(m.text("executionId")), Step: m.text("stepKey")},
		Event:    m.raw("event"),
		Instance: m.text("instanceId"), Since: m.count("sinceVersion"), Reads: m.paths("readPaths"),
	}
	if err := m.end(); err != nil {
		return nil, err
	}
	if err := execution.ValidateName("workflow id", w.Workflow); err != nil {
		return nil, err
	}
	if w.Instance == "" {
		return nil, invalid("missing instanceId: it is empty; pass the one of the snapshot")
	}
	stale, err := c.Register(ctx, w)
	if err != nil {
		return nil, err
	}
	return object().flag("stale", stale).end(), nil
}

func pendingWakes(ctx context.Context, c *stores.Client, m *members) ([]byte, error) {
	if err := m.end(); err != nil {
		return nil, err
	}
	pending, err := c.Pending(ctx)
	if err != nil {
		return nil, err
	}
	wakes := make([][]byte, len(pending))
	for i, w := range pending {
		wakes[i] = object().text("wakeId", w.ID).raw("event", w.Event).end()
	}
	return object().raw("wakes", list(wakes)).end(), nil
}

func ackWake(ctx context.Context, c *stores.Client, m *members) ([]byte, error) {
	id := m.text("wakeId")
	if err := m.end(); err != nil {
		return nil, err
	}
	if id == "" {
		return nil, invalid("wakeId is empty; pass one of pendingWakes")
	}
	return nothing(c.AckWake(ctx, id))
}

func dropNamespace(ctx context.Context, c *stores.Client, m *members) ([]byte, error) {
	if err := m.end(); err != nil {
		return nil, err
	}
	return nothing(c.Drop(ctx))
}

// nothing is the answer of an operation that has none but that it is done.
func nothing(err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return object().end(), nil
}
