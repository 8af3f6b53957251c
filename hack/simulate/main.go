// Command simulate runs simulations of the whole engine on an etcd in memory, each
// in virtual time under a schedule that follows from its seed, and verifies every
// invariant after every revision.
//
//	go run ./hack/simulate --seeds 20000     seeds 0 to 19999
//	go run ./hack/simulate --seed 17         one of them, with its trace
//
// It exits with 1 if a seed violates anything, or if a long run (1,000 seeds or
// more) lacks one of the rare events that it is there for.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/simulate"
)

// longRun is how many seeds must show every rare event.
const longRun = 1000

// options are what the command line says.
type options struct {
	from, seeds uint64
	one         int64
	workers     int
}

func main() {
	o, err := parse(os.Args[1:], os.Stderr)
	if err != nil {
		os.Exit(2)
	}
	out := os.Stdout
	// A bubble of virtual time needs a testing.T, so the whole run is a test, whose
	// own words and flags are nobody's concern.
	if os.Stdout, err = os.Open(os.DevNull); err != nil {
		fmt.Fprintln(os.Stderr, "simulate:", err)
		os.Exit(1)
	}
	os.Args = os.Args[:1]
	testing.Main(
		func(string, string) (bool, error) { return true, nil },
		[]testing.InternalTest{{Name: "simulate", F: func(t *testing.T) {
			if o.run(t, out) != 0 {
				t.Fail()
			}
		}}}, nil, nil,
	)
}

func parse(args []string, errs io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("simulate", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.Uint64Var(&o.seeds, "seeds", 300, "how many seeds to run")
	flags.Uint64Var(&o.from, "from", 0, "the first of them")
	flags.Int64Var(&o.one, "seed", -1, "run this seed alone and print its trace")
	flags.IntVar(&o.workers, "workers", runtime.GOMAXPROCS(0), "how many run at once")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 || o.seeds == 0 || o.workers < 1 {
		err = fmt.Errorf("unexpected arguments %q, or no seeds or workers", flags.Args())
		fmt.Fprintln(errs, "simulate:", err)
	}
	return o, err
}

func (o options) run(t *testing.T, out io.Writer) int {
	if o.one >= 0 {
		runtime.GOMAXPROCS(1) // no two goroutines of one virtual instant race for a lock
		return trace(t, uint64(o.one), out)
	}
	return o.many(t, out)
}

// trace runs one seed and prints what happened.
func trace(t *testing.T, seed uint64, out io.Writer) int {
	r := simulate.Run(t, simulate.Options{Seed: seed, Trace: out})
	fmt.Fprintf(out, "seed %d: %d calls to etcd in %v of virtual time, history %s\n", r.Seed, r.Operations, r.Virtual, r.Hash)
	fmt.Fprint(out, r.Rare.Table())
	return report(r, out)
}

func report(r simulate.Result, out io.Writer) int {
	for _, v := range r.Violations {
		fmt.Fprintf(out, "VIOLATION in seed %d: %s\n", r.Seed, v)
	}
	if len(r.Violations) > 0 {
		fmt.Fprintf(out, "repeat it: go run ./hack/simulate --seed %d\n", r.Seed)
		return 1
	}
	return 0
}

// many runs a range of seeds.
func (o options) many(t *testing.T, out io.Writer) int {
	var next atomic.Uint64
	results := make(chan simulate.Result)
	begun := time.Now()
	for range o.workers {
		go func() {
			for i := next.Add(1) - 1; i < o.seeds; i = next.Add(1) - 1 {
				results <- simulate.Run(t, simulate.Options{Seed: o.from + i})
			}
		}()
	}
	code := 0
	total := simulate.Result{Rare: simulate.Counts{}}
	for range o.seeds {
		r := <-results
		total.Operations += r.Operations
		total.Virtual += r.Virtual
		total.Rare.Add(r.Rare)
		code = max(code, report(r, out))
	}
	fmt.Fprintf(out, "%d seeds from %d on: %d calls to etcd, %v of virtual time, in %v\n",
		o.seeds, o.from, total.Operations, total.Virtual.Round(time.Second), time.Since(begun).Round(time.Second))
	fmt.Fprint(out, total.Rare.Table())
	if missing := simulate.Missing(total.Rare); len(missing) > 0 && o.seeds >= longRun {
		fmt.Fprintf(out, "NEVER HAPPENED: %q\n", missing)
		code = 1
	}
	if code == 0 {
		fmt.Fprintln(out, "no violation")
	}
	return code
}
