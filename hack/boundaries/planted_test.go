package boundaries_test

import (
	"slices"
	"strings"
	"testing"
)

// legal is a module as it should be: each package that must exist, with each
// import that its rule allows.
func legal() []pack {
	var packs []pack
	for _, r := range rules {
		if !r.must {
			continue
		}
		p := pack{ImportPath: module + "/" + r.pkg, Imports: []string{"context", "encoding/json"}}
		if r.pkg == "." {
			p.ImportPath = module
		}
		for _, to := range r.own {
			switch to {
			case anything:
			case ".":
				p.Imports = append(p.Imports, module)
			default:
				p.Imports = append(p.Imports, module+"/"+to)
			}
		}
		for _, to := range r.others {
			if to != anything {
				p.Imports = append(p.Imports, to)
			}
		}
		packs = append(packs, p)
	}
	return packs
}

func TestCheckAcceptsWhatTheRulesAllow(t *testing.T) {
	t.Parallel()
	if found := check(rules, legal()); len(found) > 0 {
		t.Errorf("found %q", found)
	}
}

// TestCheckFindsAPlantedEdge plants each forbidden edge and wants it found.
func TestCheckFindsAPlantedEdge(t *testing.T) {
	t.Parallel()
	const (
		direct = iota
		through
		inTest
	)
	for name, c := range map[string]struct {
		from, to string
		how      int
	}{
		"keyspace uses a module":         {"internal/keyspace", zap, direct},
		"keyspace uses a domain word":    {"internal/keyspace", module + "/pkg/execution", direct},
		"execution uses keyspace":        {"pkg/execution", module + "/internal/keyspace", direct},
		"etcd's interface uses a client": {"internal/etcd", client + "/v3", direct},
		"record uses keyspace":           {"internal/record", module + "/internal/keyspace", direct},
		"fencing uses leasing":           {"pkg/fencing", module + "/pkg/leasing", direct},
		"leasing uses a client":          {"pkg/leasing", client + "/v3", direct},
		"leasing reaches a client":       {"pkg/leasing", client + "/v3", through},
		"leasing uses heap":              {"pkg/leasing", module + "/pkg/heap", direct},
		"heap uses leasing":              {"pkg/heap", module + "/pkg/leasing", direct},
		"heap reaches leasing":           {"pkg/heap", module + "/pkg/leasing", through},
		"dispatch uses leasing":          {"pkg/dispatch", module + "/pkg/leasing", direct},
		"dispatch uses etcd":             {"pkg/dispatch", module + "/internal/etcd", direct},
		"dispatch reaches a client":      {"pkg/dispatch", client + "/v3", through},
		"leasing uses embedded etcd":     {"pkg/leasing", module + "/pkg/embedded", direct},
		"the door uses embedded etcd":    {".", module + "/pkg/embedded", direct},
		"the door reaches a server":      {".", etcdServer + "/v3/embed", through},
		"the door reaches Prometheus":    {".", prometheus + "/client_golang/prometheus", through},
		"the door reaches cobra":         {".", cobra, through},
		"embedded uses the door":         {"pkg/embedded", module, direct},
		"audit uses the engine":          {"internal/audit", module + "/pkg/leasing", direct},
		"the suite uses the engine":      {"integration/conformance", module + "/pkg/leasing", direct},
		"leasing uses a suite":           {"pkg/leasing", module + "/integration/conformance", direct},
		"a test of heap uses a suite":    {"pkg/heap", module + "/integration/conformance", inTest},
		"a test of the door uses hack":   {".", module + "/hack/check", inTest},
		"record uses the command":        {"internal/record", module + "/cmd/worker", direct},
		"leasing uses the tests' etcd":   {"pkg/leasing", module + "/internal/testetcd", direct},
		"a package without a rule":       {"pkg/utils", "strings", direct},
		"an inner package without one":   {"pkg/heap/inner", "strings", direct},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			packs := legal()
			i := slices.IndexFunc(packs, func(p pack) bool { return relative(p.ImportPath) == c.from })
			if i < 0 {
				i, packs = len(packs), append(packs, pack{ImportPath: module + "/" + c.from})
			}
			switch c.how {
			case direct:
				packs[i].Imports = append(packs[i].Imports, c.to)
			case through:
				packs[i].Deps = append(packs[i].Deps, c.to)
			case inTest:
				packs[i].XTestImports = append(packs[i].XTestImports, c.to)
			}
			found := check(rules, packs)
			if len(found) == 0 {
				t.Fatal("not found")
			}
			for _, v := range found {
				if !strings.HasPrefix(v, c.from) {
					t.Errorf("found %q", v)
				}
			}
		})
	}
}

func TestCheckFindsAMissingPackage(t *testing.T) {
	t.Parallel()
	packs := legal()
	for i, p := range packs {
		found := check(rules, slices.Delete(slices.Clone(packs), i, i+1))
		want := "package " + relative(p.ImportPath) + " is missing"
		if !slices.Equal(found, []string{want}) {
			t.Errorf("found %q, want %q", found, want)
		}
	}
}

// Suites, commands and scripts may look in from outside.
func TestCheckAcceptsOuterPackages(t *testing.T) {
	t.Parallel()
	packs := append(legal(),
		pack{ImportPath: module + "/integration/faults", XTestImports: []string{module + "/integration/conformance", module + "/pkg/leasing"}},
		pack{ImportPath: module + "/hack/check", Imports: []string{module + "/internal/audit", cobra}},
		pack{ImportPath: module + "/examples/shop", Imports: []string{module}},
	)
	if found := check(rules, packs); len(found) > 0 {
		t.Errorf("found %q", found)
	}
}
