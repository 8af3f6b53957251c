package storeapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/internal/storeapi"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// The pieces of requests.
const (
	key    = `"storeName":"n","storeId":"a"`
	step   = `"stepId":{"executionId":"e","stepKey":"s"}`
	waiter = key + `,"workflowId":"w","executionId":"e","stepKey":"s","event":{},"instanceId":"i","sinceVersion":0,"readPaths":[[]]`
)

func expected(instance, version string) string {
	return `"expected":{"instanceId":` + instance + `,"version":` + version + `}`
}

func commitOf(more string) string {
	return `{` + key + `,` + expected(`"i"`, "0") + `,"nextState":1,"changedPaths":[[]],"result":2` + more + `}`
}

// A malformed request is refused with a code and a message that names the fault, and
// changes nothing.
type malformed struct {
	name, op, body string
	code           storeapi.Code
	says           string // in the message
}

// refuses sends the requests to a namespace that holds a store and a wake.
func refuses(t *testing.T, tests []malformed) {
	t.Helper()
	s := newScene(t)
	s.version("a")
	s.ok("registerWaiter", `{%s}`, waiter)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &scene{t, s.store, s.api}
			if got := s.refused(tt.code, tt.op, tt.body); !strings.Contains(got, tt.says) {
				t.Errorf("the message is %q, want %q in it", got, tt.says)
			}
		})
	}
}

func TestMalformedBodies(t *testing.T) {
	t.Parallel()
	refuses(t, []malformed{
		{"no body", "getStore", ``, storeapi.Invalid, "the body is empty"},
		{"blanks", "getStore", " \n", storeapi.Invalid, "the body is empty"},
		{"no JSON", "getStore", `storeName=n`, storeapi.Invalid, "not one JSON object"},
		{"cut off", "getStore", `{"storeName":"n","storeId":"a"`, storeapi.Invalid, "not one JSON object"},
		{"a list", "getStore", `["n","a"]`, storeapi.Invalid, "the body is a list; want an object"},
		{"null", "pendingWakes", `null`, storeapi.Invalid, "the body is null; want an object"},
		{"two objects", "getStore", `{` + key + `}{}`, storeapi.Invalid, "after top-level value"},
		{"a byte order mark", "getStore", "\ufeff{" + key + "}", storeapi.Invalid, "not one JSON object"},
		{"a trailing comma", "getStore", `{` + key + `,}`, storeapi.Invalid, "not one JSON object"},
		{"a comment", "getStore", `{` + key + `} // get`, storeapi.Invalid, "not one JSON object"},
		{"NaN", "createStore", `{` + key + `,"state":NaN}`, storeapi.Invalid, "not one JSON object"},
		{"broken UTF-8", "createStore", `{` + key + ",\"state\":\"\xff\"}", storeapi.Invalid, "not valid UTF-8"},
		{"too deep", "createStore", `{` + key + `,"state":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`, storeapi.Invalid, "exceeded max depth"},
		{"a body of 2 MiB and more", "createStore", `{` + key + `,"state":1` + strings.Repeat(" ", storeapi.MaxBodyBytes) + `}`, storeapi.TooLarge, "longer than 2097152 bytes"},

		{"missing member", "getStore", `{"storeName":"n"}`, storeapi.Invalid, "missing storeId"},
		{"unknown member", "getStore", `{` + key + `,"version":1}`, storeapi.Invalid, `unknown member "version"`},
		{"wrong case", "getStore", `{"storename":"n","storeId":"a"}`, storeapi.Invalid, `unknown member "storename"`},
		{"member of another operation", "deleteStore", `{` + key + `,` + step + `}`, storeapi.Invalid, `unknown member "stepId"`},
		{"member of no operation", "pendingWakes", `{"limit":1}`, storeapi.Invalid, `unknown member "limit"`},
		{"a member twice", "getStore", `{` + key + `,"storeId":"a"}`, storeapi.Invalid, `"storeId" comes twice`},
		{"a member twice, once escaped", "getStore", `{` + key + `,"store\u0049d":"b"}`, storeapi.Invalid, `"storeId" comes twice`},
		{"an inner member twice", "getReceipt", `{` + key + `,"stepId":{"executionId":"e","stepKey":"s","stepKey":"t"}}`, storeapi.Invalid, `"stepKey" comes twice in stepId`},
		{"unknown inner member", "getReceipt", `{` + key + `,"stepId":{"executionId":"e","stepKey":"s","run":1}}`, storeapi.Invalid, `unknown member "run" in stepId`},
		{"missing inner member", "getReceipt", `{` + key + `,"stepId":{"executionId":"e"}}`, storeapi.Invalid, "missing stepKey in stepId"},
		{"missing inner object", "getReceipt", `{` + key + `}`, storeapi.Invalid, "missing stepId"},
		{"missing state", "createStore", `{` + key + `}`, storeapi.Invalid, "missing state"},
	})
}

func TestMalformedValues(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", execution.MaxNameBytes+1)
	large := `"` + strings.Repeat("x", execution.MaxPayloadBytes) + `"`
	refuses(t, []malformed{
		{"name is a number", "getStore", `{"storeName":1,"storeId":"a"}`, storeapi.Invalid, "storeName is a number; want a string"},
		{"name is null", "listStores", `{"storeName":null}`, storeapi.Invalid, "storeName is null; want a string"},
		{"name is a list", "listStores", `{"storeName":["n"]}`, storeapi.Invalid, "storeName is a list; want a string"},
		{"empty name", "listStores", `{"storeName":""}`, storeapi.Invalid, "is empty"},
		{"name with NUL", "getStore", `{"storeName":"n","storeId":"a\u0000"}`, storeapi.Invalid, "NUL"},
		{"name of 513 bytes", "getStore", `{"storeName":"n","storeId":"` + long + `"}`, storeapi.Invalid, "513 bytes, the limit is 512"},
		{"half a character", "getStore", `{"storeName":"n","storeId":"\ud83c"}`, storeapi.Invalid, "half a character"},
		{"its other half", "getStore", `{"storeName":"n","storeId":"\udf81"}`, storeapi.Invalid, "half a character"},
		{"halves in the wrong order", "getStore", `{"storeName":"n","storeId":"\udf81\ud83c"}`, storeapi.Invalid, "half a character"},
		{"half a character and a letter", "getStore", `{"storeName":"n","storeId":"\ud83c\u0041"}`, storeapi.Invalid, "half a character"},
		{"step is a string", "getReceipt", `{` + key + `,"stepId":"e/s"}`, storeapi.Invalid, "stepId is a string; want an object"},
		{"step is null", "getReceipt", `{` + key + `,"stepId":null}`, storeapi.Invalid, "stepId is null; want an object"},
		{"empty step key", "getReceipt", `{` + key + `,"stepId":{"executionId":"e","stepKey":""}}`, storeapi.Invalid, "step key"},
		{"empty execution id", "commit", commitOf(`,"stepId":{"executionId":"","stepKey":"s"}`), storeapi.Invalid, "execution id"},
		{"optional step is a list", "commit", commitOf(`,"stepId":[]`), storeapi.Invalid, "stepId is a list; want an object"},

		{"no expected version", "deleteStoreFrom", `{` + key + `}`, storeapi.Invalid, "missing expected"},
		{"expected is a number", "deleteStoreFrom", `{` + key + `,"expected":1}`, storeapi.Invalid, "expected is a number"},
		{"version is a string", "deleteStoreFrom", `{` + key + `,` + expected(`"i"`, `"0"`) + `}`, storeapi.Invalid, "version in expected is a string; want a number"},
		{"version is null", "deleteStoreFrom", `{` + key + `,` + expected(`"i"`, `null`) + `}`, storeapi.Invalid, "version in expected is null"},
		{"version is negative", "deleteStoreFrom", `{` + key + `,` + expected(`"i"`, `-1`) + `}`, storeapi.Invalid, "-1; want an integer from 0"},
		{"version is minus zero", "deleteStoreFrom", `{` + key + `,` + expected(`"i"`, `-0`) + `}`, storeapi.Invalid, "-0; want an integer from 0"},
		{"version is a fraction", "deleteStoreFrom", `{` + key + `,` + expected(`"i"`, `0.5`) + `}`, storeapi.Invalid, "0.5; want an integer"},
		{"version with a point", "deleteStoreFrom", `{` + key + `,` + expected(`"i"`, `1.0`) + `}`, storeapi.Invalid, "1.0; want an integer"},
		{"version with an exponent", "deleteStoreFrom", `{` + key + `,` + expected(`"i"`, `1e0`) + `}`, storeapi.Invalid, "1e0; want an integer"},
		{"version beyond 64 bits", "deleteStoreFrom", `{` + key + `,` + expected(`"i"`, `9223372036854775808`) + `}`, storeapi.Invalid, "9223372036854775808; want an integer"},
		{"instance is null", "deleteStoreFrom", `{` + key + `,` + expected(`null`, `0`) + `}`, storeapi.Invalid, "instanceId in expected is null"},
		{"instance is missing", "deleteStoreFrom", `{` + key + `,"expected":{"version":0}}`, storeapi.Invalid, "missing instanceId"},
		{"instance is empty", "deleteStoreFrom", `{` + key + `,` + expected(`""`, `0`) + `}`, storeapi.Invalid, "missing instanceId"},
		{"instance of a commit is empty", "commit", strings.Replace(commitOf(""), `"i"`, `""`, 1), storeapi.Invalid, "missing instanceId"},
		{"instance of a waiter is empty", "registerWaiter", `{` + strings.Replace(waiter, `"i"`, `""`, 1) + `}`, storeapi.Invalid, "missing instanceId"},

		{"no next state", "commit", `{` + key + `,` + expected(`"i"`, "0") + `,"changedPaths":[],"result":2}`, storeapi.Invalid, "missing nextState"},
		{"no result", "commit", `{` + key + `,` + expected(`"i"`, "0") + `,"nextState":1,"changedPaths":[]}`, storeapi.Invalid, "missing result"},
		{"no changed paths", "commit", `{` + key + `,` + expected(`"i"`, "0") + `,"nextState":1,"result":2}`, storeapi.Invalid, "missing changedPaths"},
		{"changed paths are null", "commit", strings.Replace(commitOf(""), `[[]]`, `null`, 1), storeapi.Invalid, "changedPaths is null; want a list"},
		{"changed path is a string", "commit", strings.Replace(commitOf(""), `[[]]`, `[[],"a.b"]`, 1), storeapi.Invalid, `changedPaths[1]: "a.b" is not a list of strings and whole numbers`},
		{"segment is a fraction", "commit", strings.Replace(commitOf(""), `[[]]`, `[["a",1.5]]`, 1), storeapi.Invalid, "changedPaths[0][1]: 1.5 is neither a string nor a whole number"},
		{"segment is long", "commit", strings.Replace(commitOf(""), `[[]]`, `[[["`+long+`"]]]`, 1), storeapi.Invalid, "changedPaths[0][0]: [\"" + long[:30] + "… is neither a string nor a whole number"},
		{"segment is null", "registerWaiter", `{` + strings.Replace(waiter, `[[]]`, `[[null]]`, 1) + `}`, storeapi.Invalid, "readPaths[0][0]: null is neither a string nor a whole number"},
		{"read paths are an object", "registerWaiter", `{` + strings.Replace(waiter, `[[]]`, `{}`, 1) + `}`, storeapi.Invalid, "readPaths is an object; want a list"},
		{"no event", "registerWaiter", `{` + strings.Replace(waiter, `"event":{},`, ``, 1) + `}`, storeapi.Invalid, "missing event"},
		{"empty workflow", "registerWaiter", `{` + strings.Replace(waiter, `"w"`, `""`, 1) + `}`, storeapi.Invalid, "workflow id"},
		{"waiter's step in an object", "registerWaiter", `{` + waiter + `,` + step + `}`, storeapi.Invalid, `unknown member "stepId"`},
		{"wake is a number", "ackWake", `{"wakeId":7}`, storeapi.Invalid, "wakeId is a number; want a string"},
		{"wake is empty", "ackWake", `{"wakeId":""}`, storeapi.Invalid, "wakeId is empty"},

		{"state of more than 1 MiB", "createStore", `{"storeName":"n","storeId":"new","state":` + large + `}`, storeapi.TooLarge, "state is too large: 1048578 bytes, the limit is 1048576"},
		{"event of more than 1 MiB", "registerWaiter", `{` + strings.Replace(waiter, `{}`, large, 1) + `}`, storeapi.TooLarge, "event is too large: 1048578 bytes, the limit is 1048576"},

		{"state that is too deep", "createStore", `{"storeName":"n","storeId":"new","state":` + nested(9001) + `}`, storeapi.Invalid, "state is nested deeper than 9000 levels"},
		{"event that is too deep", "registerWaiter", `{` + strings.Replace(waiter, `{}`, nested(9001), 1) + `}`, storeapi.Invalid, "event is nested deeper than 9000 levels"},

		{"store is not there", "getStore", `{"storeName":"n","storeId":"b"}`, storeapi.StoreNotFound, "does not exist"},
		{"commit to a store that is not there", "commit", strings.Replace(commitOf(""), `"a"`, `"b"`, 1), storeapi.StoreNotFound, "does not exist"},
		{"unknown operation", "updateStore", `{}`, storeapi.UnknownOperation, `"updateStore" is unknown`},
		{"operation in another case", "GetStore", `{` + key + `}`, storeapi.UnknownOperation, `"GetStore" is unknown`},
		{"operation with a slash", "getStore/", `{` + key + `}`, storeapi.UnknownOperation, "want /v1/ns/{ns}/{op}"},
	})
}

func nested(levels int) string {
	return strings.Repeat("[", levels) + strings.Repeat("]", levels)
}

// A step id names one call: its receipt says nothing of a call of another kind.
func TestStepOfAnotherKindOfCall(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	at := s.version("a")
	s.expect(`{"status":"committed"}`, "commit", `{%s,"expected":%s,"nextState":1,"changedPaths":[],"result":0,%s}`, key, at, step)
	if got := s.refused(storeapi.Invalid, "deleteStoreFrom", `{`+key+`,"expected":`+s.version("a")+`,`+step+`}`); !strings.Contains(got, "was used for another call") {
		t.Errorf("the message is %q", got)
	}
}

// What two values of the greatest size are together, no request to etcd can hold.
func TestStateAndResultAreTooLargeTogether(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	large := `"` + strings.Repeat("x", 900<<10) + `"`
	body := fmt.Sprintf(`{%s,"expected":%s,"nextState":%s,"changedPaths":[],"result":%s}`, key, s.version("a"), large, large)
	if got := s.refused(storeapi.TooLarge, "commit", body); !strings.Contains(got, "together") || strings.Contains(got, "xxx") {
		t.Errorf("the message is %q", got)
	}
	s.ok("commit", `{%s,"expected":%s,"nextState":%s,"changedPaths":[],"result":0}`, key, s.version("a"), large)
}

func TestMalformedPathsAndMethods(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	good := `{` + key + `,"state":1}`
	for _, tt := range []struct {
		name, method, path string
		code               storeapi.Code
	}{
		{"root", http.MethodPost, "/", storeapi.UnknownOperation},
		{"no operation", http.MethodPost, "/v1/ns/ns", storeapi.UnknownOperation},
		{"another version", http.MethodPost, "/v2/ns/ns/createStore", storeapi.UnknownOperation},
		{"no namespace's name", http.MethodPost, "/v1/ns/createStore", storeapi.UnknownOperation},
		{"a slash in the namespace", http.MethodPost, "/v1/ns/a/b/createStore", storeapi.UnknownOperation},
		{"two slashes", http.MethodPost, "//v1/ns/ns/createStore", storeapi.UnknownOperation},
		{"a path to clean", http.MethodPost, "/v1/ns/ns/../ns/createStore", storeapi.UnknownOperation},
		{"empty namespace", http.MethodPost, "/v1/ns//createStore", storeapi.Invalid},
		{"NUL in the namespace", http.MethodPost, "/v1/ns/a%00/createStore", storeapi.Invalid},
		{"broken UTF-8 in the namespace", http.MethodPost, "/v1/ns/%ff/createStore", storeapi.Invalid},
		{"namespace of 129 bytes", http.MethodPost, "/v1/ns/" + strings.Repeat("x", 129) + "/createStore", storeapi.Invalid},
		{"get", http.MethodGet, "/v1/ns/ns/getStore", storeapi.MethodNotAllowed},
		{"put", http.MethodPut, "/v1/ns/ns/createStore", storeapi.MethodNotAllowed},
		{"options", http.MethodOptions, "/v1/ns/ns/createStore", storeapi.MethodNotAllowed},
		{"lower case", "post", "/v1/ns/ns/createStore", storeapi.MethodNotAllowed},
		{"get of an unknown operation", http.MethodGet, "/v1/ns/ns/health", storeapi.UnknownOperation},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &scene{t, s.store, s.api}
			status, answer := s.send(tt.method, tt.path, good)
			s.isFault(tt.code, status, answer)
			if left := s.everything(); left != 0 {
				t.Errorf("it wrote %d keys", left)
			}
		})
	}
}
