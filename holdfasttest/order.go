package holdfasttest

import (
	"slices"
	"sync"
)

// A moment is where in a step something can be ordered.
type moment string

const (
	beforeStep   moment = "BeforeStep"
	beforeRecord moment = "BeforeRecord"
	afterStep    moment = "AfterStep"
)

// An order is what is to be done at a moment, once.
type order struct {
	at   moment
	step string
	do   func(*Worker)
}

type orders struct {
	mu   sync.Mutex
	open []order
}

func (o *orders) add(at moment, step string, do func(*Worker)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open = append(o.open, order{at, step, do})
}

// reach carries out the first order for the moment, if there is one.
func (o *orders) reach(at moment, step string, w *Worker) {
	o.mu.Lock()
	i := slices.IndexFunc(o.open, func(o order) bool { return o.at == at && o.step == step })
	var do func(*Worker)
	if i >= 0 {
		do = o.open[i].do
		o.open = slices.Delete(o.open, i, i+1)
	}
	o.mu.Unlock()
	if do != nil {
		do(w)
	}
}

// left returns what was not carried out.
func (o *orders) left() []order {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.open)
}

// BeforeStep has do called when a worker is about to call the function of the step.
// It is called once, for the first worker that comes there: a second one is there
// for the next call. do may be a method of the worker:
//
//	env.BeforeStep("charge", (*holdfasttest.Worker).Crash)
//
// Orders that were not carried out when the test ends fail it: the moment that was
// to be tested has never come.
func (e *Env) BeforeStep(step string, do func(*Worker)) { e.orders.add(beforeStep, step, do) }

// BeforeRecord is BeforeStep for the moment at which the function of the step has
// returned and its result is not recorded yet: whatever it has done outside is done,
// and will be done again by who takes over after a crash here.
func (e *Env) BeforeRecord(step string, do func(*Worker)) { e.orders.add(beforeRecord, step, do) }

// AfterStep is BeforeStep for the moment at which the step's result, its error or
// its next attempt is recorded, and the worker does not know it yet. It also comes
// with the name of a Sleep.
func (e *Env) AfterStep(step string, do func(*Worker)) { e.orders.add(afterStep, step, do) }
