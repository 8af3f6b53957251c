package stores_test

import (
	"errors"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

func TestCreate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const state = "{ \"b\" : 1.50,\n\"a\":\"\\u00e9é🙂\", \"n\":12345678901234567890123 }"
	calls := 0
	initial := func() ([]byte, error) { calls++; return []byte(state), nil }
	first, err := b.Create(t.Context(), counter, initial)
	b.must(err)
	if string(first.State) != state || first.Version != 0 || calls != 1 {
		t.Fatalf("created %+v, %d calls", first, calls)
	}
	if !regexp.MustCompile(`^[0-9a-f-]{16,}$`).MatchString(first.Instance) {
		t.Fatalf("instance %q", first.Instance)
	}
	instance := first.Instance
	for i := range first.State {
		first.State[i] = 'x' // the caller's own
	}
	again, err := b.Create(t.Context(), counter, func() ([]byte, error) { return nil, errRefused })
	b.must(err)
	if string(again.State) != state || again.Instance != instance || again.Version != 0 {
		t.Fatalf("the existing one: %+v", again)
	}
	if again, err = b.Create(t.Context(), counter, nil); err != nil || again.Instance != instance {
		t.Fatalf("without an initial state: %+v, %v", again, err)
	}
	b.must(b.Delete(t.Context(), counter))
	if later := b.create(counter, "1"); later.Instance == instance || later.Version != 0 {
		t.Fatalf("created anew: %+v", later)
	}
}

func TestCreateRefuses(t *testing.T) {
	t.Parallel()
	text := func(s string) func() ([]byte, error) { return func() ([]byte, error) { return []byte(s), nil } }
	invalid := func(err error) bool {
		_, is := errors.AsType[*execution.InvalidError](err)
		return is
	}
	for _, c := range []struct {
		name    string
		key     execution.StoreID
		initial func() ([]byte, error)
		want    func(error) bool
	}{
		{"no name", execution.StoreID{ID: "x"}, text("1"), invalid},
		{"no id", execution.StoreID{Name: "x"}, text("1"), invalid},
		{"a NUL in the id", execution.StoreID{Name: "x", ID: "a\x00"}, text("1"), invalid},
		{"no initial state", counter, nil, func(err error) bool { return errors.Is(err, execution.ErrNotFound) }},
		{"an error", counter, func() ([]byte, error) { return nil, errRefused }, func(err error) bool { return errors.Is(err, errRefused) }},
		{"nothing", counter, text(""), invalid},
		{"no JSON", counter, text("{"), invalid},
		{"two documents", counter, text("1 2"), invalid},
		{"too large", counter, text(`"` + strings.Repeat("x", execution.MaxPayloadBytes) + `"`), invalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			if snap, err := b.Create(t.Context(), c.key, c.initial); !c.want(err) || snap.Instance != "" {
				t.Fatalf("got %+v, %v", snap, err)
			}
			b.none(b.space.All())
		})
	}
}

func TestLargestStateIsCreated(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	largest := `"` + strings.Repeat("x", execution.MaxPayloadBytes-2) + `"`
	b.create(counter, largest)
	if got := b.get(counter); string(got.State) != largest {
		t.Fatalf("%d bytes", len(got.State))
	}
}

// The second creator comes between the first one's look and its write.
func TestTwoCreatorsShareOneStore(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var winner stores.Snapshot
	peer := b.peer(b.before(b.space.Store(storeKey(counter)), then(func() { winner = b.create(counter, "1") })))
	calls := 0
	got, err := peer.Create(t.Context(), counter, func() ([]byte, error) { calls++; return []byte("2"), nil })
	if err != nil || calls != 1 || got.Instance != winner.Instance || string(got.State) != "1" {
		t.Fatalf("got %+v, %d calls, %v; want %+v", got, calls, err, winner)
	}
}

func TestManyCreatorsShareOneStore(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	clients := []*stores.Client{b.Client, b.peer(b.store)}
	var group sync.WaitGroup
	instances := make([]string, 32)
	for i := range instances {
		group.Go(func() {
			snap, err := clients[i%2].Create(t.Context(), counter, func() ([]byte, error) { return []byte("0"), nil })
			if err != nil {
				t.Error(err)
			}
			instances[i] = snap.Instance
		})
	}
	group.Wait()
	for _, instance := range instances {
		if instance != b.get(counter).Instance {
			t.Fatalf("instances %q", instances)
		}
	}
}

func TestUnansweredCreationIsTheCallers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	peer := b.peer(b.unanswered(b.space.Store(storeKey(counter)), nothing, nothing))
	got, err := peer.Create(t.Context(), counter, func() ([]byte, error) { return []byte("7"), nil })
	kv, rec := b.stored(counter)
	if err != nil || kv.Created != kv.Modified || rec.Instance != got.Instance || rec.Version != 0 || string(got.State) != "7" {
		t.Fatalf("got %+v, stored %+v, %v", got, rec, err)
	}
}

// It was made and deleted by somebody, and the caller asked for a store that is there.
func TestUnansweredCreationThatWasDeletedIsMadeAnew(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := ""
	peer := b.peer(b.unanswered(b.space.Store(storeKey(counter)), func() {
		first = b.get(counter).Instance
		b.must(b.Delete(t.Context(), counter))
	}))
	got, err := peer.Create(t.Context(), counter, func() ([]byte, error) { return []byte("7"), nil })
	if err != nil || got.Instance == first || got.Instance != b.get(counter).Instance {
		t.Fatalf("got %+v, first %q, %v", got, first, err)
	}
}
