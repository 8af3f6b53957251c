package storeapi_test

import (
	"fmt"
	"strings"
	"testing"
)

// documents are values that encoding/json, or another language's, would write
// otherwise than they came.
func documents() map[string]string {
	return map[string]string{
		"order of members":   `{"z":1,"a":2,"m":{"b":1,"a":2}}`,
		"members twice":      `{"a":1,"a":2}`,
		"big integers":       `[9007199254740993,123456789012345678901234567890,-18446744073709551616]`,
		"big exponents":      `[1e400,-1E+4000,1e-400]`,
		"how numbers look":   `[1.0,1.50,-0,0.10,1E2,100]`,
		"white space":        "{ \"a\" :\t[ 1 ,\r\n 2 ] }",
		"characters of HTML": `"<script>&amp;</script>"`,
		"line separators":    "\"\u2028\u2029\"",
		"unicode":            `{"ключ":"値","🎁":"é é","x":"` + "\U0010ffff" + `"}`,
		"escapes":            `"\u00e9\u003c\/\ud83c\udf81\n\u000a\b\f\t\"\\"`,
		"half a character":   `"\ud83c"`,
		"NUL":                `"\u0000"`,
		"DEL":                "\"\x7f\"",
		"depth":              strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
		"nothing":            `null`,
		"a string":           `""`,
		"a boolean":          `false`,
		"an empty object":    `{ }`,
		"a member like ours": `{"storeName":"x","state":{"state":null},"version":"1"}`,
		"a template":         `"%s %d {{.}} ${x}"`,
		"200 kibibytes":      `"` + strings.Repeat("k", 200<<10) + `"`,
	}
}

// States, results and events come back byte for byte.
func TestBytesAreKept(t *testing.T) {
	t.Parallel()
	for name, doc := range documents() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			keep := func(op, body string) {
				t.Helper()
				_, answer := s.post(namespace, op, body)
				if !strings.Contains(answer, `:`+doc+`,`) && !strings.Contains(answer, `:`+doc+`}`) {
					t.Errorf("%s: the answer holds no\n%.200s\nbut is\n%.200s", op, doc, answer)
				}
			}
			small := doc
			if len(doc) > 1<<16 { // two of them fit in no request
				small = `0`
			}
			keep("createStore", `{`+key+`,"state":`+doc+`}`)
			keep("getStore", `{`+key+`}`)
			for _, c := range []struct{ state, result, step string }{{doc, small, "s"}, {small, doc, "t"}} {
				id := fmt.Sprintf(`"stepId":{"executionId":"e","stepKey":%q}`, c.step)
				at := s.version("a")
				_, answer := s.post(namespace, "commit", `{`+key+`,"expected":`+at+`,"nextState":`+c.state+`,"changedPaths":[[]],"result":`+c.result+`,`+id+`}`)
				if answer != `{"status":"committed"}` {
					t.Fatalf("commit: %.200s", answer)
				}
				if c.state == doc {
					keep("getStore", `{`+key+`}`)
					keep("commit", `{`+key+`,"expected":`+at+`,"nextState":0,"changedPaths":[],"result":0}`) // a conflict
				}
				if c.result == doc {
					keep("getReceipt", `{`+key+`,`+id+`}`)
					keep("commit", `{`+key+`,"expected":`+at+`,"nextState":0,"changedPaths":[],"result":0,`+id+`}`)
				}
			}
			for _, since := range []string{"0", "2"} { // stale, and woken by a commit
				v := s.snapshot(s.ok("createStore", `{%s,"state":0}`, key))
				s.ok("registerWaiter", `{%s,"workflowId":"w","executionId":"e","stepKey":"s","event":%s,"instanceId":%q,"sinceVersion":%s,"readPaths":[["x"]]}`,
					key, doc, v.InstanceID, since)
				if since == "2" {
					s.ok("commit", `{%s,"expected":%s,"nextState":3,"changedPaths":[["x"]],"result":0}`, key, s.version("a"))
				}
				keep("pendingWakes", `{}`)
				s.ok("ackWake", `{"wakeId":%q}`, s.pending()[0].ID)
			}
		})
	}
}

// Names are compared as the characters that they are, however they are escaped.
func TestNamesMayBeEscaped(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	made := s.ok("createStore", `{"storeName":"<é🎁\\u>","storeId":"/\u2028","state":1}`)
	s.expect(made, "getStore", `{"\u0073toreName":"\u003c\u00e9\ud83c\udf81\u005cu>","storeId":"\/`+"\u2028"+`"}`)
}
