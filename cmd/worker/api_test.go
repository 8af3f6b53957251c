package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// A caller is a client of the store API that knows of it what its description says.
type caller struct {
	t    *testing.T
	http *http.Client
	url  string // with the namespace
}

// serveAPI starts a worker with the store API, and returns a caller of a namespace.
func serveAPI(t *testing.T, namespace string, args ...string) (*program, *caller) {
	t.Helper()
	p := start(t, apiArgs(args...)...)
	return p, callerOf(t, p, namespace)
}

func apiArgs(args ...string) []string {
	return append([]string{"run", "--api-addr=127.0.0.1:0", "--provider=http://127.0.0.1:1"}, args...)
}

// callerOf returns a caller of a namespace, once the worker serves the store API.
func callerOf(t *testing.T, p *program, namespace string) *caller {
	t.Helper()
	line := p.await(t, "store API listens")
	_, url, _ := strings.Cut(line, `"url": "`)
	url, _, _ = strings.Cut(url, `"`)
	c := &caller{t, &http.Client{Timeout: patience}, url + "/v1/ns/" + namespace + "/"}
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}

// address returns where the API listens.
func (c *caller) address() string {
	address, _, _ := strings.Cut(strings.TrimPrefix(c.url, "http://"), "/")
	return address
}

// post sends a request and returns its answer, or an error where none came.
func (c *caller) post(op, body string, wrote func()) (status int, answer string, err error) {
	ctx := c.t.Context()
	if wrote != nil {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { wrote() }})
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+op, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	return res.StatusCode, strings.TrimSuffix(string(raw), "\n"), err
}

// ok sends a request that must succeed.
func (c *caller) ok(op, body string) string {
	c.t.Helper()
	status, answer, err := c.post(op, body, nil)
	if err != nil || status != http.StatusOK {
		c.t.Errorf("%s %s: status %d, %s, %v", op, body, status, answer, err)
	}
	return answer
}

// expect sends a request and checks its whole answer.
func (c *caller) expect(want, op, body string) {
	c.t.Helper()
	if got := c.ok(op, body); got != want {
		c.t.Errorf("%s %s\n got %s\nwant %s", op, body, got, want)
	}
}

// refused sends a request that must fail with the status and the code.
func (c *caller) refused(want int, code, op, body string) {
	c.t.Helper()
	status, answer, err := c.post(op, body, nil)
	if err != nil || status != want || !strings.HasPrefix(answer, `{"error":{"code":"`+code+`","message":"`) {
		c.t.Errorf("%s %.100s: status %d, %s, %v; want %d %s", op, body, status, answer, err, want, code)
	}
}

// A version is what answers say of a store.
type version struct {
	InstanceID string `json:"instanceId"`
	Version    int64  `json:"version"`
}

func (v version) String() string {
	return fmt.Sprintf(`{"instanceId":%q,"version":%d}`, v.InstanceID, v.Version)
}

func (c *caller) version(key string) (v version) {
	c.t.Helper()
	if err := json.Unmarshal([]byte(c.ok("getStore", `{`+key+`}`)), &v); err != nil {
		c.t.Error(err)
	}
	return v
}

func (c *caller) wakes() (ids, events []string) {
	c.t.Helper()
	var p struct {
		Wakes []struct {
			WakeID string
			Event  json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(c.ok("pendingWakes", `{}`)), &p); err != nil {
		c.t.Error(err)
	}
	for _, w := range p.Wakes {
		ids, events = append(ids, w.WakeID), append(events, string(w.Event))
	}
	return ids, events
}

// increments adds 1 to the store n times, as a runtime does: with a step id each, again
// from the present snapshot on a conflict, and again when no answer came.
func (c *caller) increments(key, execution string, n int) {
	v := c.version(key)
	for i := range n {
		for done := false; !done && !c.t.Failed(); {
			var a struct {
				Status   string
				Snapshot version
			}
			answer := c.ok("commit", fmt.Sprintf(`{%s,"expected":%v,"nextState":{"n":%d},"changedPaths":[["n"]],"result":%d,"stepId":{"executionId":%q,"stepKey":"%d"}}`,
				key, v, v.Version+1, v.Version+1, execution, i))
			if err := json.Unmarshal([]byte(answer), &a); err != nil {
				c.t.Error(err)
			}
			if done = a.Status == "committed"; done {
				v.Version++
			} else {
				v = a.Snapshot
			}
		}
	}
}

const doc = "{ \"z\":1.0,\"a\":[12345678901234567890123,1e400],\"é\":\"<&>\u2028\\u00e9\\ud83c\" }"

// Every operation, as another program sees it.
func TestStoreAPI(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	p, c := serveAPI(t, "other%20runtime", "--data-dir="+data)
	const key = `"storeName":"s/1","storeId":"🎁"`
	c.refused(404, "STORE_NOT_FOUND", "getStore", `{`+key+`}`)
	made := c.ok("createStore", `{`+key+`,"state":`+doc+`}`)
	v := c.version(key)
	if want := `{"state":` + doc + `,"instanceId":"` + v.InstanceID + `","version":0}`; made != want {
		t.Errorf("created:\n got %s\nwant %s", made, want)
	}
	c.expect(made, "createStore", `{`+key+`,"state":0}`)
	c.expect(made, "getStore", `{`+key+`}`)
	c.expect(`{"ids":["🎁"]}`, "listStores", `{"storeName":"s/1"}`)
	waiter := `,"workflowId":"w","executionId":"e","stepKey":"wait","event":` + doc + `,"instanceId":"` + v.InstanceID + `","sinceVersion":0,"readPaths":[["a",0]]}`
	c.expect(`{"stale":false}`, "registerWaiter", `{`+key+waiter)
	const step = `"stepId":{"executionId":"e","stepKey":"s"}`
	commit := `{` + key + `,"expected":` + v.String() + `,"nextState":` + doc + `,"changedPaths":[["a"]],"result":` + doc
	c.expect(`{"found":false}`, "getReceipt", `{`+key+`,`+step+`}`)
	c.expect(`{"status":"committed"}`, "commit", commit+`,`+step+`}`)
	c.expect(`{"status":"already-applied","result":`+doc+`}`, "commit", commit+`,`+step+`}`)
	c.expect(`{"status":"conflict","snapshot":{"state":`+doc+`,"instanceId":"`+v.InstanceID+`","version":1}}`, "commit", commit+`}`)
	c.expect(`{"found":true,"result":`+doc+`}`, "getReceipt", `{`+key+`,`+step+`}`)
	c.expect(`{"stale":true}`, "registerWaiter", `{`+key+strings.Replace(waiter, "wait", "late", 1))
	ids, events := c.wakes()
	if len(ids) != 2 || ids[0] == ids[1] || events[0] != doc || events[1] != doc {
		t.Errorf("pending wakes: %q, %q", ids, events)
	}
	for _, id := range append(ids, ids...) {
		c.expect(`{}`, "ackWake", fmt.Sprintf(`{"wakeId":%q}`, id))
	}
	c.expect(`{"wakes":[]}`, "pendingWakes", `{}`)
	c.expect(`{"deleted":false,"reason":"conflict","expectedInstanceId":"`+v.InstanceID+`","expectedVersion":0,"actualInstanceId":"`+v.InstanceID+`","actualVersion":1}`,
		"deleteStoreFrom", `{`+key+`,"expected":`+v.String()+`}`)
	largest := `"nextState":"` + strings.Repeat("s", 1<<20-2) + `","result":"` + strings.Repeat("r", 1<<18-2) + `","changedPaths":[["` + strings.Repeat("p", 60<<10) + `"]]`
	c.expect(`{"stale":false}`, "registerWaiter", `{`+key+strings.Replace(waiter, `"sinceVersion":0`, `"sinceVersion":1`, 1))
	c.expect(`{"status":"committed"}`, "commit", `{`+key+`,"expected":`+c.version(key).String()+`,"stepId":{"executionId":"e","stepKey":"large"},`+largest+`}`)
	c.expect(`{"deleted":true}`, "deleteStoreFrom", `{`+key+`,"expected":`+c.version(key).String()+`}`)
	c.expect(`{}`, "deleteStore", `{`+key+`}`)
	c.refused(400, "INVALID", "deleteStoreFrom", `{`+key+`,"expected":{"instanceId":"","version":0}}`)
	c.refused(413, "TOO_LARGE", "createStore", `{`+key+`,"state":"`+strings.Repeat("x", 3<<20)+`"}`)
	c.refused(404, "UNKNOWN_OPERATION", "nonsense", `{}`)
	c.expect(`{}`, "dropNamespace", `{}`)
	c.expect(`{"found":false}`, "getReceipt", `{`+key+`,`+step+`}`)
	if status := p.end(t, syscall.SIGTERM); status != 0 {
		t.Errorf("exit status %d after SIGTERM, want 0", status)
	}
}

// Two programs race on one store, each through a worker of its own: one that has etcd
// in its process, and one that reaches that etcd by its endpoint.
func TestStoreAPIRace(t *testing.T) {
	t.Parallel()
	const each = 100
	data := filepath.Join(t.TempDir(), "data")
	_, one := serveAPI(t, "race", "--data-dir="+data)
	endpoint, err := os.ReadFile(filepath.Join(data, "etcd.endpoint"))
	if err != nil {
		t.Fatal(err)
	}
	_, two := serveAPI(t, "race", "--etcd-endpoints="+strings.TrimSpace(string(endpoint)))
	const key = `"storeName":"counter","storeId":"c"`
	one.ok("createStore", `{`+key+`,"state":{"n":0}}`)
	var wg sync.WaitGroup
	for i, c := range []*caller{one, two} {
		wg.Go(func() { c.increments(key, fmt.Sprint("e", i), each) })
	}
	wg.Wait()
	v := one.version(key)
	two.expect(fmt.Sprintf(`{"state":{"n":%d},"instanceId":%q,"version":%[1]d}`, 2*each, v.InstanceID), "getStore", `{`+key+`}`)
	results := map[string]bool{}
	for i := range 2 {
		for s := range each {
			results[one.ok("getReceipt", fmt.Sprintf(`{%s,"stepId":{"executionId":"e%d","stepKey":"%d"}}`, key, i, s))] = true
		}
	}
	for n := 1; n <= 2*each; n++ {
		if !results[fmt.Sprintf(`{"found":true,"result":%d}`, n)] {
			t.Errorf("no receipt has the result %d", n)
		}
	}
}

// The worker is killed between a commit and the pull of its wake, after the commit was
// answered or in the middle of it: the wake is there, once.
func TestStoreAPIRestart(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	const key = `"storeName":"s","storeId":"1"`
	p, c := serveAPI(t, "ns", "--data-dir="+data)
	c.ok("createStore", `{`+key+`,"state":0}`)
	for round := range 4 {
		v := c.version(key)
		event := fmt.Sprintf(`{ "round": %d.0 }`, round)
		c.expect(`{"stale":false}`, "registerWaiter", fmt.Sprintf(`{%s,"workflowId":"w","executionId":"e","stepKey":"%d","event":%s,"instanceId":%q,"sinceVersion":%d,"readPaths":[[]]}`,
			key, round, event, v.InstanceID, v.Version))
		commit := fmt.Sprintf(`{%s,"expected":%v,"nextState":%d,"changedPaths":[[]],"result":"r%[3]d","stepId":{"executionId":"e","stepKey":"%[3]d"}}`, key, v, round)
		if round == 0 {
			c.expect(`{"status":"committed"}`, "commit", commit)
		} else {
			kill := p.cmd.Process.Kill
			_, _, _ = c.post("commit", commit, func() { _ = kill() }) // it may be answered or not
		}
		p.end(t, syscall.SIGKILL)
		p, c = serveAPI(t, "ns", "--data-dir="+data)
		committed, already := `{"status":"committed"}`, fmt.Sprintf(`{"status":"already-applied","result":"r%d"}`, round)
		if got := c.ok("commit", commit); got != already && (round == 0 || got != committed) {
			t.Errorf("round %d: the commit again: %s", round, got)
		}
		ids, events := c.wakes()
		if len(ids) != 1 || events[0] != event {
			t.Fatalf("round %d: pending wakes: %q, want %s once", round, events, event)
		}
		c.expect(`{}`, "ackWake", fmt.Sprintf(`{"wakeId":%q}`, ids[0]))
		c.expect(`{"wakes":[]}`, "pendingWakes", `{}`)
	}
	if v := c.version(key); v.Version != 4 {
		t.Errorf("version %d, want 4", v.Version)
	}
	if status := p.end(t, syscall.SIGTERM); status != 0 {
		t.Errorf("exit status %d after SIGTERM, want 0", status)
	}
	_, c = serveAPI(t, "ns", "--data-dir="+data)
	c.expect(`{"wakes":[]}`, "pendingWakes", `{}`)
}

// More connections than the process may have files open leave it, and the etcd in it,
// what these need: whoever is connected goes on, and the others get their turn.
func TestStoreAPIFlood(t *testing.T) {
	t.Parallel()
	const files = 200
	data := filepath.Join(t.TempDir(), "data")
	limited := []string{"-c", fmt.Sprintf(`ulimit -n %d; exec "$@"`, files), "sh", worker}
	p := startCommand(t, exec.Command("sh", append(limited, apiArgs("--data-dir="+data)...)...))
	c := callerOf(t, p, "ns")
	const key = `"storeName":"s","storeId":"1"`
	c.ok("createStore", `{`+key+`,"state":0}`)
	flood := make([]net.Conn, 2*files)
	for i := range flood {
		conn, err := net.Dial("tcp", c.address())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		flood[i] = conn
	}
	c.increments(key, "connected", 100)
	if other := start(t, "ls", "--data-dir="+data); other.exit(t) != 0 {
		t.Errorf("etcd takes no connection: %s", other.text())
	}
	for _, conn := range flood {
		conn.Close()
	}
	late := callerOf(t, p, "ns")
	late.increments(key, "late", 1)
	if v := late.version(key); v.Version != 101 {
		t.Errorf("version %d, want 101", v.Version)
	}
	if status := p.end(t, syscall.SIGTERM); status != 0 {
		t.Errorf("exit status %d after SIGTERM, want 0", status)
	}
}

func TestStoreAPIAddress(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, tt := range []struct {
		address string
		status  int
		says    string
	}{
		{"", 2, "--api-addr is empty"},
		{"7420", 2, `--api-addr: address "7420"`},
		{"shop:7420", 2, "neither an IP address nor localhost"},
		{"127.0.0.1:99999", 2, `port "99999"`},
		{taken.Addr().String(), 1, "--api-addr " + taken.Addr().String()},
	} {
		p := start(t, "run", "--data-dir="+data, "--api-addr="+tt.address)
		if status := p.exit(t); status != tt.status || !strings.Contains(p.text(), tt.says) {
			t.Errorf("--api-addr=%s: exit status %d, want %d and %q:\n%s", tt.address, status, tt.status, tt.says, p.text())
		}
		if _, err := os.Stat(data); !os.IsNotExist(err) {
			t.Fatalf("--api-addr=%s: the data directory was made: %v", tt.address, err)
		}
	}
}
