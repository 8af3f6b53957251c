package integration_test

import (
	"context"
	"database/sql"
	"fmt"
	"os/signal"
	"strings"
	"syscall"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/internal/process"
	"github.com/holdfast-io/holdfast/pkg/fencesql"
)

// fencesqlCommand as the first argument makes the test binary a worker whose step
// writes into a database; the others are the endpoint, the namespace, the worker's
// name, the driver, the DSN and where the step stands and waits for a line.
const fencesqlCommand = "fencesql-process"

// Where a step stands. At each place it says so; at one it waits.
const (
	atBegin   = "begun"    // in the transaction, before its guard
	atGuard   = "guarded"  // after its guard and its write, before the commit
	atCommit  = "answered" // followed by what the step's function returns
	toTheEnd  = "nowhere"  // it waits at none
	payStep   = "pay"
	payer     = "payer" // the workflow
	payments  = "order-42"
	tableText = "CREATE TABLE rows (name text PRIMARY KEY, holder text NOT NULL, token bigint NOT NULL)"
	writeText = "INSERT INTO rows VALUES ('tea', '%s', %d) ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, token = excluded.token"
)

// dialects are those of the drivers.
var dialects = map[string]fencesql.Dialect{"sqlite": fencesql.SQLite, "pgx": fencesql.PostgreSQL}

// runFencesql runs the worker until SIGTERM, or until its parent has gone.
func runFencesql(args []string) error {
	if len(args) != 6 {
		return fmt.Errorf("%s: arguments %q, want endpoint, namespace, name, driver, DSN and place", fencesqlCommand, args)
	}
	heard := make(chan struct{}, 1)
	process.ExitWithParent(func([]byte) { heard <- struct{}{} })
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	db, err := sql.Open(args[3], args[4])
	if err != nil {
		return err
	}
	defer db.Close()
	guarded, err := fencesql.New(db, fencesql.Config{Dialect: dialects[args[3]]})
	if err != nil {
		return err
	}
	client, err := holdfast.Open(ctx, holdfast.Endpoints(args[0]), holdfast.Namespace(args[1]), holdfast.Prefix(keyPrefix),
		holdfast.RedeliveryDelay(delayBase, delayBase))
	if err != nil {
		return err
	}
	defer client.Close()
	p := &payment{name: args[2], dialect: dialects[args[3]], db: db, guarded: guarded, waitAt: args[5], heard: heard}
	// Nothing here waits for a lease to expire or to be renewed.
	worker, err := holdfast.NewWorker(client, p.workflow(), holdfast.Name(args[2]), holdfast.Lease(10*time.Minute, time.Minute))
	if err != nil {
		return err
	}
	return worker.Run(ctx)
}

// A payment is a worker's step that writes its name into the row.
type payment struct {
	name    string
	dialect fencesql.Dialect
	db      *sql.DB
	guarded *fencesql.DB
	waitAt  string
	heard   <-chan struct{}
}

func (p *payment) workflow() *holdfast.Workflow[string, string] {
	return holdfast.Define(payer, func(ctx holdfast.Context, _ string) (string, error) {
		out, err := holdfast.Step(ctx, payStep, func(ctx context.Context) (string, error) {
			// The transaction does not end with the delivery's context: it is to be
			// the guard that refuses.
			err := p.pay(context.WithoutCancel(ctx))
			p.say(atCommit, fmt.Sprint(err))
			return p.name, err
		})
		p.say("the step gives", fmt.Sprint(err))
		return out, err
	})
}

func (p *payment) pay(ctx context.Context) error {
	f := holdfast.Fence(ctx)
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // it has ended, or what failed is returned
	p.stand(atBegin)
	if err := p.guarded.Guard(ctx, tx, "rows", f); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf(writeText, p.name, f.Token)); err != nil {
		return err
	}
	if p.waitAt == atGuard && p.dialect == fencesql.PostgreSQL {
		// Most set it for all sessions. Here it begins to count when all is written.
		if _, err := tx.ExecContext(ctx, "SET LOCAL idle_in_transaction_session_timeout = '100ms'"); err != nil {
			return err
		}
	}
	p.stand(atGuard)
	return tx.Commit()
}

// stand says where the step is, and waits there if it is to.
func (p *payment) stand(place string) {
	p.say(place, "")
	if p.waitAt == place {
		<-p.heard
	}
}

func (p *payment) say(place, what string) {
	fmt.Println(strings.ReplaceAll(strings.TrimSpace(place+" "+what), "\n", " "))
}
