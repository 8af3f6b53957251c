package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/internal/connect"
	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// keyPrefix is the default one of holdfast.Open.
const keyPrefix = "/holdfast"

// etcdFlags say where etcd is and which namespace is meant.
type etcdFlags struct {
	connect.Config
	namespace string
}

func (f *etcdFlags) register(cmd *cobra.Command, dataDir string) {
	fs := cmd.Flags()
	fs.StringSliceVar(&f.Endpoints, "etcd-endpoints", nil, "etcd's endpoints, such as http://127.0.0.1:2379; several with commas")
	fs.StringVar(&f.CA, "etcd-ca", "", "certificate authority of etcd (PEM file)")
	fs.StringVar(&f.Cert, "etcd-cert", "", "certificate to show etcd (PEM file)")
	fs.StringVar(&f.Key, "etcd-key", "", "key of the certificate (PEM file)")
	fs.StringVar(&f.User, "etcd-user", "", "etcd user; the password is in $"+connect.PasswordVariable)
	fs.StringVar(&f.DataDir, "data-dir", "", dataDir)
	fs.StringVar(&f.namespace, "namespace", "default", "namespace of the executions")
}

// config returns where etcd is, or why the flags don't say.
func (f *etcdFlags) config() (connect.Config, error) {
	if f.User != "" {
		f.Password = os.Getenv(connect.PasswordVariable)
	}
	if _, err := keyspace.New(keyPrefix, f.namespace); err != nil {
		return f.Config, fmt.Errorf("--namespace: %w", err)
	}
	return f.Config, f.Validate()
}

// found returns the etcd that the flags name, for a command that only talks to it.
func (f *etcdFlags) found(cmd *cobra.Command) (*connect.Etcd, error) {
	if err := refuseZero(cmd); err != nil {
		return nil, err
	}
	cfg, err := f.config()
	if err != nil {
		return nil, err
	}
	e, err := connect.Find(cfg)
	return e, failed(err)
}

// open opens the namespace, and makes it if it is not there.
func (f *etcdFlags) open(cmd *cobra.Command, e *connect.Etcd, more ...holdfast.Option) (*holdfast.Client, error) {
	options := append(slices.Clip(e.Options), holdfast.Namespace(f.namespace))
	c, err := holdfast.Open(cmd.Context(), append(options, more...)...)
	return c, failed(err)
}

// openIfThere opens the namespace for a command that only reads: nothing is written
// where nothing is. Then the client is nil.
func (f *etcdFlags) openIfThere(cmd *cobra.Command, more ...holdfast.Option) (*holdfast.Client, error) {
	e, err := f.found(cmd)
	if err != nil {
		return nil, err
	}
	there, err := f.exists(cmd.Context(), e)
	if err != nil || !there {
		return nil, failed(err)
	}
	return f.open(cmd, e, more...)
}

// openFor opens the namespace for a command that does something to one execution, which
// is not found where nothing is.
func (f *etcdFlags) openFor(cmd *cobra.Command, op, id string) (*holdfast.Client, error) {
	if err := execution.ID(id).Validate(); err != nil {
		return nil, err
	}
	client, err := f.openIfThere(cmd)
	if err == nil && client == nil {
		err = failed(fmt.Errorf("%s %q: %w: namespace %q is empty", op, id, execution.ErrNotFound, f.namespace))
	}
	return client, err
}

// lookTimeout bounds the look at a namespace.
const lookTimeout = 10 * time.Second

// exists says whether the namespace holds any key.
func (f *etcdFlags) exists(ctx context.Context, e *connect.Etcd) (there bool, err error) {
	space, err := keyspace.New(keyPrefix, f.namespace)
	if err != nil {
		return false, err
	}
	store, closeStore, err := e.Store(nil)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	all := space.All()
	res, _, err := store.Get(ctx, etcd.Get{Key: all.Start, End: all.End, Limit: 1, KeysOnly: true})
	if err != nil {
		return false, fmt.Errorf("etcd did not answer at %s: %w", e.Where, err)
	}
	return len(res.KVs) > 0, nil
}
