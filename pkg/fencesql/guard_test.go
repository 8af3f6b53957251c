package fencesql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencesql"
)

func TestGuardComparesTokens(t *testing.T) {
	onEach(t, func(t *testing.T, s *scene) {
		for i, c := range []struct {
			token, seen int64 // seen: what a refusal says; 0: it is accepted
		}{
			{101, 0}, {101, 0}, {105, 0}, {101, 105}, {104, 105}, {105, 0}, {1 << 62, 0}, {105, 1 << 62},
		} {
			f := fencing(c.token)
			tx, err := s.guard(f)
			if c.seen == 0 {
				must(t, err)
				must(t, s.write(tx, f))
				must(t, tx.Commit())
				s.wantHolder(f)
				continue
			}
			want := fencesql.StaleError{
				Namespace: "default", ExecutionID: "order-42", Resource: "accounts",
				Carried: execution.Token(c.token), Seen: execution.Token(c.seen),
			}
			var stale *fencesql.StaleError
			if !errors.As(err, &stale) || *stale != want {
				t.Errorf("case %d: got %+v, want %+v", i, err, want)
			}
		}
	})
}

// What the engine asks of the error.
func TestStaleIsLost(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("save: %w", &fencesql.StaleError{
		Namespace: "default", ExecutionID: "order-42", Resource: "accounts", Carried: 101, Seen: 105,
	})
	var lost *execution.LostError
	if !errors.Is(err, execution.ErrLost) || !errors.As(err, &lost) {
		t.Fatalf("%v is not lost", err)
	}
	if lost.ID != "order-42" || lost.Carried != 101 || lost.Current != 105 || lost.Operation != "guard" {
		t.Errorf("the engine sees %+v", lost)
	}
	const want = `save: guard "accounts": lease lost: execution "order-42" carried token 101, and token 105 has been there`
	if err.Error() != want {
		t.Errorf("it says %q", err)
	}
}

// Somebody who overlooks the error changes nothing all the same.
func TestRefusedTransactionCantBeCommitted(t *testing.T) {
	onEach(t, func(t *testing.T, s *scene) {
		late, current := fencing(101), fencing(105)
		s.commit(current)
		for name, refuse := range map[string]func(*sql.Tx) error{
			"stale":       func(tx *sql.Tx) error { return s.d.Guard(t.Context(), tx, "accounts", late) },
			"no fencing":  func(tx *sql.Tx) error { return s.d.Guard(t.Context(), tx, "accounts", execution.Fencing{}) },
			"no resource": func(tx *sql.Tx) error { return s.d.Guard(t.Context(), tx, "", current) },
			"a bad key":   func(tx *sql.Tx) error { _, err := s.d.Once(t.Context(), tx, execution.Fencing{}); return err },
			"no such row": func(tx *sql.Tx) error {
				return s.tables(fencesql.Config{Dialect: s.dialect, Prefix: "no_"}).Guard(t.Context(), tx, "accounts", current)
			},
			"over already": func(tx *sql.Tx) error { must(t, tx.Rollback()); return s.d.Guard(t.Context(), tx, "accounts", current) },
		} {
			tx := s.begin()
			must(t, s.write(tx, late)) // before the guard, even
			if err := refuse(tx); err == nil {
				t.Errorf("%s: accepted", name)
			}
			if err := s.write(tx, late); !errors.Is(err, sql.ErrTxDone) {
				t.Errorf("%s: a write after it gives %v, want %v", name, err, sql.ErrTxDone)
			}
			if err := tx.Commit(); !errors.Is(err, sql.ErrTxDone) {
				t.Errorf("%s: a commit after it gives %v, want %v", name, err, sql.ErrTxDone)
			}
			s.wantHolder(current)
		}
	})
}

func TestGuardValidates(t *testing.T) {
	t.Parallel()
	s := newScene(t, databases()["sqlite"])
	for name, c := range map[string]struct {
		resource string
		fencing  execution.Fencing
		want     string
	}{
		"no resource":      {"", fencing(1), `resource "" is empty`},
		"a long resource":  {strings.Repeat("a", 513), fencing(1), "is too long"},
		"no fencing":       {"accounts", execution.Fencing{}, "take it from the context that the step's function was given"},
		"no token":         {"accounts", fencing(0), `fencing token "0"`},
		"no namespace":     {"accounts", execution.Fencing{Token: 1, ExecutionID: "a"}, "fencing namespace"},
		"no execution":     {"accounts", execution.Fencing{Token: 1, Namespace: "a"}, "execution id"},
		"NUL in its name":  {"a\x00b", fencing(1), "NUL"},
		"half a character": {"a\xff", fencing(1), "UTF-8"},
	} {
		err := s.d.Guard(t.Context(), s.begin(), c.resource, c.fencing)
		var invalid *execution.InvalidError
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), c.want) || errors.Is(err, execution.ErrLost) {
			t.Errorf("%s: got %v, want an *InvalidError that says %q", name, err, c.want)
		}
	}
	if err := s.d.Guard(t.Context(), nil, "accounts", fencing(1)); err == nil || !strings.Contains(err.Error(), "the transaction is nil") {
		t.Errorf("without a transaction: %v", err)
	}
	if n := s.count("holdfast_tokens"); n != 0 {
		t.Errorf("what was refused left %d rows", n)
	}
}

// A row belongs to one execution of one namespace: the greater token of another one
// refuses nobody.
func TestOtherExecutionsAreOtherResources(t *testing.T) {
	onEach(t, func(t *testing.T, s *scene) {
		own := fencing(101)
		tx, err := s.guard(fencing(900))
		must(t, err)
		must(t, tx.Rollback()) // and so is what was rolled back
		for name, f := range map[string]execution.Fencing{
			"another execution":              {Token: 900, Namespace: "default", ExecutionID: "order-43"},
			"another namespace":              {Token: 900, Namespace: "tests", ExecutionID: "order-42"},
			"a name that ends as one begins": {Token: 900, Namespace: "defaultorder", ExecutionID: "-42"},
		} {
			tx, err := s.guard(f)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			must(t, tx.Commit())
		}
		tx = s.begin()
		must(t, s.d.Guard(t.Context(), tx, "another resource", fencing(900)))
		must(t, tx.Commit())
		s.commit(own)
		s.wantHolder(own)
	})
}

// A resource is compared byte by byte.
func TestResourcesAreBytes(t *testing.T) {
	onEach(t, func(t *testing.T, s *scene) {
		names := []string{"tea", "Tea", "tea ", "té", "te\u0301", "茶", "a/b", "a\tb", "%", "_", "'; --", strings.Repeat("🦀", 128)}
		for i, name := range names {
			tx := s.begin()
			must(t, s.d.Guard(t.Context(), tx, name, fencing(int64(100+i))))
			must(t, tx.Commit())
		}
		if n := s.count("holdfast_tokens"); n != len(names) {
			t.Errorf("%d resources have %d rows", len(names), n)
		}
	})
}

// The frozen holder wakes up before its guard: it is refused.
func TestFrozenBeforeItsGuard(t *testing.T) {
	onEach(t, func(t *testing.T, s *scene) {
		late, current := fencing(101), fencing(105)
		tx := s.begin()
		s.commit(current)
		err := s.d.Guard(t.Context(), tx, "accounts", late)
		if !errors.Is(err, execution.ErrLost) {
			t.Errorf("the late guard gives %v, want lost", err)
		}
		s.wantHolder(current)
	})
}

// The frozen holder wakes up after its guard: the current one has waited, and is the
// last to write.
func TestFrozenAfterItsGuard(t *testing.T) {
	onEach(t, func(t *testing.T, s *scene) {
		late, current := fencing(101), fencing(105)
		tx, err := s.guard(late)
		must(t, err)
		var ended atomic.Bool
		done := make(chan error, 1)
		go func() {
			done <- s.try(current, func() {
				if !ended.Load() {
					t.Error("the current holder did not wait")
				}
			})
		}()
		if s.waits != nil {
			eventually(t, "the current holder waits", func() bool { return s.waits(t, s.db) })
		}
		must(t, s.write(tx, late))
		ended.Store(true)
		must(t, tx.Commit())
		must(t, <-done)
		s.wantHolder(current)
		if _, err := s.guard(late); !errors.Is(err, execution.ErrLost) {
			t.Errorf("another transaction of the late holder gives %v, want lost", err)
		}
	})
}

// The late guard waits for the current holder's transaction, and is refused only if
// that is committed.
func TestLateGuardWaitsForTheCurrentHolder(t *testing.T) {
	for name, commit := range map[string]bool{"committed": true, "rolled back": false} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, s *scene) {
				tx, err := s.guard(fencing(105))
				must(t, err)
				done := make(chan error, 1)
				go func() {
					_, err := s.guard(fencing(101))
					done <- err
				}()
				if s.waits != nil {
					eventually(t, "the late holder waits", func() bool { return s.waits(t, s.db) })
				}
				if commit {
					must(t, tx.Commit())
				} else {
					must(t, tx.Rollback())
				}
				if err := <-done; errors.Is(err, execution.ErrLost) != commit || err != nil && !commit {
					t.Errorf("the late guard gives %v, want it lost: %v", err, commit)
				}
			})
		})
	}
}

// Many deliveries race, each with several transactions; whatever the order, a token
// is never followed by a smaller one.
func TestTokensOfCommitsRise(t *testing.T) {
	onEach(t, func(t *testing.T, s *scene) {
		exec(t, s.db, "CREATE TABLE history (n integer PRIMARY KEY, token bigint NOT NULL)")
		const add = "INSERT INTO history SELECT count(*) + 1, %d FROM history"
		var all sync.WaitGroup
		var refused atomic.Int64
		for token := range int64(8) {
			all.Go(func() {
				for range 10 {
					err := func() error {
						tx, err := s.db.BeginTx(t.Context(), nil)
						if err != nil {
							return err
						}
						if err := s.d.Guard(t.Context(), tx, "accounts", fencing(token+1)); err != nil {
							return err
						}
						if _, err := tx.ExecContext(t.Context(), fmt.Sprintf(add, token+1)); err != nil {
							return errors.Join(err, tx.Rollback())
						}
						return tx.Commit()
					}()
					if errors.Is(err, execution.ErrLost) {
						refused.Add(1)
					} else if err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		var fell int
		scan(t, s.db.QueryRow("SELECT count(*) FROM history a JOIN history b ON b.n = a.n + 1 WHERE b.token < a.token"), &fell)
		if n := s.count("history"); fell != 0 || int64(n)+refused.Load() != 80 {
			t.Errorf("of 80 transactions %d were committed and %d refused; %d followed a greater token", n, refused.Load(), fell)
		}
	})
}

func TestGuardEndsWithItsContext(t *testing.T) {
	onEach(t, func(t *testing.T, s *scene) {
		ctx, cancel := context.WithCancel(t.Context())
		tx := s.begin()
		cancel()
		err := s.d.Guard(ctx, tx, "accounts", fencing(101))
		if !errors.Is(err, context.Canceled) || errors.Is(err, execution.ErrLost) {
			t.Errorf("got %v, want that it was cancelled and nothing about a lease", err)
		}
		if err := tx.Commit(); !errors.Is(err, sql.ErrTxDone) {
			t.Errorf("a commit after it gives %v", err)
		}
	})
}
