package fencesql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencesql"
)

// A step takes money from an account, once, and not for a holder that comes late.
func Example() {
	ctx := context.Background()
	db, guarded := openShop(ctx)
	defer db.Close()

	// pay is the function of a step: holdfast.Step(ctx, "pay", pay).
	pay := func(ctx context.Context) (string, error) {
		return fencesql.Transact(ctx, guarded, "accounts", holdfast.Fence(ctx), func(tx *sql.Tx) (string, error) {
			_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - 5 WHERE name = 'tea'")
			return "5 paid", err
		})
	}

	// Two deliveries of one execution. The first one is frozen before it comes to the
	// database; the second one dies before its step is recorded, and repeats it.
	first, second := delivery(ctx, 101), delivery(ctx, 105)
	fmt.Println(pay(second))
	fmt.Println(pay(second))
	_, err := pay(first)
	fmt.Println("the first one wakes up:", err)
	fmt.Println("which ends its delivery as lost:", errors.Is(err, execution.ErrLost))
	fmt.Println("balance:", balance(ctx, db))
	// Output:
	// 5 paid <nil>
	// 5 paid <nil>
	// the first one wakes up: guard "accounts": lease lost: execution "order-42" carried token 101, and token 105 has been there
	// which ends its delivery as lost: true
	// balance: 95
}

// By hand: the guard comes first, and every error is returned from the step.
func ExampleDB_Guard() {
	ctx := context.Background()
	db, guarded := openShop(ctx)
	defer db.Close()

	pay := func(ctx context.Context) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() //nolint:errcheck // it has ended, or what failed is returned
		if err := guarded.Guard(ctx, tx, "accounts", holdfast.Fence(ctx)); err != nil {
			return err
		}
		already, err := guarded.Once(ctx, tx, holdfast.Fence(ctx))
		if err != nil {
			return err
		}
		if !already {
			if _, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - 5 WHERE name = 'tea'"); err != nil {
				return err
			}
		}
		return tx.Commit() // also where nothing was left to do: the token has been here
	}

	fmt.Println(pay(delivery(ctx, 101)), balance(ctx, db))
	fmt.Println(pay(delivery(ctx, 105)), balance(ctx, db))
	if stale, is := errors.AsType[*fencesql.StaleError](pay(delivery(ctx, 101))); is {
		fmt.Println("refused at", stale.Resource, "under token", stale.Carried, "after", stale.Seen)
	}
	// Output:
	// <nil> 95
	// <nil> 95
	// refused at accounts under token 101 after 105
}

// delivery is the context of a step in the delivery with the token, as the engine
// makes it.
func delivery(ctx context.Context, token int64) context.Context {
	return execution.WithFencing(ctx, execution.Fencing{
		Key: "hf-3d40458d03d99c12a53416ff45c7344e", Token: token,
		Namespace: "default", ExecutionID: "order-42", Step: "pay",
	})
}

// openShop returns a database with an account, and its guard.
func openShop(ctx context.Context) (*sql.DB, *fencesql.DB) {
	db := ok(sql.Open("sqlite", ":memory:"))
	db.SetMaxOpenConns(1) // each connection would have a memory of its own
	ok(db.ExecContext(ctx, "CREATE TABLE accounts (name text PRIMARY KEY, balance integer NOT NULL)"))
	ok(db.ExecContext(ctx, "INSERT INTO accounts VALUES ('tea', 100)"))
	guarded := ok(fencesql.New(db, fencesql.Config{Dialect: fencesql.SQLite}))
	ok(guarded, guarded.Migrate(ctx))
	return db, guarded
}

func balance(ctx context.Context, db *sql.DB) int {
	var n int
	return ok(n, db.QueryRowContext(ctx, "SELECT balance FROM accounts").Scan(&n))
}

// ok stands for the error handling of a real program.
func ok[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
