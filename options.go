package holdfast

import (
	"crypto/tls"
	"log/slog"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/holdfast-io/holdfast/internal/door"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/leasing"
)

// An Option configures [Open].
type Option func(*clientConfig)

type clientConfig struct {
	endpoints      []string
	client         *clientv3.Client
	namespace      string
	prefix         string
	tls            *tls.Config
	user, password string
	logger         *zap.Logger
	observer       execution.Observer
	delay          leasing.DelayPolicy
	door           door.Config
}

// Endpoints says at which addresses etcd is, as "host:port" or URLs.
func Endpoints(endpoints ...string) Option {
	return func(c *clientConfig) { c.endpoints = append(c.endpoints, endpoints...) }
}

// Etcd makes Open use a client that exists, such as the in-process one of an
// embedded etcd. It stays its owner's to close, and renewals share its
// connection with all else.
func Etcd(client *clientv3.Client) Option {
	return func(c *clientConfig) { c.client = client }
}

// Namespace chooses the namespace, whose executions are apart from every other's:
// 1 to 128 bytes of UTF-8 without NUL; default "default".
func Namespace(name string) Option {
	return func(c *clientConfig) { c.namespace = name }
}

// Prefix is what every key begins with; default "/holdfast".
func Prefix(prefix string) Option {
	return func(c *clientConfig) { c.prefix = prefix }
}

// TLS configures the connections to etcd; default: none for "http" endpoints.
func TLS(config *tls.Config) Option {
	return func(c *clientConfig) { c.tls = config }
}

// Login is the user that etcd authenticates.
func Login(user, password string) Option {
	return func(c *clientConfig) { c.user, c.password = user, password }
}

// Logger takes the log; default: silence.
func Logger(logger *zap.Logger) Option {
	return func(c *clientConfig) {
		if logger != nil {
			c.logger = logger
		}
	}
}

// Slog takes the log as [Logger] does, in a program that uses log/slog.
func Slog(handler slog.Handler) Option {
	return func(c *clientConfig) {
		if handler != nil {
			c.logger = zap.New(&slogCore{handler: handler})
		}
	}
}

// Observe has the observer told what the engine does, for metrics.
func Observe(observer execution.Observer) Option {
	return func(c *clientConfig) { c.observer = observer }
}

// RedeliveryDelay sets how long an execution waits after a delivery that ended
// without an acknowledgement: base after the first one, each time twice as long,
// never longer than limit. Default: 1 s, 5 min. base must be at least 1 ms.
func RedeliveryDelay(base, limit time.Duration) Option {
	return func(c *clientConfig) { c.delay = leasing.DelayPolicy{Base: base, Cap: limit} }
}

// Internal is for the other packages of this module, since nobody else can name what
// it takes: by it the package holdfasttest puts clients onto an etcd in memory. The
// store that it gives goes before [Endpoints] and [Etcd].
func Internal(parts door.Config) Option {
	return func(c *clientConfig) { c.door = parts }
}
