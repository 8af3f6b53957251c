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

	"go.uber.org/zap"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/pkg/embedded"
)

// EndpointFile is the file in a data directory in which the process that serves it
// leaves the address of its etcd, for as long as it runs.
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
}

// Validate refuses a configuration that names no etcd, or two.
func (c Config) Validate() error {
	secured := c.CA != "" || c.Cert != "" || c.Key != "" || c.User != ""
	switch {
	case len(c.Endpoints) == 0 && c.DataDir == "":
		return errors.New("where is etcd? Give --etcd-endpoints for a cluster or --data-dir for an embedded etcd")
	case len(c.Endpoints) > 0 && c.DataDir != "":
		return errors.New("--etcd-endpoints and --data-dir exclude each other: give one of them")
	case c.DataDir != "" && secured:
		return errors.New("--etcd-ca, --etcd-cert, --etcd-key and --etcd-user go with --etcd-endpoints, not with --data-dir")
	case (c.Cert == "") != (c.Key == ""):
		return errors.New("--etcd-cert and --etcd-key go together: give both")
	case c.User != "" && c.Password == "":
		return fmt.Errorf("--etcd-user %q has no password: set the environment variable %s", c.User, PasswordVariable)
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
	close   func() error
}

// Close ends an etcd that is embedded in this process; others stay as they are.
func (e *Etcd) Close() error { return e.close() }

// Find returns the etcd of a command that only talks to it. With a data directory
// it is the one of the process that serves the directory now.
func Find(cfg Config) (*Etcd, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.DataDir == "" {
		return cluster(cfg)
	}
	path := filepath.Join(cfg.DataDir, EndpointFile)
	endpoint, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("data directory %s: no process serves it now; start one with: worker run --data-dir %s", cfg.DataDir, cfg.DataDir)
	}
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", cfg.DataDir, err)
	}
	return cluster(Config{Endpoints: []string{strings.TrimSpace(string(endpoint))}})
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
	server, err := embedded.Start(ctx, embedded.Config{Dir: cfg.DataDir, Logger: logger})
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
		Options: []holdfast.Option{holdfast.Endpoints(cfg.Endpoints...)},
		Where:   strings.Join(cfg.Endpoints, ", "),
		close:   func() error { return nil },
	}
	if cfg.User != "" {
		e.Options = append(e.Options, holdfast.Login(cfg.User, cfg.Password))
	}
	if cfg.CA == "" && cfg.Cert == "" {
		return e, nil
	}
	config, err := secure(cfg)
	if err != nil {
		return nil, err
	}
	e.Options = append(e.Options, holdfast.TLS(config))
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
