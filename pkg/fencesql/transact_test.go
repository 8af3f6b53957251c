package fencesql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencesql"
)

type receipt struct {
	Account string
	Amount  int64
}

// transfer is a step's transaction: it writes the row, and returns a receipt that
// names the holder.
func (s *scene) transfer(ctx context.Context, f execution.Fencing, calls *int) (receipt, error) {
	return fencesql.Transact(ctx, s.d, "accounts", f, func(tx *sql.Tx) (receipt, error) {
		*calls++
		return receipt{"tea", f.Token}, s.write(tx, f)
	})
}

func TestTransactCommitsOnce(t *testing.T) {
	onEach(t, func(t *testing.T, s *scene) {
		calls := 0
		for i, token := range []int64{101, 101, 105} {
			got, err := s.transfer(t.Context(), fencing(token), &calls)
			if want := (receipt{"tea", 101}); err != nil || got != want {
				t.Errorf("attempt %d: got %+v, %v; want %+v", i, got, err, want)
			}
		}
		if calls != 1 {
			t.Errorf("the function ran %d times", calls)
		}
		s.wantHolder(fencing(101))
		if _, err := s.transfer(t.Context(), fencing(101), &calls); !errors.Is(err, execution.ErrLost) {
			t.Errorf("the older holder gets %v, want lost: the repetition was guarded, too", err)
		}
	})
}

func TestTransactRollsBack(t *testing.T) {
	onEach(t, func(t *testing.T, s *scene) {
		declined := errors.New("declined")
		f := fencing(101)
		run := func(fn func(*sql.Tx) (any, error)) error {
			_, err := fencesql.Transact(t.Context(), s.d, "accounts", f, func(tx *sql.Tx) (any, error) {
				must(t, s.write(tx, f))
				return fn(tx)
			})
			return err
		}
		if err := run(func(*sql.Tx) (any, error) { return nil, declined }); err != declined { //nolint:errorlint // as it is
			t.Errorf("got %v, want the function's own error", err)
		}
		if err := run(func(*sql.Tx) (any, error) { return func() {}, nil }); err == nil || !strings.Contains(err.Error(), "can't be encoded") {
			t.Errorf("got %v, want that a function is no JSON", err)
		}
		var invalid *execution.InvalidError
		if err := run(func(*sql.Tx) (any, error) { return strings.Repeat("a", execution.MaxPayloadBytes), nil }); !errors.As(err, &invalid) || invalid.Limit != execution.MaxPayloadBytes {
			t.Errorf("got %v, want that the result is too large", err)
		}
		func() {
			defer func() { _ = recover() }()
			_ = run(func(*sql.Tx) (any, error) { panic("the step panics") })
		}()
		if s.holder() != 0 || s.count("holdfast_steps") != 0 {
			t.Errorf("the row holds %d, and %d steps are marked", s.holder(), s.count("holdfast_steps"))
		}
		must(t, run(func(*sql.Tx) (any, error) { return "paid", nil }))
		s.wantHolder(f)
	})
}

func TestTransactRefuses(t *testing.T) {
	onEach(t, func(t *testing.T, s *scene) {
		calls := 0
		s.commit(fencing(105))
		if _, err := s.transfer(t.Context(), fencing(101), &calls); !errors.Is(err, execution.ErrLost) {
			t.Errorf("an older token gives %v, want lost", err)
		}
		var invalid *execution.InvalidError
		if _, err := s.transfer(t.Context(), execution.Fencing{}, &calls); !errors.As(err, &invalid) {
			t.Errorf("no fencing gives %v, want an *InvalidError", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.transfer(ctx, fencing(105), &calls); !errors.Is(err, context.Canceled) {
			t.Errorf("a context that has ended gives %v", err)
		}
		if calls != 0 {
			t.Errorf("the function ran %d times", calls)
		}
	})
}

func TestTransactFindsWhatItCantReturn(t *testing.T) {
	onEach(t, func(t *testing.T, s *scene) {
		calls := 0
		_, err := s.transfer(t.Context(), fencing(101), &calls)
		must(t, err)
		_, err = fencesql.Transact(t.Context(), s.d, "accounts", fencing(101), func(*sql.Tx) (int, error) { return 0, nil })
		if err == nil || !strings.Contains(err.Error(), "does not fit int") {
			t.Errorf("got %v, want that a receipt is no number", err)
		}
		marked := fencing(101)
		marked.Key = "hf-marked"
		tx, err := s.guard(marked)
		must(t, err)
		_, err = s.d.Once(t.Context(), tx, marked)
		must(t, err)
		must(t, tx.Commit())
		if _, err := s.transfer(t.Context(), marked, &calls); err == nil || !strings.Contains(err.Error(), "marked by Once") {
			t.Errorf("got %v, want that Once kept no result", err)
		}
	})
}

// The answer of a commit is lost: Transact finds out what became of it.
func TestTransactResolvesAnUnansweredCommit(t *testing.T) {
	t.Parallel()
	lost := errors.New("connection reset")
	for name, c := range map[string]struct {
		commit func(driver.Tx) error // what becomes of the transaction
		later  int64                 // a token that comes in between; 0: none
		ok     bool
		says   string
		holder int64
	}{
		"committed":                 {commit: driver.Tx.Commit, ok: true, holder: 101},
		"rolled back":               {commit: driver.Tx.Rollback, says: `transact "accounts": commit: connection reset`},
		"committed, and lost since": {commit: driver.Tx.Commit, later: 105, says: "whether it was committed is not known", holder: 105},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, s *scene) {
				calls := 0
				other := &scene{database: s.database, t: t, db: s.db, d: s.d}
				s.db = sql.OpenDB(&unsure{driver: s.db.Driver(), dsn: s.dsn, commit: func(tx driver.Tx) error {
					must(t, c.commit(tx))
					if c.later != 0 {
						other.commit(fencing(c.later))
					}
					return lost
				}})
				defer s.db.Close()
				s.d = s.tables(fencesql.Config{Dialect: s.dialect})
				got, err := s.transfer(t.Context(), fencing(101), &calls)
				if c.ok != (err == nil) || !c.ok && (!strings.Contains(err.Error(), c.says) || !errors.Is(err, lost)) {
					t.Errorf("got %v, want success: %v, or an error that says %q", err, c.ok, c.says)
				}
				if want := (receipt{"tea", 101}); c.ok && got != want {
					t.Errorf("got %+v, want %+v", got, want)
				}
				if errors.Is(err, execution.ErrLost) != (c.later != 0) || calls != 1 || s.holder() != c.holder {
					t.Errorf("%v after %d calls; the row holds %d, want %d", err, calls, s.holder(), c.holder)
				}
			})
		})
	}
}

// An unsure is a database whose first commit goes another way than it says.
type unsure struct {
	driver driver.Driver
	dsn    string
	commit func(driver.Tx) error
	done   atomic.Bool
}

func (u *unsure) Driver() driver.Driver { return u.driver }

func (u *unsure) Connect(context.Context) (driver.Conn, error) {
	conn, err := u.driver.Open(u.dsn)
	return &unsureConn{conn, u}, err
}

type unsureConn struct {
	driver.Conn

	all *unsure
}

func (c *unsureConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
	return &unsureTx{tx, c.all}, err
}

func (c *unsureConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, text, args)
}

func (c *unsureConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, text, args)
}

type unsureTx struct {
	driver.Tx

	all *unsure
}

func (tx *unsureTx) Commit() error {
	if tx.all.done.Swap(true) {
		return tx.Tx.Commit()
	}
	return tx.all.commit(tx.Tx)
}
