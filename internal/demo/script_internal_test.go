package demo

// These tests are inside the package: the script, the verdict and the reading of
// the history are not the demo's interface, and the demo as a whole shows only the
// runs that go well.

import (
	"testing"

	"github.com/holdfast-io/holdfast/internal/shop"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

func TestHoldsAreReachedWhateverTheOrders(t *testing.T) {
	t.Parallel()
	orders := func(ok, declined int) []shop.Order {
		var o []shop.Order
		for range ok {
			o = append(o, shop.Order{Card: shop.CardOK})
		}
		for range declined {
			o = append(o, shop.Order{Card: shop.CardDeclined})
		}
		return o
	}
	tests := []struct {
		name         string
		orders       []shop.Order
		first, after int
		declined     bool
	}{
		{"one", orders(1, 0), 1, 2, false},
		{"one among declined ones", orders(1, 99), 1, 2, false},
		{"two", orders(2, 0), 1, 2, false},
		{"three", orders(3, 0), 1, 2, false},
		{"hundred", orders(100, 0), 15, 35, false},
		{"one declined", orders(0, 1), 1, 2, true},
		{"hundred declined", orders(0, 100), 15, 35, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := holds(tt.orders)
			if h.After[0] != tt.first || h.After[1] != tt.after || h.Declined != tt.declined {
				t.Errorf("holds are %+v", h)
			}
		})
	}
	for n := 1; n < 1000; n++ {
		if h := holds(orders(n, 0)); h.After[0] < 1 || h.After[0] > n || h.After[1] <= h.After[0] || h.After[1] > n+1 {
			t.Errorf("%d orders: holds are %+v", n, h)
		}
	}
}

func TestScript(t *testing.T) {
	t.Parallel()
	held := func(hold int, sent bool) shop.Notice {
		worker := map[int]string{0: "c", holdKill: "a", holdFreeze: "b"}[hold]
		return shop.Notice{Entry: shop.Entry{OrderID: "o", Worker: worker, Token: 10}, Hold: hold, Sent: sent}
	}
	type write struct {
		id    string
		token execution.Token
	}
	type refusal string
	type step struct {
		news any
		want act
	}
	toFrozen := []step{{held(0, false), nothing}, {held(holdKill, false), kill}, {held(0, false), nothing}, {held(holdFreeze, false), freeze}}
	tests := []struct {
		name  string
		steps []step
		over  bool
	}{
		{"all goes as planned", append(toFrozen[:4:4], step{held(holdFreeze, true), nothing}, step{write{"o", 10}, nothing}, step{write{"p", 99}, nothing}, step{write{"o", 11}, wake}, step{refusal("b"), nothing}), true},
		{"the takeover is seen before the answer was sent", append(toFrozen[:4:4], step{write{"o", 11}, nothing}, step{held(holdFreeze, true), wake}, step{refusal("b"), nothing}), true},
		{"the takeover is seen before the freeze", append([]step{{write{"o", 11}, nothing}}, append(toFrozen[:4:4], step{held(holdFreeze, true), wake})...), false},
		{"it is woken once", append(toFrozen[:4:4], step{held(holdFreeze, true), nothing}, step{write{"o", 11}, wake}, step{write{"o", 12}, nothing}), false},
		{"a refusal before it was woken is another's", append(toFrozen[:4:4], step{refusal("b"), nothing}, step{held(holdFreeze, true), nothing}, step{write{"o", 11}, wake}), false},
		{"a refusal of another worker", append(toFrozen[:4:4], step{held(holdFreeze, true), nothing}, step{write{"o", 11}, wake}, step{refusal("c"), nothing}), false},
		{"nobody takes over", append(toFrozen[:4:4], step{held(holdFreeze, true), nothing}), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScript()
			said := map[string]bool{s.waiting(): true}
			for i, st := range tt.steps {
				got := nothing
				switch news := st.news.(type) {
				case shop.Notice:
					got = s.notice(news)
				case write:
					got = s.write(news.id, news.token)
				case refusal:
					s.refusal(string(news))
				}
				if got != st.want {
					t.Errorf("step %d: act %d, want %d", i+1, got, st.want)
				}
				said[s.waiting()] = true
			}
			if s.over() != tt.over {
				t.Errorf("over: %v, want %v", s.over(), tt.over)
			}
			if s.killed != "a" || s.frozen != "b" || len(said) < 3 {
				t.Errorf("killed %q, frozen %q, said %d different things", s.killed, s.frozen, len(said))
			}
		})
	}
}

func TestInboxKeepsOrderAndNeverBlocks(t *testing.T) {
	t.Parallel()
	b := newInbox()
	for i := range 1000 {
		b.put(i)
	}
	<-b.wake
	items := b.take()
	if len(items) != 1000 || items[0] != 0 || items[999] != 999 {
		t.Errorf("took %d items", len(items))
	}
	if more := b.take(); len(more) > 0 {
		t.Errorf("took %v again", more)
	}
	b.put("last")
	<-b.wake
}
