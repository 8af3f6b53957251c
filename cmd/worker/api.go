package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"go.uber.org/zap"

	"github.com/holdfast-io/holdfast/internal/connect"
	"github.com/holdfast-io/holdfast/internal/storeapi"
)

// A storeAPI is the store connector API of a worker: a listener that is there before
// all else, and that is answered once etcd is. Without a listener there is none.
type storeAPI struct{ listener net.Listener }

func listenAPI(address string) (storeAPI, error) {
	if address == "" {
		return storeAPI{}, nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return storeAPI{}, fmt.Errorf("--api-addr %s: %w", address, err)
	}
	return storeAPI{l}, nil
}

// close closes the listener, also of an API that was never served.
func (a storeAPI) close() {
	if a.listener != nil {
		_ = a.listener.Close()
	}
}

// serve answers until ctx ends.
func (a storeAPI) serve(ctx context.Context, e *connect.Etcd, log *zap.Logger) (err error) {
	if a.listener == nil {
		return nil
	}
	store, closeStore, err := e.Store(log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	namespaces, err := storeapi.NewNamespaces(storeapi.NamespacesConfig{Store: store, Prefix: keyPrefix, Logger: log, Observer: logEvents(log)})
	if err != nil {
		return err
	}
	api, err := storeapi.New(storeapi.Config{Namespaces: namespaces, Logger: log})
	if err != nil {
		return err
	}
	log.Info("store API listens", zap.String("url", "http://"+a.listener.Addr().String()))
	return storeapi.Serve(ctx, a.listener, api)
}
