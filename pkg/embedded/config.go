package embedded

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// DefaultListen is a free port that only this machine reaches.
const DefaultListen = "127.0.0.1:0"

// DefaultQuotaBytes is the most that etcd advises.
const DefaultQuotaBytes = 8 << 30

// What differs from an etcd with default flags.
const (
	// Alone, a member needs no patience with a network: it leads, and serves, in
	// less than a second after its start, and grants etcd leases of 1 s.
	heartbeatMillis = 50
	electionMillis  = 500

	// History is kept 5 to 10 minutes. Compaction is off by default, and at full
	// speed an hour of history would fill the quota. The library reads no old
	// revision but those of a read in pages, and of a watch that has to resume.
	compactionRetention = "5m"

	// Entries of the log that are kept in memory, each as large as its request.
	// None is for a slow follower: there is none.
	snapshotCount  = 5000
	catchUpEntries = 100

	// Etcd warns of slower requests. Its own 100 ms are the jitter of a laptop's disk.
	slowRequest = time.Second
)

// Config says where the etcd keeps its data and where it listens.
type Config struct {
	// Dir is the data directory, made if it is absent. Required. One process at a
	// time uses it.
	Dir string

	// Listen is where other processes reach the etcd: "host:port" with an IP
	// address or localhost; port 0 is any free one, and the one that the directory
	// was served at before if that is free: clients that still look for it there find
	// it again. Without authentication: who reaches it may read and write everything.
	// Default DefaultListen.
	Listen string

	// NoFsync leaves it to the operating system when data reaches the disk. Faster,
	// and a crash of the machine may lose or corrupt what was acknowledged.
	NoFsync bool

	// Logger gets etcd's warnings and errors: of lines with the same message 10 a second,
	// and how many were left out. Default: none.
	Logger *zap.Logger

	// QuotaBytes bounds the size of the data; etcd then refuses writes. Default
	// DefaultQuotaBytes. Not negative.
	QuotaBytes int64
}

// withDefaults returns a checked copy.
func (c Config) withDefaults() (Config, error) {
	if c.Dir == "" {
		return c, errors.New("embedded etcd: no data directory is given")
	}
	if c.QuotaBytes < 0 {
		return c, fmt.Errorf("embedded etcd: quota of %d bytes: want 0 for the default, or more", c.QuotaBytes)
	}
	if c.QuotaBytes == 0 {
		c.QuotaBytes = DefaultQuotaBytes
	}
	if c.Listen == "" {
		c.Listen = DefaultListen
	}
	if err := checkListen(c.Listen); err != nil {
		return c, err
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	return c, nil
}

// Validate says what is wrong with the configuration, as [Start] would.
func (c Config) Validate() error {
	_, err := c.withDefaults()
	return err
}

// prefer returns the address to listen on: for any free port the one of the endpoint,
// if that is free.
func prefer(listen, endpoint string) string {
	host, port, err := net.SplitHostPort(listen)
	u, badURL := url.Parse(endpoint)
	if err != nil || badURL != nil || port != "0" || u.Port() == "" {
		return listen
	}
	again := net.JoinHostPort(host, u.Port())
	l, err := net.Listen("tcp", again)
	if err != nil {
		return listen
	}
	if l.Close() != nil {
		return listen
	}
	return again
}

func checkListen(listen string) error {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || (host != "localhost" && net.ParseIP(host) == nil) {
		return fmt.Errorf("embedded etcd: listen address %q: want an IP address or localhost, and a port, like %q", listen, "127.0.0.1:2379")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("embedded etcd: listen address %q: port %q is not a number from 0 to 65535", listen, port)
	}
	return nil
}

// etcdConfig returns etcd's own configuration. The advertised URLs go into the
// member list, which nobody reads of a single member: they may name port 0, and
// be others at the next start.
func (c Config) etcdConfig(logger *zap.Logger, gate *gate) *embed.Config {
	cfg := embed.NewConfig()
	cfg.Name = "holdfast"
	cfg.Dir = filepath.Join(c.Dir, dataName)
	client := url.URL{Scheme: "http", Host: c.Listen}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	// Not a unix socket, whose path in a deep data directory would be too long.
	peer := url.URL{Scheme: "http", Host: DefaultListen}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)

	cfg.TickMs, cfg.ElectionMs = heartbeatMillis, electionMillis
	cfg.QuotaBackendBytes = c.QuotaBytes
	cfg.AutoCompactionMode, cfg.AutoCompactionRetention = embed.CompactorModePeriodic, compactionRetention
	cfg.SnapshotCount, cfg.SnapshotCatchUpEntries = snapshotCount, catchUpEntries
	cfg.UnsafeNoFsync = c.NoFsync
	cfg.EnableGRPCGateway = false // it would dial port 0

	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(logger)
	cfg.WarningApplyDuration, cfg.WarningUnaryRequestDuration = slowRequest, slowRequest
	cfg.GRPCAdditionalServerOptions = gate.options()
	return cfg
}
