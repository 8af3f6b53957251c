package storeapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/memetcd"
	"github.com/holdfast-io/holdfast/internal/storeapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	prefix    = "/test"
	namespace = "ns"
)

// A scene is an API over an etcd in memory.
type scene struct {
	t     *testing.T
	store etcd.Store
	api   *storeapi.API
}

func newScene(t *testing.T) *scene {
	t.Helper()
	server, err := memetcd.New(memetcd.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return newSceneOn(t, server.Client("api", nil))
}

func newSceneOn(t *testing.T, store etcd.Store) *scene {
	t.Helper()
	return newSceneOf(t, store, storeapi.Config{})
}

// newSceneOf returns a scene whose API is configured otherwise.
func newSceneOf(t *testing.T, store etcd.Store, cfg storeapi.Config) *scene {
	t.Helper()
	namespaces, err := storeapi.NewNamespaces(storeapi.NamespacesConfig{Store: store, Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Namespaces = namespaces
	api, err := storeapi.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &scene{t, store, api}
}

// send sends a request as it is.
func (s *scene) send(method, path, body string) (status int, answer string) {
	s.t.Helper()
	w := httptest.NewRecorder()
	s.api.ServeHTTP(w, httptest.NewRequestWithContext(s.t.Context(), method, path, strings.NewReader(body)))
	text := w.Body.String()
	if !json.Valid([]byte(text)) || w.Header().Get("Content-Type") != "application/json" {
		s.t.Errorf("%s %s: the answer is no JSON, or not called so: %q, %v", method, path, text, w.Header())
	}
	if allow := w.Header().Get("Allow"); (w.Code == http.StatusMethodNotAllowed) != (allow == http.MethodPost) {
		s.t.Errorf("%s %s: status %d, Allow: %q", method, path, w.Code, allow)
	}
	return w.Code, strings.TrimSuffix(text, "\n")
}

// post sends a request to an operation of the namespace.
func (s *scene) post(ns, op, body string) (status int, answer string) {
	s.t.Helper()
	return s.send(http.MethodPost, "/v1/ns/"+url.PathEscape(ns)+"/"+op, body)
}

// ok sends a request to the namespace of the scene that must succeed.
func (s *scene) ok(op, body string, args ...any) string {
	s.t.Helper()
	body = fmt.Sprintf(body, args...)
	status, answer := s.post(namespace, op, body)
	if status != http.StatusOK {
		s.t.Fatalf("%s %s: status %d, %s", op, body, status, answer)
	}
	return answer
}

// expect sends a request to the namespace of the scene and checks its whole answer.
func (s *scene) expect(want, op, body string, args ...any) {
	s.t.Helper()
	if got := s.ok(op, body, args...); got != want {
		s.t.Errorf("%s "+body+"\n got %s\nwant %s", append(append([]any{op}, args...), got, want)...)
	}
}

// refused sends a request to the namespace of the scene that must fail with the code,
// and change nothing. It returns the message.
func (s *scene) refused(code storeapi.Code, op, body string) string {
	s.t.Helper()
	before := s.dump(namespace)
	status, answer := s.post(namespace, op, body)
	s.isFault(code, status, answer)
	if after := s.dump(namespace); after != before {
		s.t.Errorf("it changed something:\n%s\nwas before:\n%s", after, before)
	}
	return message(answer)
}

func (s *scene) isFault(code storeapi.Code, status int, answer string) {
	s.t.Helper()
	if want := fmt.Sprintf(`{"error":{"code":%q,"message":"`, code); status != code.Status() || !strings.HasPrefix(answer, want) {
		s.t.Errorf("status %d, %s; want %d, %s…", status, answer, code.Status(), want)
	}
}

func message(answer string) string {
	var e struct {
		Error struct{ Message string } `json:"error"`
	}
	_ = json.Unmarshal([]byte(answer), &e) // its callers look at what is in it
	return e.Error.Message
}

// version creates a store, or reads it, and returns it as "expected".
func (s *scene) version(id string) string {
	s.t.Helper()
	v := s.snapshot(s.ok("createStore", `{"storeName":"n","storeId":%q,"state":0}`, id))
	return fmt.Sprintf(`{"instanceId":%q,"version":%d}`, v.InstanceID, v.Version)
}

// A snapshot is what an answer says of a store.
type snapshot struct {
	State      json.RawMessage
	InstanceID string `json:"instanceId"`
	Version    int64
}

func (s *scene) snapshot(answer string) (v snapshot) {
	s.t.Helper()
	if err := json.Unmarshal([]byte(answer), &v); err != nil || v.InstanceID == "" {
		s.t.Fatalf("no snapshot: %s, %v", answer, err)
	}
	return v
}

// A wake is one of pendingWakes.
type wake struct {
	ID    string `json:"wakeId"`
	Event json.RawMessage
}

func (s *scene) pending() []wake {
	s.t.Helper()
	var p struct{ Wakes []wake }
	if err := json.Unmarshal([]byte(s.ok("pendingWakes", `{}`)), &p); err != nil || p.Wakes == nil {
		s.t.Fatalf("pendingWakes: %v, %v", p, err)
	}
	return p.Wakes
}

// dump renders every key of the namespace, with its revision.
func (s *scene) dump(ns string) string {
	s.t.Helper()
	space, err := keyspace.New(prefix, ns)
	if err != nil {
		s.t.Fatal(err)
	}
	all := space.All()
	res, _, err := s.store.Get(s.t.Context(), etcd.Get{Key: all.Start, End: all.End})
	if err != nil {
		s.t.Fatal(err)
	}
	var b strings.Builder
	for _, kv := range res.KVs {
		fmt.Fprintf(&b, "%s at %d: %s\n", kv.Key, kv.Modified, kv.Value)
	}
	return b.String()
}

// everything counts the keys of all namespaces.
func (s *scene) everything() int {
	s.t.Helper()
	res, _, err := s.store.Get(s.t.Context(), etcd.Get{Key: "\x00", End: "\xff", KeysOnly: true})
	if err != nil {
		s.t.Fatal(err)
	}
	return len(res.KVs)
}
