package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/internal/connect"
	"github.com/holdfast-io/holdfast/internal/demo"
	"github.com/holdfast-io/holdfast/internal/process"
	"github.com/holdfast-io/holdfast/internal/shop"
	"github.com/holdfast-io/holdfast/internal/storeapi"
	"github.com/holdfast-io/holdfast/pkg/embedded"
)

const aboutRun = `Run charges the shop's orders as they come in and stays until Ctrl-C or SIGTERM. Then
it drains: it claims nothing more, lets each order come to its next step boundary,
and hands it over to other workers. A second Ctrl-C ends it at once; what it was
doing is taken over when its lease has expired.

It works on an etcd cluster (--etcd-endpoints) or on an etcd embedded in this process
(--data-dir). Worker submit, get and ls find an embedded one by its directory for as
long as it runs; for etcd's own tools its address is in DIR/` + connect.EndpointFile + `. It listens
on the port that it had before, if that is free, or where --listen says.

A charge that the provider doesn't answer, or answers with an error of its server, may
have been made all the same. So its order never fails for that: the charge is tried
again, under the same key, at most 30 seconds apart, until the provider has decided.
It is then listed as suspended, and this log says that the provider doesn't answer.

With --api-addr it also serves the store connector API, by which programs in other
languages use the stores: HTTP and JSON, described in docs/store-api.md. It knows no
users. On a loopback address, which is what :PORT means, the programs of this machine
reach it, and the pages of a browser don't. Port 0 is any free one; the log names it.

In three terminals:

  worker provider --ledger ledger.jsonl
  worker run --data-dir shop-data
  worker submit --data-dir shop-data --orders examples/shop/orders.jsonl --wait`

type runFlags struct {
	etcdFlags
	shop.CashierConfig
	concurrency       int
	lease, renewEvery time.Duration
	drainTimeout      time.Duration
	level             zapcore.Level
	apiAddr           string // as net.Listen takes it; empty: no store API
	child             bool
}

func runCommand() *cobra.Command {
	f := runFlags{level: zapcore.InfoLevel}
	var level string
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the shop's workflows, against an etcd cluster or an embedded etcd, until Ctrl-C",
		Long:  aboutRun,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := refuseZero(cmd); err != nil {
				return err
			}
			if f.level, err = zapcore.ParseLevel(level); err != nil {
				return fmt.Errorf("--log-level: %w", err)
			}
			if f.apiAddr != "" {
				if f.apiAddr, err = storeapi.ListenAddress(f.apiAddr); err != nil {
					return fmt.Errorf("--api-addr: %w", err)
				}
			}
			return runWorker(cmd, f)
		},
	}
	f.register(cmd, "run etcd in this process, with its data in this directory")
	fs := cmd.Flags()
	fs.StringVar(&f.Listen, "listen", "", "where an embedded etcd listens, host:port (default: "+embedded.DefaultListen+", a free port)")
	fs.StringVar(&f.Provider, "provider", "http://"+defaultListen, "URL of the payment provider")
	fs.DurationVar(&f.Timeout, "charge-timeout", time.Minute, "how long a charge may take")
	fs.StringVar(&f.Worker, "name", "", "name of this worker, for operators (default: host/pid)")
	fs.IntVar(&f.concurrency, "concurrency", 64, "orders that are run at once")
	fs.DurationVar(&f.lease, "lease", 30*time.Second, "how long a claim lives without being renewed")
	fs.DurationVar(&f.renewEvery, "renew-every", 0, "how often claims are renewed (default: a third of the lease)")
	fs.DurationVar(&f.drainTimeout, "drain-timeout", 30*time.Second, "how long a stop waits for charges under way")
	fs.StringVar(&level, "log-level", "info", "debug, info, warn or error")
	fs.StringVar(&f.apiAddr, "api-addr", "", "serve the store connector API here, such as 127.0.0.1:7420 (default: it is not served)")
	child(cmd, &f.child)
	return cmd
}

// child registers the flag by which the demo starts its processes.
func child(cmd *cobra.Command, is *bool) {
	cmd.Flags().BoolVar(is, "child", false, "end with standard input, and report to the parent on standard output")
	_ = cmd.Flags().MarkHidden("child")
}

func runWorker(cmd *cobra.Command, f runFlags) (err error) {
	cfg, err := f.config()
	if err != nil {
		return err
	}
	if f.renewEvery == 0 {
		f.renewEvery = f.lease / 3
	}
	if f.Worker == "" {
		host, _ := os.Hostname()
		f.Worker = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	log := logger(f.level)
	if f.child { // its log may stand among others'
		log = log.Named(f.Worker)
	}
	f.Outage = logOutage(log, f.Provider)
	cashier, err := shop.NewCashier(f.CashierConfig)
	if err != nil {
		return err
	}
	defer cashier.Close()
	parts := f.parts(cashier)
	if _, err := holdfast.NewWorker(new(holdfast.Client), parts...); err != nil { // before anything is made
		return err
	}
	api, err := listenAPI(f.apiAddr) // a port that is taken should be known before etcd has started
	if err != nil {
		return failed(err)
	}
	defer api.close()
	e, err := connect.Serve(cmd.Context(), cfg, log)
	if err != nil {
		return failed(err)
	}
	defer func() {
		if closeErr := e.Close(); closeErr != nil {
			err = failed(errors.Join(err, closeErr))
		}
	}()
	return f.work(cmd, e, log, parts, api)
}

// parts are what the worker is made of.
func (f *runFlags) parts(cashier *shop.Cashier) []holdfast.WorkerOption {
	return []holdfast.WorkerOption{
		shop.NewWorkflow(cashier), holdfast.Name(f.Worker), holdfast.Concurrency(f.concurrency),
		holdfast.Lease(f.lease, f.renewEvery), holdfast.DrainTimeout(f.drainTimeout),
	}
}

// work runs the worker on the etcd, and the store API beside it.
func (f *runFlags) work(cmd *cobra.Command, e *connect.Etcd, log *zap.Logger, parts []holdfast.WorkerOption, api storeAPI) error {
	observe := logEvents(log)
	if f.child {
		process.ExitWithParent(nil)
		observe = both(observe, demo.NewSpeaker(os.Stdout).Observe)
	}
	client, err := holdfast.Open(cmd.Context(), append(e.Options,
		holdfast.Namespace(f.namespace), holdfast.Logger(log), holdfast.Observe(observe))...)
	if err != nil {
		return failed(err)
	}
	defer client.Close()
	w, err := holdfast.NewWorker(client, parts...)
	if err != nil {
		return err
	}
	log.Info("worker runs until Ctrl-C", zap.String("name", f.Worker), zap.String("etcd", e.Where),
		zap.String("namespace", f.namespace), zap.String("provider", f.Provider), zap.Duration("lease", f.lease))
	g, ctx := errgroup.WithContext(cmd.Context())
	g.Go(func() error { return w.Run(ctx) })
	g.Go(func() error { return api.serve(ctx, e, log) })
	return failed(g.Wait())
}
