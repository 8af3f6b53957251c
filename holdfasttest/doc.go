// Package holdfasttest runs workflows in unit tests: a client and workers on an etcd
// in memory, in a bubble of testing/synctest, where time skips whatever nobody
// works in. A test says at which moment a worker crashes or freezes, and reads how
// often each step was called.
//
//	// The worker dies between the charge and its record. Another one takes over, once
//	// the lease has expired, and charges again: under the same key.
//	func TestCheckoutSurvivesACrash(t *testing.T) {
//		holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
//			bank := &bank{}
//			checkout := newCheckout(bank)
//			env.BeforeRecord("charge", (*holdfasttest.Worker).Crash)
//			env.Worker(checkout) // claims the order, being the first one, and dies
//			env.Worker(checkout)
//
//			order, err := checkout.Start(env.Context(), env.Client(), "tea", holdfast.WithID("order-42"))
//			if err != nil {
//				t.Fatal(err)
//			}
//			got, err := order.Result(env.Context()) // after 72 hours, on the test's clock
//			if err != nil || got != "tea shipped" {
//				t.Errorf("got %q, %v", got, err)
//			}
//			if n := env.Calls("charge"); n != 2 || bank.charges() != 1 {
//				t.Errorf("%d calls, %d charges; want 2 and 1", n, bank.charges())
//			}
//		})
//	}
//
// # What it guarantees
//
//   - The engine is the one of production: workers claim, renew, write and end their
//     leases by the same transactions. Etcd is a model of which the tests of this module
//     show that it answers as a real one does.
//   - [Worker.Crash] ends a worker at an instant: nothing that it calls afterwards
//     reaches etcd, and nothing is released. [Worker.Freeze] stops one, and after
//     [Worker.Thaw] its late writes are refused if another one took over.
//     [Env.BeforeStep], [Env.BeforeRecord] and [Env.AfterStep] order either for a
//     moment, so that it does not depend on time.
//   - Of several workers the one that was started first is always a little faster, and
//     no pause is varied by chance: the workers of a test do not race. Random are the
//     ids of executions that are given none.
//   - When the test ends, the workers drain, and every revision of etcd is verified
//     against the engine's invariants. A violation fails the test: it is a bug of this
//     module.
//   - Waiting costs next to nothing, whether 72 hours or 72 days: workers without work
//     come to rest. A test that waits in vain is told at once, by [Env.Context].
//
// # What it does not guarantee
//
//   - There are no processes and no sockets. A crashed worker's memory is still there,
//     and a step's function that it was in runs on until it heeds its context: let
//     functions return when their contexts end, or the end of the test waits for them.
//   - Executions that run at the same time, in one worker, do so in any order, as do
//     parallel steps. So a workflow with data races has them here too: use -race.
//   - Time skips only while every goroutine of the bubble waits for another one, or for
//     the time. A step that waits for a socket, a process, a file or a goroutine from
//     outside of the bubble takes as long as it takes, and no lease expires meanwhile.
//     Give steps a fake of what they call. Held mutexes count as work, too.
//   - A lease that is held has to be renewed: a step that itself waits for hours takes
//     a few milliseconds for each. Holdfast's own Sleep holds none.
//
// # Clock
//
// There is one clock for the test and its workers, that of the bubble: it begins at
// midnight UTC 2000-01-01. [Env.Advance] lets time pass in the test itself.
package holdfasttest
