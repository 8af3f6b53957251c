package storeapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/internal/memetcd"
	"github.com/holdfast-io/holdfast/internal/storeapi"
)

// FuzzCreateStore: whatever the body is, either it is exactly what createStore takes,
// and the state comes back byte for byte, or it is refused and nothing is written.
func FuzzCreateStore(f *testing.F) {
	for _, doc := range documents() {
		if len(doc) < 1000 {
			f.Add([]byte(`{"state":` + doc + `,` + key + `}`))
		}
	}
	for _, body := range []string{
		create, "", "{}", `{` + key + `,"state":1,"State":2}`, `{` + key + `,"state":1,"state":2}`,
		`{"storeName":"\ud83c\udf81","storeId":"\\ud83c","state":1}`, `{"storeName":"\ud83c","storeId":"a","state":1}`,
		"\t{\"storeName\" : \"n\" ,\n\"storeId\":\"a\",\"state\": [ ] } ", create + create, `[` + create + `]`,
	} {
		f.Add([]byte(body))
	}
	server, err := memetcd.New(memetcd.Config{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(server.Close)
	namespaces, err := storeapi.NewNamespaces(storeapi.NamespacesConfig{Store: server.Client("api", nil), Prefix: prefix})
	if err != nil {
		f.Fatal(err)
	}
	api, err := storeapi.New(storeapi.Config{Namespaces: namespaces})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		s := &scene{t, server.Client("test", nil), api}
		status, answer := s.post(namespace, "createStore", string(body))
		if status != http.StatusOK {
			if status != http.StatusBadRequest && status != http.StatusRequestEntityTooLarge || s.everything() != 0 {
				t.Fatalf("status %d, %s, %d keys", status, answer, s.everything())
			}
			return
		}
		var m map[string]json.RawMessage
		if err := json.Unmarshal(body, &m); err != nil || len(m) != 3 {
			t.Fatalf("taken, though it has %d members: %v", len(m), err)
		}
		if want := `{"state":` + string(m["state"]) + `,"instanceId":"`; !strings.HasPrefix(answer, want) {
			t.Fatalf("got %s, want %s…", answer, want)
		}
		status, answer = s.post(namespace, "deleteStore", `{"storeName":`+string(m["storeName"])+`,"storeId":`+string(m["storeId"])+`}`)
		if left := s.everything(); status != http.StatusOK || left != 0 {
			t.Fatalf("delete: status %d, %s, %d keys", status, answer, left)
		}
	})
}
