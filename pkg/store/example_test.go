package store_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/pkg/fencing"
	"github.com/holdfast-io/holdfast/pkg/store"
)

// An Approval is what executions and people share.
type Approval struct {
	Text     string `json:"text"`
	Decision string `json:"decision"` // empty: none yet
	By       string `json:"by"`
	Views    int    `json:"views"`
}

var Approvals = store.Define[Approval]("approval")

// Release asks for an approval, and waits for a week at most. Views are not what it
// waits for.
var Release = holdfast.Define("release", func(ctx holdfast.Context, version string) (string, error) {
	approval := Approvals.Own()
	if _, err := store.GetOrCreate(ctx, "ask", approval, Approval{Text: "release " + version + "?"}); err != nil {
		return "", err
	}
	decided := func(a Approval) (Approval, bool) { return a, a.Decision != "" }
	a, matched, err := store.WhenUntil(ctx, "decision", approval, time.Now().AddDate(0, 0, 7), decided, store.Reads("decision", "by"))
	switch {
	case err != nil:
		return "", err
	case !matched:
		return version + " expired", nil
	}
	return version + " " + a.Decision + " by " + a.By, nil
})

// A workflow waits for what other code decides. While it waits, which may be for days,
// it holds nothing.
func Example() {
	ctx := context.Background()
	client, stop := serve(Release) // holdfast.Open, holdfast.NewWorker and its Run
	defer stop()

	release := must(Release.Start(ctx, client, "v2", holdfast.WithID("release-v2")))

	// Elsewhere, in a web server for instance:
	approval := Approvals.At("release-v2").On(client.Stores())
	must(approval.GetOrCreate(ctx, Approval{})) // whoever comes first
	must(approval.Update(ctx, func(a *Approval) error {
		if a.Decision != "" {
			return errors.New("it is decided already")
		}
		a.Decision, a.By = "approved", "ann"
		return nil
	}))

	fmt.Println(must(release.Result(ctx)))
	// Output: v2 approved by ann
}

// Approve decides, unless somebody has.
func Approve(ctx context.Context, client *holdfast.Client, id, by string) error {
	approval := Approvals.At(id).On(client.Stores())
	_, err := approval.Update(ctx, func(a *Approval) error {
		if a.Decision != "" {
			return fmt.Errorf("%s has decided already", a.By)
		}
		a.Decision, a.By = "approved", by
		return nil
	})
	if !errors.Is(err, fencing.ErrUnknown) {
		return err // nil: it is approved; else nothing has changed
	}
	now, err := approval.Get(ctx) // it may be approved: see
	if err == nil && now.State.By != by {
		err = errors.New("it is not approved; try again")
	}
	return err
}

// Code outside of workflows has no receipts: see what Approve does about an unknown
// outcome.
func ExampleHandle() {
	ctx := context.Background()
	client, stop := serve() // holdfast.Open: no worker is needed
	defer stop()

	fmt.Println(Approve(ctx, client, "release-v3", "ann"))
	must(Approvals.At("release-v3").On(client.Stores()).GetOrCreate(ctx, Approval{}))
	fmt.Println(Approve(ctx, client, "release-v3", "ann"))
	fmt.Println(Approve(ctx, client, "release-v3", "bob"))
	// Output:
	// store "approval" with id "release-v3" does not exist
	// <nil>
	// ann has decided already
}

// Whoever waits for a message for too long goes on without one, and takes none later.
func ExampleTakeUntil() {
	ctx := context.Background()
	jobs := store.Define[[]string]("jobs")
	first := func(all []string) (string, bool) {
		if len(all) == 0 {
			return "", false
		}
		return all[0], true
	}
	next := holdfast.Define("next", func(ctx holdfast.Context, patience time.Duration) (string, error) {
		job, found, err := store.TakeUntil(ctx, "job", jobs.At("all"), time.Now().Add(patience), first, func(all *[]string, _ string) error {
			*all = (*all)[1:]
			return nil
		})
		if err != nil || found {
			return job, err
		}
		return "nothing to do", nil
	})
	client, stop := serve(next)
	defer stop()

	must(jobs.At("all").On(client.Stores()).GetOrCreate(ctx, []string{"sweep"}))
	for range 2 {
		fmt.Println(must(must(next.Start(ctx, client, time.Millisecond)).Result(ctx)))
	}
	// Output:
	// sweep
	// nothing to do
}

// However often a worker dies, each execution counts once.
func ExampleUpdate() {
	ctx := context.Background()
	visits := store.Define[int]("visits")
	visit := holdfast.Define("visit", func(ctx holdfast.Context, page string) (int64, error) {
		r, err := store.Update(ctx, "count", visits.At(page), func(n *int) error {
			*n++
			return nil
		})
		return r.Version, err
	})
	client, stop := serve(visit)
	defer stop()

	home := visits.At("home").On(client.Stores())
	must(home.GetOrCreate(ctx, 0))
	for range 3 {
		must(must(visit.Start(ctx, client, "home")).Result(ctx))
	}
	fmt.Println(must(home.Get(ctx)).State, "visits")
	// Output: 3 visits
}

// A mailbox: each message goes to one execution, which waits for it.
func ExampleTake() {
	type message struct {
		Text  string
		Taken bool
	}
	ctx := context.Background()
	inbox := store.Define[[]message]("inbox")
	next := func(all []message) (*message, bool) {
		for i := range all {
			if !all[i].Taken {
				return &all[i], true
			}
		}
		return nil, false
	}
	read := holdfast.Define("read", func(ctx holdfast.Context, _ string) (string, error) {
		m, err := store.Take(ctx, "message", inbox.At("ann"), next, func(_ *[]message, m *message) error {
			m.Taken = true // m is in the inbox
			return nil
		})
		if err != nil {
			return "", err
		}
		return m.Text, nil
	})
	client, stop := serve(read)
	defer stop()

	mine := inbox.At("ann").On(client.Stores())
	must(mine.GetOrCreate(ctx, nil))
	first := must(read.Start(ctx, client, ""))
	send := func(text string) {
		must(mine.Update(ctx, func(all *[]message) error {
			*all = append(*all, message{Text: text})
			return nil
		}))
	}
	send("hello")
	fmt.Println(must(first.Result(ctx)))
	send("and goodbye")
	fmt.Println(must(must(read.Start(ctx, client, "")).Result(ctx)))
	// Output:
	// hello
	// and goodbye
}

// A change that is based on an earlier look is made only if nothing has changed since.
func ExampleHandle_UpdateFrom() {
	ctx := context.Background()
	prices := store.Define[map[string]int]("prices")
	client, stop := serve()
	defer stop()
	tea := prices.At("tea").On(client.Stores())
	seen := must(tea.GetOrCreate(ctx, map[string]int{"EUR": 5}))

	raise := func(p *map[string]int) error {
		(*p)["EUR"]++
		return nil
	}
	fmt.Println(must(tea.UpdateFrom(ctx, seen, raise)).Updated)
	late := must(tea.UpdateFrom(ctx, seen, raise))
	fmt.Println(late.Updated, late.Reason, late.Expected.Version, late.Actual.Version)
	// Output:
	// true
	// false conflict 0 1
}

// A state that is refused changes nothing.
func ExampleValidate() {
	ctx := context.Background()
	accounts := store.Define("account", store.Validate(func(balance int) error {
		if balance < 0 {
			return fmt.Errorf("balance %d is below zero", balance)
		}
		return nil
	}))
	client, stop := serve()
	defer stop()
	mine := accounts.At("ann").On(client.Stores())
	must(mine.GetOrCreate(ctx, 10))

	_, err := mine.Update(ctx, func(balance *int) error {
		*balance -= 11
		return nil
	})
	fmt.Println(err)
	fmt.Println(must(mine.Get(ctx)).State)
	// Output:
	// state of store "account" with id "ann" is invalid: balance -1 is below zero
	// 10
}
