package holdfast

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A Workflow is a durable function from In to Out, both of which travel as JSON.
// It is the registration that [NewWorker] takes and the stub by which callers
// start executions, so the compiler checks both sides. [Define] makes one.
type Workflow[In, Out any] struct {
	name  string
	queue string
	fn    func(Context, In) (Out, error)
	// missing: an option was nil; check tells.
	missing bool
}

// A DefineOption configures a [Workflow].
type DefineOption func(*defineConfig)

type defineConfig struct{ queue string }

// OnQueue puts the workflow's executions into the named queue; default: a queue
// with the workflow's name.
func OnQueue(name string) DefineOption {
	return func(c *defineConfig) { c.queue = name }
}

// Define makes a workflow of fn. The name, 1 to 512 bytes of UTF-8 without NUL,
// is stored with each execution: it must not change while any is alive. A bad
// name is reported by [NewWorker] and Start.
//
// fn is run again from the top by every delivery and must come to the same steps
// each time: what it does outside of steps should depend on nothing but its
// input and the steps' results. It may be called in many goroutines at once. Its
// error, unless it is a suspension, makes the execution fail for good; a panic
// makes the delivery fail, and another one follows.
func Define[In, Out any](name string, fn func(Context, In) (Out, error), opts ...DefineOption) *Workflow[In, Out] {
	c := defineConfig{queue: name}
	missing := false
	for _, o := range opts {
		if o == nil {
			missing = true
			continue
		}
		o(&c)
	}
	return &Workflow[In, Out]{name: name, queue: c.queue, fn: fn, missing: missing}
}

// Name returns the workflow's name.
func (w *Workflow[In, Out]) Name() string { return w.name }

// Start admits an execution with the input and returns a handle to it; it does
// not wait for a worker. While etcd does not answer it tries until ctx ends. If the id
// is taken by an execution of the same workflow and input, the handle is that one's, and
// Existing says so; if it is another's, the error wraps [execution.ErrConflict] and
// nothing has changed.
func (w *Workflow[In, Out]) Start(ctx context.Context, c *Client, in In, opts ...StartOption) (Handle[Out], error) {
	if err := w.check(); err != nil {
		return Handle[Out]{}, fmt.Errorf("start: %w", err)
	}
	cfg, err := newStartConfig(opts)
	if err == nil && c == nil {
		err = errNoClient
	}
	var req execution.AdmitRequest
	if err == nil {
		req, err = w.request(cfg, in)
	}
	if err != nil {
		return Handle[Out]{}, fmt.Errorf("start workflow %q: %w", w.name, err)
	}
	a, err := c.executions.Admit(ctx, req)
	if err != nil {
		return Handle[Out]{}, fmt.Errorf("start workflow %q: %w", w.name, err)
	}
	return Handle[Out]{client: c, id: a.ID, existing: a.Existing}, nil
}

// request asks for an execution; an empty id stands for a random one.
func (w *Workflow[In, Out]) request(cfg startConfig, in In) (execution.AdmitRequest, error) {
	params, err := json.Marshal(in)
	if err != nil {
		return execution.AdmitRequest{}, fmt.Errorf("input can't be encoded as JSON: %w", err)
	}
	return execution.AdmitRequest{
		ID: cfg.id, Workflow: w.name, Queue: w.queue, Params: params, Due: cfg.due, Timeout: cfg.timeout,
	}, nil
}

// Handle returns a handle to the execution with the id, without asking whether
// there is one.
func (w *Workflow[In, Out]) Handle(c *Client, id string) Handle[Out] {
	return Handle[Out]{client: c, id: execution.ID(id)}
}

func (w *Workflow[In, Out]) queueName() string { return w.queue }

// check returns what is wrong with the definition.
func (w *Workflow[In, Out]) check() error {
	if w == nil {
		return errors.New("workflow is nil; make it with Define")
	}
	if err := execution.ValidateName("workflow name", w.name); err != nil {
		return err
	}
	if err := execution.ValidateName("queue name", w.queue); err != nil {
		return fmt.Errorf("workflow %q: %w", w.name, err)
	}
	if w.fn == nil {
		return fmt.Errorf("workflow %q has no function", w.name)
	}
	if w.missing {
		return fmt.Errorf("workflow %q: an option is nil", w.name)
	}
	return nil
}

// A paramsError says that the stored params do not fit the workflow's input. The
// delivery is retried: another release of the workflow may be able to read them.
type paramsError struct{ err error }

func (e *paramsError) Error() string { return e.err.Error() }

// call runs the function on decoded params and encodes its result.
func (w *Workflow[In, Out]) call(ctx Context, params json.RawMessage) (json.RawMessage, error) {
	var in In
	if len(params) == 0 {
		params = json.RawMessage("null")
	}
	if err := json.Unmarshal(params, &in); err != nil {
		return nil, &paramsError{fmt.Errorf("params of workflow %q do not fit its input %T: %w", w.name, in, err)}
	}
	out, err := w.fn(ctx, in)
	if err != nil {
		return nil, w.ended(err)
	}
	result, err := encodeResult(out, reflect.TypeFor[Out]())
	if err != nil {
		return nil, fmt.Errorf("workflow %q: %w", w.name, err)
	}
	return result, nil
}

func (w *Workflow[In, Out]) applyWorker(c *workerConfig) { c.definitions = append(c.definitions, w) }
