package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/internal/connect"
)

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
	return f.Config, f.Validate()
}

// client opens the etcd that the flags name, for a command that only talks to it.
func (f *etcdFlags) client(cmd *cobra.Command) (*holdfast.Client, error) {
	cfg, err := f.config()
	if err != nil {
		return nil, err
	}
	e, err := connect.Find(cfg)
	if err != nil {
		return nil, failed(err)
	}
	c, err := holdfast.Open(cmd.Context(), append(e.Options, holdfast.Namespace(f.namespace))...)
	return c, failed(err)
}
