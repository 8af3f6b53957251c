package stores

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// Config says where the stores are.
type Config struct {
	Store    etcd.Store         // required
	Space    keyspace.Space     // required
	Logger   *zap.Logger        // default: silent
	Observer execution.Observer // default: none

	// Wake asks for a delivery of an execution of the engine, of the incarnation that
	// the step names. Required. An [execution.ErrNotFound] means that there is nobody
	// to wake any more.
	Wake func(ctx context.Context, step execution.StepID) error

	// Jitter returns a part of the bound by which a pause is varied; required only by
	// who calls Run.
	Jitter func(bound time.Duration) time.Duration
}

// A Client acts on the stores of one namespace. It may be used by many goroutines
// at once.
type Client struct {
	cfg   Config
	turns turns
}

// New returns a client.
func New(cfg Config) (*Client, error) {
	if cfg.Store == nil || cfg.Space == (keyspace.Space{}) || cfg.Wake == nil {
		return nil, errors.New("stores: Store, Space and Wake are required")
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	if cfg.Jitter == nil {
		cfg.Jitter = func(bound time.Duration) time.Duration { return bound / 2 }
	}
	return &Client{cfg: cfg, turns: turns{slow: func(key execution.StoreID) {
		cfg.Logger.Warn("a call waits for its turn behind another one of this process for the same store; an updater that calls its own store waits for itself",
			zap.String("store", key.Name), zap.String("id", key.ID), zap.Duration("for", turnPatience))
	}}}, nil
}

// A Snapshot is a store at one version. It shares no memory with anything.
type Snapshot struct {
	State    []byte // JSON, byte for byte as it was written
	Instance string // lower-case hexadecimal digits and hyphens
	Version  int64  // 0 at the creation
}

// A Version names one version of one instance.
type Version struct {
	Instance string
	Version  int64
}

// At returns the snapshot's version.
func (s Snapshot) At() Version { return Version{s.Instance, s.Version} }

func snapshot(rec *record.Store) Snapshot {
	return Snapshot{State: append([]byte{}, rec.State...), Instance: rec.Instance, Version: rec.Version}
}

func storeKey(key execution.StoreID) keyspace.StoreKey {
	return keyspace.StoreKey{Name: key.Name, ID: key.ID}
}

func callKey(step execution.StepID) keyspace.CallKey {
	return keyspace.CallKey{ID: string(step.Execution), Incarnation: step.Incarnation, Run: step.Run, Step: step.Step}
}

// newInstance returns a random instance id, in the form of a UUID.
func newInstance() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// newNonce names one call.
func newNonce() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// validate refuses a bad store, and a bad step where there is one.
func validate(key execution.StoreID, step *execution.StepID) error {
	if err := key.Validate(); err != nil {
		return err
	}
	if step == nil {
		return nil
	}
	return step.Validate()
}

// maxCommitBytes bounds what one commit writes beside the keys: etcd takes 1.5 MiB
// in a request.
const maxCommitBytes = 1280 << 10

func describe(key execution.StoreID) string {
	return fmt.Sprintf("store %q with id %q", key.Name, key.ID)
}
