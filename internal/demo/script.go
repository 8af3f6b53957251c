package demo

import (
	"fmt"
	"math"

	"github.com/holdfast-io/holdfast/internal/shop"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// The two holds of the provider, by number: the worker of the first is killed,
// that of the second is frozen.
const (
	holdKill = iota + 1
	holdFreeze
)

// holds says after how many final answers the provider withholds one: at about 15
// and 35 of 100 orders. Both are reached whatever the number of orders: the order
// of the killed worker is charged again, by another one, so there is one final
// answer more than there are orders that get one.
func holds(orders []shop.Order) shop.Holds {
	n := 0
	for _, o := range orders {
		if o.Chargeable() {
			n++
		}
	}
	h := shop.Holds{Declined: n == 0}
	if h.Declined {
		n = len(orders)
	}
	first := max(1, share(n, 0.15))
	h.After = []int{first, max(first+1, share(n, 0.35))}
	return h
}

func share(n int, of float64) int { return int(math.Ceil(float64(n) * of)) }

// A script decides what is done to the workers, and when. Nothing in it depends on
// a clock: each act waits for a fact.
//
//	the provider withholds its first answer  → kill its worker
//	the provider withholds its second answer → freeze its worker, then let it go
//	the answer was sent, and another holder
//	has written the frozen worker's order    → wake the frozen worker
//	a write of the woken worker was refused  → over
type script struct {
	killed, frozen string     // the workers' names, once it is to be done
	lastWords      shop.Entry // the killed worker's attempt
	held           shop.Entry // the frozen worker's
	sent           bool
	woken          bool
	refused        bool
	written        map[string]execution.Token // the newest token with which each order was written
}

func newScript() *script { return &script{written: map[string]execution.Token{}} }

// An act is what the script wants done.
type act int

const (
	nothing act = iota
	kill
	freeze
	wake
)

// notice takes in what the provider did.
func (s *script) notice(n shop.Notice) act {
	switch {
	case n.Hold == holdKill && !n.Sent:
		s.killed, s.lastWords = n.Entry.Worker, n.Entry
		return kill
	case n.Hold == holdFreeze && !n.Sent:
		s.frozen, s.held = n.Entry.Worker, n.Entry
		return freeze
	case n.Hold == holdFreeze:
		s.sent = true
	}
	return s.next()
}

// write takes in that an order was written with a token.
func (s *script) write(id string, token execution.Token) act {
	s.written[id] = max(s.written[id], token)
	return s.next()
}

// refusal takes in that a write of the worker was refused.
func (s *script) refusal(worker string) {
	if s.woken && worker == s.frozen {
		s.refused = true
	}
}

// next says whether the frozen worker may be woken now.
func (s *script) next() act {
	if s.sent && !s.woken && int64(s.written[s.held.OrderID]) > s.held.Token {
		s.woken = true
		return wake
	}
	return nothing
}

func (s *script) over() bool { return s.refused }

// waiting says what has to happen next.
func (s *script) waiting() string {
	switch {
	case s.refused:
		return "no worker is going to be disturbed any more"
	case s.woken:
		return fmt.Sprintf("%s is awake again and about to write", s.frozen)
	case s.frozen != "":
		return fmt.Sprintf("%s is frozen until another worker has taken over and written", s.frozen)
	case s.killed != "":
		return "a second worker is going to be frozen in mid-charge"
	}
	return "a worker is going to be killed in mid-charge"
}
