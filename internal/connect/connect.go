// Package connect finds the etcd that a command was told to use: a cluster, an etcd
// embedded in this process, or one that another process has embedded and left the
// address of.
package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/etcdv3"
	"github.com/holdfast-io/holdfast/pkg/embedded"
)

// EndpointFile is the file in a data directory in which the process that serves it
// leaves the address of its etcd, for people and for etcd's own tools, until it ends.
// One that was killed leaves it behind: [Find] asks [embedded.Serving] instead.
const EndpointFile = "etcd.endpoint"

// PasswordVariable is the environment variable that holds the password of the etcd
// user: a flag could be read by everybody on the machine.
const PasswordVariable = "HOLDFAST_ETCD_PASSWORD"

// A Config says where etcd is: at Endpoints, or in DataDir.
type Config struct {
	Endpoints []string

	// For Endpoints only. CA, Cert and Key are files in PEM form.
	CA, Cert, Key  string
	User, Password string

	DataDir string

	// Listen is where an etcd that [Serve] embeds listens. Default: a free port of
	// this machine, if possible the one before.
	Listen string
}

// startTimeout bounds the start of an embedded etcd. One whose data is whole takes a
// second, and some more where it was not stopped and has a long log to read again.
const startTimeout = time.Minute

// Validate refuses a configuration that names no etcd, or two.
func (c Config) Validate() error {
	secured := c.CA != "" || c.Cert != "" || c.Key != "" || c.User != ""
	switch {
	case len(c.Endpoints) == 0 && c.DataDir == "":
		return errors.New("where is etcd? Give --etcd-endpoints for a cluster or --data-dir for an embedded etcd")
	case len(c.Endpoints) > 0 && c.DataDir != "":
		return errors.New("--etcd-endpoints and --data-dir exclude each other: give one of them")
	case c.DataDir == "" && c.Listen != "":
		return fmt.Errorf("--listen %s goes with --data-dir: it is where an embedded etcd listens", c.Listen)
	case c.DataDir != "" && secured:
		return errors.New("--etcd-ca, --etcd-cert, --etcd-key and --etcd-user go with --etcd-endpoints, not with --data-dir")
	case (c.Cert == "") != (c.Key == ""):
		return errors.New("--etcd-cert and --etcd-key go together: give both")
	case c.User != "" && c.Password == "":
		return fmt.Errorf("--etcd-user %q has no password: set the environment variable %s", c.User, PasswordVariable)
	}
	if c.DataDir != "" {
		return embedded.Config{Dir: c.DataDir, Listen: c.Listen}.Validate()
	}
	for _, e := range c.Endpoints {
		if strings.TrimSpace(e) == "" {
			return fmt.Errorf("--etcd-endpoints %q: an endpoint is empty", strings.Join(c.Endpoints, ","))
		}
	}
	return nil
}

// An Etcd is an etcd that was found.
type Etcd struct {
	Options []holdfast.Option // for holdfast.Open
	Where   string            // for messages

	// What the options say, of an etcd that is not embedded in this process.
	Endpoints      []string
	TLS            *tls.Config
	User, Password string

	client *clientv3.Client // of one that is embedded in this process
	close  func() error
}

// Close ends an etcd that is embedded in this process; others stay as they are.
func (e *Etcd) Close() error { return e.close() }

// Store returns the etcd as the engine uses it, for what a client of one namespace does
// not offer, and what closes its connections; call that before Close. It connects in
// the background. A nil logger is silent.
func (e *Etcd) Store(logger *zap.Logger) (etcd.Store, func() error, error) {
	if e.client != nil {
		return etcdv3.New(e.client, e.client), func() error { return nil }, nil
	}
	return etcdv3.Dial(etcdv3.DialConfig{
		Endpoints: e.Endpoints, TLS: e.TLS, Username: e.User, Password: e.Password, Logger: logger,
	})
}

// Find returns the etcd of a command that only talks to it. With a data directory
// it is the one of the process that serves the directory now.
func Find(cfg Config) (*Etcd, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.DataDir == "" {
		return cluster(cfg)
	}
	endpoint, err := embedded.Serving(cfg.DataDir)
	if errors.Is(err, embedded.ErrNotServed) {
		return nil, fmt.Errorf("%w; start one with: worker run --data-dir %s", err, cfg.DataDir)
	}
	if err != nil {
		return nil, err
	}
	return cluster(Config{Endpoints: []string{endpoint}})
}

// Serve returns the etcd of a worker. With a data directory it is embedded in this
// process, and its address is left in the directory for [Find] until it is closed.
func Serve(ctx context.Context, cfg Config, logger *zap.Logger) (*Etcd, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.DataDir == "" {
		return cluster(cfg)
	}
	starting, cancel := context.WithTimeoutCause(ctx, startTimeout,
		fmt.Errorf("it is not up after %v; if its log above says nothing, the data is damaged: restore it from a copy, or move it away to begin anew", startTimeout))
	defer cancel()
	server, err := embedded.Start(starting, embedded.Config{Dir: cfg.DataDir, Listen: cfg.Listen, Logger: logger})
	if err != nil {
		return nil, err
	}
	path := filepath.Join(cfg.DataDir, EndpointFile)
	if err := writeFile(path, server.Endpoint()+"\n"); err != nil {
		return nil, errors.Join(fmt.Errorf("data directory %s: %w", cfg.DataDir, err), server.Close())
	}
	return &Etcd{
		Options: []holdfast.Option{holdfast.Etcd(server.Client())},
		Where:   fmt.Sprintf("embedded in this process, %s, data in %s", server.Endpoint(), cfg.DataDir),
		client:  server.Client(),
		close:   func() error { return errors.Join(remove(path), server.Close()) },
	}, nil
}

// writeFile replaces a file as a whole.
func writeFile(path, content string) error {
	next := path + ".new"
	if err := os.WriteFile(next, []byte(content), 0o600); err != nil {
		return err
	}
	return os.Rename(next, path)
}

func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func cluster(cfg Config) (*Etcd, error) {
	e := &Etcd{
		Options:   []holdfast.Option{holdfast.Endpoints(cfg.Endpoints...)},
		Where:     strings.Join(cfg.Endpoints, ", "),
		Endpoints: cfg.Endpoints, User: cfg.User, Password: cfg.Password,
		close: func() error { return nil },
	}
	if cfg.User != "" {
		e.Options = append(e.Options, holdfast.Login(cfg.User, cfg.Password))
	}
	if cfg.CA == "" && cfg.Cert == "" {
		return e, nil
	}
	var err error
	if e.TLS, err = secure(cfg); err != nil {
		return nil, err
	}
	e.Options = append(e.Options, holdfast.TLS(e.TLS))
	return e, nil
}

func secure(cfg Config) (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if cfg.CA != "" {
		pem, err := os.ReadFile(cfg.CA)
		if err != nil {
			return nil, fmt.Errorf("etcd's certificate authority: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("etcd's certificate authority: %s holds no certificate in PEM form", cfg.CA)
		}
	}
	if cfg.Cert != "" {
		pair, err := tls.LoadX509KeyPair(cfg.Cert, cfg.Key)
		if err != nil {
			return nil, fmt.Errorf("certificate for etcd: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}
