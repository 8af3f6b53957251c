// Command check reads a namespace and verifies every invariant of the protocol
// that a snapshot can show. It changes nothing and may be run while workers are at
// work: executions under way violate nothing.
//
//	go run ./hack/check --etcd-endpoints http://127.0.0.1:2379 --namespace default
//	go run ./hack/check --data-dir DIR
//
// It exits with 0 if nothing is violated, with 1 if something is, and with 2 if it
// could not find out, or the namespace is empty: nothing was checked then.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-io/holdfast/internal/audit"
	"github.com/holdfast-io/holdfast/internal/connect"
	"github.com/holdfast-io/holdfast/internal/etcdv3"
	"github.com/holdfast-io/holdfast/internal/keyspace"
)

// The exit statuses.
const (
	exitOK = iota
	exitViolated
	exitUnknown
)

func main() { os.Exit(status()) }

// status runs the command until it is interrupted, and returns the exit status.
func status() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	report, err := run(ctx, os.Args[1:], os.Stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintln(os.Stderr, "check:", err)
		return exitUnknown
	case !report.OK():
		return exitViolated
	}
	return exitOK
}

type config struct {
	connect.Config
	prefix, namespace string
	timeout           time.Duration
	json              bool
}

func parse(args []string) (cfg config, err error) {
	fs := flag.NewFlagSet("check", flag.ContinueOnError)
	fs.Func("etcd-endpoints", "etcd's endpoints, such as http://127.0.0.1:2379; several with commas", func(s string) error {
		cfg.Endpoints = append(cfg.Endpoints, strings.Split(s, ",")...)
		return nil
	})
	fs.StringVar(&cfg.User, "etcd-user", "", "etcd user; the password is in $"+connect.PasswordVariable)
	fs.StringVar(&cfg.DataDir, "data-dir", "", "data directory that a worker with an embedded etcd serves now")
	fs.StringVar(&cfg.prefix, "prefix", "/holdfast", "what every key begins with")
	fs.StringVar(&cfg.namespace, "namespace", "default", "namespace of the executions")
	fs.DurationVar(&cfg.timeout, "timeout", time.Minute, "how long to wait for etcd")
	fs.BoolVar(&cfg.json, "json", false, "print the report as one JSON object")
	if err := fs.Parse(args); err != nil {
		return cfg, err
	}
	if fs.NArg() > 0 {
		return cfg, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if cfg.User != "" {
		cfg.Password = os.Getenv(connect.PasswordVariable)
	}
	return cfg, cfg.Validate()
}

// run checks the namespace that the arguments name, and prints what it found.
func run(ctx context.Context, args []string, out io.Writer) (report audit.Report, err error) {
	cfg, err := parse(args)
	if err != nil {
		return report, err
	}
	space, err := keyspace.New(cfg.prefix, cfg.namespace)
	if err != nil {
		return report, err
	}
	found, err := connect.Find(cfg.Config)
	if err != nil {
		return report, err
	}
	store, closeStore, err := etcdv3.Dial(etcdv3.DialConfig{Endpoints: found.Endpoints, Username: found.User, Password: found.Password})
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	ctx, cancel := context.WithTimeout(ctx, cfg.timeout)
	defer cancel()
	if report, err = audit.Check(ctx, store, space); err != nil {
		return report, err
	}
	if len(report.Keys) == 0 {
		return report, fmt.Errorf("namespace %q under the prefix %q is empty: nothing was checked", cfg.namespace, cfg.prefix)
	}
	if cfg.json {
		return report, json.NewEncoder(out).Encode(report)
	}
	return report, report.Print(out)
}
