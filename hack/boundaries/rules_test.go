package boundaries_test

// module is the path of this module.
const module = "github.com/holdfast-io/holdfast"

// A rule says what the non-test files of a package may import. A package without
// a rule of its own is a violation: it gets its row when it comes.
type rule struct {
	pkg string // relative to the module; "." is the root; "x/..." is everything under x

	// own are the packages of this module that it may import.
	own []string

	// others are the modules that it may import, as path prefixes. The standard
	// library is always allowed.
	others []string

	// never are path prefixes that it may not reach through any other package.
	never []string

	// must says that the package exists: one that was moved takes its rule along.
	must bool

	why string
}

// anything allows every package.
const anything = "..."

// The modules that rules name.
const (
	zap        = "go.uber.org/zap"
	xsync      = "golang.org/x/sync"
	xnet       = "golang.org/x/net"
	grpc       = "google.golang.org/grpc"
	etcdModule = "go.etcd.io/etcd"
	client     = etcdModule + "/client"
	etcdServer = etcdModule + "/server"
	prometheus = "github.com/prometheus"
	cobra      = "github.com/spf13/cobra"
)

var rules = []rule{
	{
		pkg: "internal/keyspace", must: true,
		why: "every key is built, parsed, ordered and documented in a leaf that nothing can bend",
	},
	{
		pkg: "pkg/execution", must: true,
		why: "the domain's words are a leaf, so that everybody can speak them",
	},
	{
		pkg: "internal/etcd", must: true,
		why: "the engine's view of etcd has operation types of its own, so that it runs without a client too",
	},
	{
		pkg: "internal/record", must: true,
		own: []string{"pkg/execution"},
		why: "what keys hold is a format, independent of how it is stored",
	},
	{
		pkg: "pkg/fencing", must: true,
		own: []string{"pkg/execution", "internal/keyspace", "internal/etcd", "internal/record"},
		why: "the compare that guards a write is in one place, below everybody who writes",
	},
	{
		pkg: "pkg/leasing", must: true,
		own:    []string{"pkg/execution", "pkg/fencing", "internal/keyspace", "internal/etcd", "internal/record"},
		others: []string{zap, xsync},
		never:  []string{etcdModule, prometheus},
		why:    "it uses etcd through internal/etcd alone",
	},
	{
		pkg: "pkg/heap", must: true,
		own:   []string{"pkg/execution", "pkg/fencing", "internal/keyspace", "internal/etcd", "internal/record"},
		never: []string{module + "/pkg/leasing", etcdModule, prometheus},
		why:   "a step needs a token, not a pool of leases",
	},
	{
		pkg: "pkg/dispatch", must: true,
		own:    []string{"pkg/execution"},
		others: []string{zap, xsync},
		never:  []string{etcdModule, grpc, prometheus},
		why:    "the loop sees leases and steps through interfaces that it declares",
	},
	{
		pkg: "internal/replay", must: true, own: []string{"pkg/execution"},
		why: "what packages beside the door may ask of a delivery, without the door itself",
	},
	{
		pkg: "internal/stores", must: true,
		own:    []string{"pkg/execution", "pkg/fencing", "internal/keyspace", "internal/etcd", "internal/record"},
		others: []string{zap, xsync},
		never:  []string{module + "/pkg/leasing", etcdModule, prometheus},
		why:    "stores wake executions through a function, and know nothing of leases",
	},
	{
		pkg: "pkg/store", must: true,
		own:   []string{"pkg/execution", "internal/replay", "internal/stores"},
		never: []string{module + "/pkg/leasing", etcdModule, prometheus},
		why:   "stores with types are for whoever uses the door, so the door imports them",
	},
	{
		pkg: "internal/canonical", must: true,
		why: "what documents are equal, and what of them is no text, is decided in one place",
	},
	{
		pkg: "pkg/start", must: true,
		own: []string{
			"pkg/execution", "pkg/fencing", "pkg/leasing", "internal/canonical", "internal/etcd", "internal/keyspace", "internal/record",
		},
		never: []string{etcdModule, prometheus},
		why:   "a start is an admission with a receipt beside it",
	},
	{
		pkg: "pkg/event", must: true,
		own:   []string{"pkg/execution", "pkg/leasing", "internal/etcd", "internal/keyspace", "internal/record"},
		never: []string{etcdModule, prometheus},
		why:   "an event is put beside a request for a wake",
	},
	{
		pkg: "pkg/effect", must: true,
		own: []string{
			"pkg/execution", "pkg/fencing", "pkg/store", "internal/canonical", "internal/replay", "internal/stores",
		},
		never: []string{module + "/pkg/leasing", etcdModule, prometheus},
		why:   "effects are stores, used as any author uses those",
	},
	{
		pkg: "pkg/fencesql", must: true, own: []string{"pkg/execution"},
		why: "who guards rows, or checks tokens, links neither the door nor etcd nor a driver",
	},
	{
		pkg: "pkg/fencehttp", must: true, own: []string{"pkg/execution", "pkg/fencesql"},
		why: "a service that refuses late requests links neither the door nor etcd nor a driver",
	},
	{
		pkg: "internal/storeapi", must: true,
		own:    []string{"pkg/execution", "pkg/fencing", "pkg/leasing", "internal/canonical", "internal/etcd", "internal/keyspace", "internal/stores"},
		others: []string{zap, xsync, xnet},
		never:  []string{etcdServer, prometheus, cobra},
		why:    "the stores over HTTP need etcd and no worker",
	},
	{
		pkg: "pkg/embedded", must: true,
		others: []string{etcdModule, zap, grpc},
		why:    "an etcd server in the process stands alone: whoever wants it links it",
	},
	{
		pkg: ".", must: true,
		own: []string{
			"pkg/execution", "pkg/leasing", "pkg/heap", "pkg/dispatch", "pkg/event", "pkg/start", "pkg/store",
			"internal/replay", "internal/stores", "internal/door", "internal/etcd", "internal/etcdv3", "internal/keyspace",
		},
		others: []string{zap, xsync, client},
		never:  []string{etcdServer, prometheus, cobra, module + "/internal/memetcd"},
		why:    "the door costs its user a client, not a server and not a metrics library",
	},
	{
		pkg: "internal/door", must: true, own: []string{"internal/etcd"},
		why: "what the door lets be replaced are types alone, so that it costs nobody anything",
	},
	{
		pkg: "holdfasttest", must: true,
		own: []string{
			".", "pkg/execution", "internal/audit", "internal/door", "internal/etcd", "internal/keyspace", "internal/memetcd",
		},
		others: []string{zap},
		never:  []string{etcdServer, prometheus, cobra},
		why:    "users' tests run the door itself, on the etcd in memory",
	},
	{
		pkg: "internal/etcdv3", must: true,
		own:    []string{"internal/etcd"},
		others: []string{client, etcdModule + "/api", grpc, zap},
		never:  []string{etcdServer, prometheus},
		why:    "the real client behind internal/etcd",
	},
	{
		pkg: "internal/memetcd", must: true, own: []string{"internal/etcd"},
		why: "an etcd in memory shares nothing with the real client but the interface",
	},
	{
		pkg: "internal/simulate", must: true,
		own: []string{
			"pkg/execution", "pkg/leasing", "pkg/heap", "pkg/dispatch", "pkg/fencing", "internal/audit", "internal/etcd",
			"internal/keyspace", "internal/memetcd", "internal/record",
		},
		why: "a simulation runs the engine itself, on the etcd in memory",
	},
	{
		pkg: "internal/audit", must: true,
		own: []string{"pkg/execution", "internal/keyspace", "internal/etcd", "internal/record"},
		why: "what checks the engine shares none of its code, only the format",
	},
	{
		pkg:    "internal/testetcd",
		own:    []string{"pkg/embedded", "internal/etcd", "internal/etcdv3", "internal/keyspace"},
		others: []string{client, zap, "go.uber.org/goleak"},
		why:    "etcd for tests; only tests import it",
	},
	{
		pkg: "internal/process",
		why: "processes as the demo and the tests start, freeze and kill them",
	},
	{
		pkg: "internal/shop",
		own: []string{".", "pkg/execution", "internal/canonical"}, others: []string{xsync},
		why: "the shop's workflows use the door, as any user does",
	},
	{
		pkg: "internal/connect",
		own: []string{".", "pkg/embedded", "internal/etcd", "internal/etcdv3"}, others: []string{zap, client},
		why: "a command's way to an etcd, embedded or not",
	},
	{
		pkg: "internal/demo",
		own: []string{
			".", "pkg/execution", "pkg/embedded", "internal/audit", "internal/connect", "internal/etcd",
			"internal/etcdv3", "internal/keyspace", "internal/process", "internal/record", "internal/shop",
		},
		others: []string{zap, xsync, client},
		never:  []string{cobra},
		why:    "the demo watches every revision itself and believes nobody",
	},
	{
		pkg: "integration/conformance", must: true,
		own: []string{"pkg/execution"},
		why: "the suite says what a caller sees, so that another engine could run it",
	},
	{pkg: "cmd/worker", must: true, own: []string{anything}, others: []string{anything}, why: "wiring"},
	{pkg: "integration/...", own: []string{anything}, others: []string{anything}, why: "suites"},
	{pkg: "examples/...", own: []string{anything}, others: []string{anything}, why: "examples"},
	{pkg: "hack/...", own: []string{anything}, others: []string{anything}, why: "tools of this repository"},
}

// outer are the packages that no other part of the module imports, not even its
// tests; those of outer itself may.
var outer = []string{"integration", "hack", "cmd", "tools"}

// testOnly are the packages that only tests import.
var testOnly = []string{"internal/testetcd", "integration/conformance"}
