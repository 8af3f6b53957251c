package shop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A SubmitConfig says how orders are submitted.
type SubmitConfig struct {
	Out  io.Writer // required
	Wait bool      // for what every order comes to

	Where string // where etcd is, for messages
	// Quiet is told what is waited for whenever nothing has happened for 5 s. Default:
	// nobody is.
	Quiet func(message string)
}

const (
	quietAfter = 5 * time.Second
	probeBound = 3 * time.Second
	// waits bounds how many outcomes are waited for at once.
	waits = 256
)

// Submit starts an execution for each order and prints a line for each: its id and
// whether it was started, was there already, or could not be started. With Wait it
// then prints what each of them came to, as they come. Ids are quoted, as they may
// hold anything.
//
// One order's error doesn't keep it from the others. In the end there is an error if
// any was not started or not read, or, with Wait, failed for another reason than a
// declined card.
func Submit(ctx context.Context, client *holdfast.Client, orders []Order, cfg SubmitConfig) error {
	if cfg.Quiet == nil {
		cfg.Quiet = func(string) {}
	}
	s := &submission{cfg: cfg, client: client}
	ctx, stop := context.WithCancel(ctx)
	var attendant sync.WaitGroup
	attendant.Go(func() { s.attend(ctx) })
	defer attendant.Wait()
	defer stop()
	started, err := s.start(ctx, orders)
	if err == nil && cfg.Wait {
		err = s.wait(ctx, started)
	}
	if err != nil {
		return err
	}
	return errors.Join(s.problems...)
}

// A submission is under way.
type submission struct {
	cfg    SubmitConfig
	client *holdfast.Client

	mu       sync.Mutex
	lines    int // that were printed
	waiting  int // orders whose outcome is still to come
	problems []error
}

// start starts the orders and returns those that are there now. The error means
// that to go on is of no use.
func (s *submission) start(ctx context.Context, orders []Order) (started []holdfast.Handle[Receipt], err error) {
	w := NewWorkflow(nil)
	for _, o := range orders {
		h, err := w.Start(ctx, s.client, o, holdfast.WithID(o.ID))
		state := "started"
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, err
		case errors.Is(err, execution.ErrConflict):
			state = "not started: another order has this id"
			s.problem(o.ID, "was not started: %w", err)
		case err != nil:
			state = "not started: " + err.Error()
			s.problem(o.ID, "was not started: %w", err)
		case h.Existing():
			state = "was there already"
		}
		if err == nil {
			started = append(started, h)
		}
		if err := s.print("%s\t%s\n", strconv.Quote(o.ID), state); err != nil {
			return nil, err
		}
	}
	return started, nil
}

// wait prints the outcomes.
func (s *submission) wait(ctx context.Context, started []holdfast.Handle[Receipt]) error {
	s.mu.Lock()
	s.waiting = len(started)
	s.mu.Unlock()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(waits)
	for _, h := range started {
		g.Go(func() error {
			defer func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.waiting--
			}()
			return s.outcome(ctx, h)
		})
	}
	return g.Wait()
}

// outcome waits for one outcome and prints it.
func (s *submission) outcome(ctx context.Context, h holdfast.Handle[Receipt]) error {
	r, err := h.Result(ctx)
	id := strconv.Quote(h.ID())
	var failed *holdfast.FailedError
	switch {
	case errors.As(err, &failed):
		if failed.Code != CodeDeclined {
			s.problem(h.ID(), "failed: %s", failed.Message)
		}
		return s.print("%s\tfailed\t%s\n", id, failed.Message)
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil:
		s.problem(h.ID(), "can't be read: %w", err)
		return s.print("%s\tunknown\t%v\n", id, err)
	}
	return s.print("%s\tcompleted\t%d %s, charge %s, invoice %s\n", id, r.AmountCents, r.Currency, r.ChargeID, r.Invoice)
}

func (s *submission) print(format string, args ...any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines++
	_, err := fmt.Fprintf(s.cfg.Out, format, args...)
	return err
}

func (s *submission) problem(id, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems = append(s.problems, fmt.Errorf("order %s "+format, append([]any{strconv.Quote(id)}, args...)...))
}

func (s *submission) progress() (lines, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines, s.waiting
}

// attend says what is waited for whenever nothing is printed for a while.
func (s *submission) attend(ctx context.Context) {
	tick := time.NewTicker(quietAfter)
	defer tick.Stop()
	for before := 0; ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		lines, waiting := s.progress()
		if lines == before {
			s.attendTo(ctx, waiting)
		}
		before = lines
	}
}

func (s *submission) attendTo(ctx context.Context, waiting int) {
	probe, cancel := context.WithTimeout(ctx, probeBound)
	defer cancel()
	_, err := s.client.List(probe, execution.ListRequest{Limit: 1})
	switch {
	case ctx.Err() != nil:
	case err != nil:
		s.cfg.Quiet("waiting for etcd at " + s.cfg.Where + ": " + err.Error())
	case waiting > 0:
		s.cfg.Quiet(fmt.Sprintf("waiting for outcomes; still to come: %d", waiting))
	}
}

// List prints a line for each execution that the request selects: its id, its
// status and its unacknowledged deliveries.
func List(ctx context.Context, client *holdfast.Client, req execution.ListRequest, out io.Writer) error {
	for {
		page, err := client.List(ctx, req)
		if err != nil {
			return err
		}
		for _, r := range page.Records {
			if _, err := fmt.Fprintf(out, "%s\t%s\t%d\n", strconv.Quote(string(r.ID)), r.Status, r.UnacknowledgedDeliveries); err != nil {
				return err
			}
		}
		if page.Next == "" {
			return nil
		}
		req.After = page.Next
	}
}
