package holdfast

// White-box: see harness_internal_test.go.

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-io/holdfast/internal/replay"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A flag is an event that calls wait for, as a store's state is.
type flag struct {
	raised bool
	asked  []replay.Earlier
}

// wait is a call's function that waits until the flag is raised, or the time has come.
func (f *flag) wait(w replay.Wait) runFunc {
	return func(_ context.Context, earlier replay.Earlier) (replay.Answer, error) {
		f.asked = append(f.asked, earlier)
		until := w.Until
		if earlier.Wait != nil {
			until = earlier.Wait.Until
		}
		switch {
		case f.raised:
			return resultOf(`"raised"`), nil
		case !until.IsZero() && !time.Now().Before(until):
			return resultOf(`"too late"`), nil
		}
		return replay.Answer{Wait: &w}, nil
	}
}

func TestWaitIsRecordedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var f flag
		counter := execution.StoreID{Name: "counter", ID: "x"}
		fn := asks(f.wait(replay.Wait{Store: counter}))
		for range 3 {
			wantSuspended(t, b.deliver(fn), time.Time{})
			advance(time.Hour)
		}
		wantEqual(t, "writes", len(b.steps.writes), 1)
		f.raised = true
		wantCompleted(t, b.deliver(fn), `"\"raised\""`)
		wantCompleted(t, b.deliver(fn), `"\"raised\""`)

		again := replay.Earlier{Wait: &replay.Wait{Store: counter}, Attempt: 1}
		// Asked again once the wait is recorded, and by each delivery after that.
		if want := []replay.Earlier{{}, again, again, again, again}; !reflect.DeepEqual(f.asked, want) {
			t.Errorf("asked: got %+v, want %+v", f.asked, want)
		}
		want := []execution.StepWrite{
			{Key: "s", Place: 1, Waiter: &counter, Response: waitResponse(time.Time{}).encode()},
			{Key: "s", Place: 1, Attempt: 1, Done: true, Waiter: &counter, Response: resultResponse([]byte(`"raised"`)).encode()},
		}
		if !reflect.DeepEqual(b.steps.writes, want) {
			t.Errorf("writes: got %+v, want %+v", b.steps.writes, want)
		}
		wantList(t, "events", b.stepEvents(), []string{"s waiting", "s ran", "s replayed"})
	})
}

func TestWaitKeepsItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var f flag
		deadline := time.Now().Add(time.Hour)
		fn := func(ctx Context) (string, error) {
			// Each delivery asks for a later time than the one before it.
			return asks(f.wait(replay.Wait{Until: time.Now().Add(time.Hour)}))(ctx)
		}
		wantSuspended(t, b.deliver(fn), deadline)
		advance(59 * time.Minute)
		wantSuspended(t, b.deliver(fn), deadline)
		wantEqual(t, "writes", len(b.steps.writes), 1)
		advance(time.Minute)
		wantCompleted(t, b.deliver(fn), `"\"too late\""`)
		f.raised = true
		wantCompleted(t, b.deliver(fn), `"\"too late\""`)
	})
}

func TestWaitIsRoundedUpToMilliseconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		deadline := time.Now().Add(time.Hour)
		answer := replay.Answer{Wait: &replay.Wait{Until: deadline.Add(1)}}
		wantSuspended(t, b.deliver(asks(gives(answer, nil))), deadline.Add(time.Millisecond))
	})
}

// An error deletes the registration of the wait before it, too.
func TestWaitEndsByAnError(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	counter := execution.StoreID{Name: "counter", ID: "x"}
	wantSuspended(t, b.deliver(asks(gives(replay.Answer{Wait: &replay.Wait{Store: counter}}, nil))), time.Time{})
	failing := asks(gives(replay.Answer{}, replay.Refuse(errors.New("no such store"))))
	for range 2 {
		wantFailed(t, b.deliver(failing), `step "s" failed: no such store`)
	}
	last := b.steps.writes[1]
	if last.Attempt != 1 || !last.Done || last.Waiter == nil || *last.Waiter != counter {
		t.Errorf("write: got %+v", last)
	}
}

// Whatever is recorded already of the attempt counts, a wait as well as an answer.
func TestCallGivesTheExistingRecord(t *testing.T) {
	t.Parallel()
	// The first delivery reads nothing, so the record shows at the write only.
	cases := []struct {
		name     string
		recorded execution.Step
		answers  []replay.Answer
		check    func(*testing.T, verdict)
	}{
		{"a result for a result", resultRecord("s", `"theirs"`), []replay.Answer{resultOf(`"mine"`)}, func(t *testing.T, v verdict) { wantCompleted(t, v, `"\"theirs\""`) }},
		{"a result for a wait", resultRecord("s", `"theirs"`), []replay.Answer{{Wait: &replay.Wait{}}}, func(t *testing.T, v verdict) { wantCompleted(t, v, `"\"theirs\""`) }},
		{"a wait for a wait", waitRecord("s"), []replay.Answer{{Wait: &replay.Wait{Until: time.Now().Add(time.Hour)}}}, func(t *testing.T, v verdict) { wantSuspended(t, v, time.Time{}) }},
		{"a wait for a result", waitRecord("s"), []replay.Answer{resultOf(`1`), resultOf(`2`)}, func(t *testing.T, v verdict) { wantCompleted(t, v, `"2"`) }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.steps.recs[memKey{"s", 0}] = c.recorded
			asked := 0
			c.check(t, b.deliver(asks(func(_ context.Context, earlier replay.Earlier) (replay.Answer, error) {
				wantEqual(t, "attempt", earlier.Attempt, int64(asked))
				asked++
				return c.answers[asked-1], nil
			})))
			wantEqual(t, "runs", asked, len(c.answers))
		})
	}
}

func waitRecord(key string) execution.Step {
	return execution.Step{Key: key, Response: waitResponse(time.Time{}).encode()}
}

func TestDrainAndAWait(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	drain := make(chan struct{})
	var f flag
	begins := func(ctx context.Context, earlier replay.Earlier) (replay.Answer, error) {
		close(drain)
		return f.wait(replay.Wait{})(ctx, earlier)
	}
	// One that has begun to wait hands over as well as a handover does.
	wantSuspended(t, b.deliverWith(t.Context(), drain, asks(begins)), time.Time{})
	// Whether a recorded one is over is for another worker to see.
	f.raised = true
	wantHandover(t, b.deliverWith(t.Context(), closed(), asks(f.wait(replay.Wait{}))))
	wantCompleted(t, b.deliver(asks(f.wait(replay.Wait{}))), `"\"raised\""`)
}

// Nothing is registered at a store before the wait is recorded, nor when somebody has
// answered meanwhile; a worker that is about to stop leaves it to another one.
func TestWaitAtAStoreIsAskedAgain(t *testing.T) {
	t.Parallel()
	counter := execution.StoreID{Name: "counter", ID: "x"}
	cases := []struct {
		name     string
		recorded execution.Step // by somebody else
		drained  bool
		asked    int
		check    func(*testing.T, verdict)
	}{
		{"recorded", execution.Step{}, false, 2, func(t *testing.T, v verdict) { wantSuspended(t, v, time.Time{}) }},
		{"recorded, with a drain", execution.Step{}, true, 1, wantHandover},
		{"answered by somebody", resultRecord("s", `"theirs"`), false, 1, func(t *testing.T, v verdict) { wantCompleted(t, v, `"\"theirs\""`) }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			if c.recorded.Key != "" {
				b.steps.recs[memKey{"s", 0}] = c.recorded
			}
			drain, asked := make(chan struct{}), 0
			c.check(t, b.deliverWith(t.Context(), drain, asks(func(_ context.Context, earlier replay.Earlier) (replay.Answer, error) {
				_, recorded := b.steps.get("s", 0)
				wantEqual(t, "recorded", recorded, asked > 0 || c.recorded.Key != "")
				wantEqual(t, "told of the wait", earlier.Wait != nil, asked > 0)
				if asked++; c.drained {
					close(drain)
				}
				return replay.Answer{Wait: &replay.Wait{Store: counter}}, nil
			})))
			wantEqual(t, "asked", asked, c.asked)
			wantEqual(t, "writes", len(b.steps.writes), 1)
		})
	}
}

// Parallel waits are in flight together; the earliest time that one has is the wake's.
func TestParallelWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		begun := time.Now()
		waits := []replay.Wait{{}, {Until: begun.Add(time.Hour)}, {}, {Until: begun.Add(time.Minute)}}
		flags := make([]flag, len(waits))
		fn := func(ctx Context) (string, error) {
			var g errgroup.Group
			all := make(chan struct{})
			for i, w := range waits {
				g.Go(func() error {
					_, err := ask(ctx, replay.Call{Name: string(rune('a' + i)), Run: func(ctx context.Context, e replay.Earlier) (replay.Answer, error) {
						<-all
						return flags[i].wait(w)(ctx, e)
					}})
					return err
				})
			}
			synctest.Wait()
			close(all)
			return "done", g.Wait()
		}
		wantSuspended(t, b.deliver(fn), begun.Add(time.Minute))
		wantEqual(t, "records", len(b.steps.recs), 4)
		flags[0].raised = true
		wantSuspended(t, b.deliver(fn), begun.Add(time.Minute)) // a wake that comes early
		wantEqual(t, "records", len(b.steps.recs), 5)
		advance(time.Minute)
		wantSuspended(t, b.deliver(fn), begun.Add(time.Hour))
		flags[2].raised = true
		advance(59 * time.Minute)
		wantCompleted(t, b.deliver(fn), `"done"`)
		wantEqual(t, "records", len(b.steps.recs), 8)
	})
}

// A branch waits for the call's flag and then makes a step.
func branch(ctx Context, name string, run runFunc) error {
	if _, err := ask(ctx, replay.Call{Name: name, Run: run}); err != nil {
		return err
	}
	_, err := Step(ctx, name+", then", value("x"))
	return err
}

// A wake that comes for one of two parallel waits is not lost if the other one ends
// the delivery before that one begins.
func TestRecordedWaitIsAskedAfterTheEndOfTheDelivery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var first, second flag
		parallel := true
		fn := func(ctx Context) (string, error) {
			if !parallel {
				one := branch(ctx, "one", first.wait(replay.Wait{}))
				return "done", errors.Join(one, branch(ctx, "two", second.wait(replay.Wait{})))
			}
			var g errgroup.Group
			both := make(chan struct{})
			for name, f := range map[string]*flag{"one": &first, "two": &second} {
				g.Go(func() error {
					return branch(ctx, name, func(ctx context.Context, e replay.Earlier) (replay.Answer, error) {
						<-both
						return f.wait(replay.Wait{})(ctx, e)
					})
				})
			}
			synctest.Wait()
			close(both)
			return "done", g.Wait()
		}
		wantSuspended(t, b.deliver(fn), time.Time{})
		parallel = false // stands for goroutines that come one after the other
		second.raised = true
		// The second one is asked and comes to its answer; its step may run at once, if
		// it is not too late again.
		wantSuspended(t, b.deliver(fn), time.Now())
		_, answered := b.steps.get("two", 1)
		wantEqual(t, "answered", answered, true)
		wantSuspended(t, b.deliver(fn), time.Now().Add(comeback)) // nothing new: no spinning
		parallel = true
		wantSuspended(t, b.deliver(fn), time.Time{})
		_, stepped := b.steps.get("two, then", 0)
		wantEqual(t, "the step after it", stepped, true)
		first.raised = true
		wantCompleted(t, b.deliver(fn), `"done"`)
	})
}

// What a call that was in flight leads to is not left until the other one's wake.
func TestAnswerAfterTheEndOfTheDeliveryWakesAtOnce(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		call func(ctx Context, asleep <-chan struct{}) error
		then bool // something comes after it
		wake time.Duration
	}{
		{"a step and more", func(ctx Context, asleep <-chan struct{}) error {
			_, err := Step(ctx, "busy", func(context.Context) (int, error) { <-asleep; return 1, nil })
			return err
		}, true, 0},
		{"a step that fails, and more", func(ctx Context, asleep <-chan struct{}) error {
			_, err := Step(ctx, "busy", func(context.Context) (int, error) { <-asleep; return 0, errors.New("no") })
			if errors.Is(err, ErrSuspended) {
				return err
			}
			return nil
		}, true, 0},
		{"a step and no more", func(ctx Context, asleep <-chan struct{}) error {
			_, err := Step(ctx, "busy", func(context.Context) (int, error) { <-asleep; return 1, nil })
			return err
		}, false, time.Hour},
		{"a call that waits, swallowed, and more", func(ctx Context, asleep <-chan struct{}) error {
			_, _ = ask(ctx, replay.Call{Name: "busy", Run: func(context.Context, replay.Earlier) (replay.Answer, error) {
				<-asleep
				return replay.Answer{Wait: &replay.Wait{}}, nil
			}})
			return nil
		}, true, time.Hour},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				begun := time.Now()
				wantSuspended(t, b.deliver(func(ctx Context) (string, error) {
					var g errgroup.Group
					asleep := make(chan struct{})
					g.Go(func() error {
						err := c.call(ctx, asleep)
						if err == nil && c.then {
							_, err = Step(ctx, "then", refuse(t))
						}
						return err
					})
					synctest.Wait()
					err := Sleep(ctx, "wait", time.Hour)
					close(asleep)
					return "done", errors.Join(err, g.Wait())
				}), begun.Add(c.wake))
			})
		})
	}
}

// A recorded wait whose name comes twice after the end of the delivery is asked once,
// and no misuse: the second call would not be made but for the end.
func TestWaitThatIsTriedAgainInTheSameDelivery(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var f flag
	fn := func(ctx Context) (string, error) {
		var err error
		for range 3 {
			var out string
			if out, err = asks(f.wait(replay.Wait{}))(ctx); err == nil {
				return out, nil
			}
		}
		return "", err
	}
	for i := range 3 {
		wantSuspended(t, b.deliver(fn), time.Time{})
		wantEqual(t, "asked", len(f.asked), i+1)
	}
	f.raised = true
	wantCompleted(t, b.deliver(fn), `"\"raised\""`)
}

// After the end of a delivery that was not just a wait nothing goes on.
func TestRecordedCallsEndAfterAnotherEnd(t *testing.T) {
	t.Parallel()
	ends := []struct {
		name  string
		first func(Context, func()) error
		check func(*testing.T, verdict)
	}{
		{"a handover", func(ctx Context, drain func()) error {
			drain()
			_, err := Step(ctx, "t", refuse(t))
			return err
		}, wantHandover},
		{"a panic", func(ctx Context, _ func()) error {
			_, err := Step(ctx, "t", func(context.Context) (int, error) { panic("boom") })
			return err
		}, wantRetry},
		{"misuse", func(ctx Context, _ func()) error { return Sleep(ctx, "", 0) }, func(t *testing.T, v verdict) {
			wantFailed(t, v, `step name "" is empty; want 1 to 512 bytes of UTF-8`)
		}},
	}
	for _, c := range ends {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.token++
			b.steps.recs[memKey{"s", 0}] = waitRecord("s")
			b.steps.recs[memKey{"x", 0}] = resultRecord("x", `"recorded"`)
			drain := make(chan struct{})
			c.check(t, b.deliverWith(t.Context(), drain, func(ctx Context) (string, error) {
				err := c.first(ctx, func() { close(drain) })
				_, late := ask(ctx, replay.Call{Name: "s", Run: refuseCall(t)})
				_, later := Step(ctx, "x", refuse(t))
				wantEqual(t, "of a wait", late, ErrSuspended)
				wantEqual(t, "of a step", later, ErrSuspended)
				return "", errors.Join(err, late, later)
			}))
		})
	}
}

// The time of a recorded wait counts whenever it comes.
func TestRecordedWaitKeepsItsTimeAfterTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.token++
		deadline := time.Now().Add(time.Hour)
		b.steps.recs[memKey{"s", 0}] = execution.Step{Key: "s", Response: waitResponse(deadline).encode()}
		var f flag
		wantSuspended(t, b.deliver(func(ctx Context) (string, error) {
			err := Sleep(ctx, "long", 2*time.Hour)
			_, late := asks(f.wait(replay.Wait{}))(ctx)
			return "", errors.Join(err, late)
		}), deadline)
	})
}

// Misuse that comes after the end of the delivery is left to a later one.
func TestMisuseAfterTheEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.token++
	b.steps.recs[memKey{"s", 0}] = waitRecord("s")
	end := time.Now().Add(time.Hour)
	wantSuspended(t, b.deliver(func(ctx Context) (string, error) {
		_, err := ask(ctx, replay.Call{Name: "other", Run: gives(replay.Answer{Wait: &replay.Wait{Until: end}}, nil)})
		_, late := ask(ctx, replay.Call{Name: "s", Misuse: errors.New("any"), Run: refuseCall(t)})
		return "", errors.Join(err, late)
	}), wholeMillis(end))
}

// A wait is behind recorded steps of its branch: they are replayed.
func TestRecordedStepsAreReplayedAfterTheEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.token++
	f := flag{raised: true}
	b.steps.recs[memKey{"x", 0}] = resultRecord("x", `"recorded"`)
	b.steps.recs[memKey{"s", 0}] = waitRecord("s")
	wantSuspended(t, b.deliver(func(ctx Context) (string, error) {
		_, err := ask(ctx, replay.Call{Name: "other", Run: gives(replay.Answer{Wait: &replay.Wait{}}, nil)})
		x, before := Step(ctx, "x", refuse(t))
		wantEqual(t, "recorded step", x, "recorded")
		s, late := asks(f.wait(replay.Wait{}))(ctx)
		wantEqual(t, "call", s, `"raised"`)
		return "", errors.Join(err, before, late)
	}), time.Time{})
}

// An execution that nothing would come back for, since it only waits for events, is
// delivered again if something has not begun.
func TestWhatHasNotBegunIsComeBackFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var first, second flag
		fn := func(ctx Context) (string, error) {
			one := branch(ctx, "one", first.wait(replay.Wait{}))
			return "done", errors.Join(one, branch(ctx, "two", second.wait(replay.Wait{})))
		}
		wantSuspended(t, b.deliver(fn), time.Now().Add(comeback))
		wantEqual(t, "asked", len(second.asked), 0)
		first.raised, second.raised = true, true
		wantCompleted(t, b.deliver(fn), `"done"`)
	})
}
