package keyspace_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/keyspace"
)

// emoji is an id of 500 bytes.
var emoji = strings.Repeat("🦀", 125)

// oddNames are the names that seed the fuzz targets.
var oddNames = []string{
	"a", "ab", "a/b", "a/", "/", "//", "/a", "..", "../x", ".", "%", "%2F", "%2f", "%25", "a%2Fb", "a%",
	"order-42", " ", "a b", "\t\n", "\x7f", "\x1f", "0", "9", ":", "é", "注文", emoji, "\U0010FFFF", "a\U0010FFFF", "\uFEFF",
	"v1", "epoch", "state", "due", "0000000000", "000000000000000",
}

func space(tb testing.TB, prefix, namespace string) keyspace.Space {
	tb.Helper()
	s, err := keyspace.New(prefix, namespace)
	if err != nil {
		tb.Fatalf("New(%q, %q): %v", prefix, namespace, err)
	}
	return s
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", keyspace.MaxNamespaceBytes+1)
	for name, c := range map[string]struct{ prefix, namespace string }{
		"empty prefix":                {"", "ns"},
		"prefix of a slash":           {"/", "ns"},
		"prefix that ends in a slash": {"/holdfast/", "ns"},
		"empty segment at the start":  {"//holdfast", "ns"},
		"empty segment in the middle": {"/team//holdfast", "ns"},
		"prefix too long":             {long, "ns"},
		"prefix with NUL":             {"/hold\x00fast", "ns"},
		"prefix not UTF-8":            {"/hold\xfffast", "ns"},
		"prefix ends in a version":    {"/holdfast/v1", "ns"},
		"prefix begins with one":      {"v1/holdfast", "ns"},
		"prefix inside a namespace":   {"/holdfast/v1/ns", "ns"},
		"prefix in a later version":   {"/holdfast/v20/ns", "ns"},
		"empty namespace":             {"/holdfast", ""},
		"namespace too long":          {"/holdfast", long},
		"namespace with NUL":          {"/holdfast", "n\x00s"},
		"namespace not UTF-8":         {"/holdfast", "n\xc3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := keyspace.New(c.prefix, c.namespace)
			if err == nil || s != (keyspace.Space{}) {
				t.Fatalf("New(%q, %q) = %v, %v; want an error", c.prefix, c.namespace, s, err)
			}
			if !strings.Contains(err.Error(), "want ") {
				t.Errorf("the error does not say what is wanted: %v", err)
			}
		})
	}
}

func TestNewAccepts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ prefix, namespace, all string }{
		{"/holdfast", "default", "/holdfast/v1/default/"},
		{"holdfast", "default", "holdfast/v1/default/"},
		{"/team/holdfast", "a/b", "/team/holdfast/v1/a%2Fb/"},
		{"/very", "v1", "/very/v1/v1/"},
		{"/v", "..", "/v/v1/../"},
		{"/v1x", "%", "/v1x/v1/%25/"},
		{strings.Repeat("a", keyspace.MaxNamespaceBytes), "注文", strings.Repeat("a", keyspace.MaxNamespaceBytes) + "/v1/注文/"},
	} {
		if got := space(t, c.prefix, c.namespace).All().Start; got != c.all {
			t.Errorf("New(%q, %q).All() begins with %q, want %q", c.prefix, c.namespace, got, c.all)
		}
	}
}

// The forms are frozen: a change here makes the keys of older releases unreadable.
func TestKeyGoldens(t *testing.T) {
	t.Parallel()
	s := space(t, "/holdfast", "shop/eu")
	at := time.Date(2026, 8, 1, 12, 30, 15, 123_999_999, time.UTC)
	due := keyspace.Due{Queue: "charge order", Priority: keyspace.DefaultPriority, At: at, ID: "order-42"}
	step := keyspace.Step{ID: "a/b", Incarnation: 7, Run: 1, Key: "charge/card", Attempt: 3}
	far := due
	far.At, far.Priority = keyspace.MaxTime.Add(time.Hour), 10
	early := due
	early.At, early.Priority = time.Time{}, -1
	wide := keyspace.Step{ID: "a", Incarnation: 1<<63 - 1, Run: keyspace.MaxCounter, Key: "k", Attempt: keyspace.MaxCounter + 1}
	narrow := keyspace.Step{ID: "a", Incarnation: -1, Run: -1, Key: "k", Attempt: -1}
	const root = "/holdfast/v1/shop%2Feu/"
	for _, c := range []struct{ name, got, want string }{
		{"epoch", s.Epoch(), "epoch"},
		{"proc", s.Proc("p-1"), "proc/p-1"},
		{"spec", s.Spec("order-42"), "spec/order-42"},
		{"state", s.State("order-42"), "state/order-42"},
		{"live", s.Live("order-42"), "live/order-42"},
		{"wake", s.Wake("order-42"), "wake/order-42"},
		{"evict", s.Evict("p-1", "a/b"), "evict/p-1/a%2Fb"},
		{"done", s.Done(at, "a/b"), "done/001785587415123/a%2Fb"},
		{"due", s.Due(due), "due/charge order/5/0/001785587415123/order-42"},
		{"due after the last time", s.Due(far), "due/charge order/9/0/999999999999999/order-42"},
		{"due before the first time", s.Due(early), "due/charge order/0/0/000000000000000/order-42"},
		{"step", s.Step(step), "step/a%2Fb/0000000000000000007/0000000001/charge%2Fcard/0000000003"},
		{"step beyond the widths", s.Step(wide), "step/a/9223372036854775807/9999999999/k/9999999999"},
		{"step below zero", s.Step(narrow), "step/a/0000000000000000000/0000000000/k/0000000000"},
		{"params", s.Params("a/b", 7, 1), "params/a%2Fb/0000000000000000007/0000000001"},
		{"params beyond the widths", s.Params("a", 1<<63-1, keyspace.MaxCounter+1), "params/a/9223372036854775807/9999999999"},
		{"params below zero", s.Params("a", -1, -1), "params/a/0000000000000000000/0000000000"},
		{"start", s.Start(keyspace.CallKey{ID: "a/b", Incarnation: 7, Run: 1, Step: "ship/it"}), "start/a%2Fb/0000000000000000007/0000000001/ship%2Fit"},
		{"every escaped byte", s.State("/%\x01\n\x1f\x7f"), "state/%2F%25%01%0A%1F%7F"},
		{"bytes that stay", s.State(" !\"#$&'()*+,-.09:;<=>?@AZ[\\]^_`az{|}~é🦀"), "state/ !\"#$&'()*+,-.09:;<=>?@AZ[\\]^_`az{|}~é🦀"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.got != root+c.want {
				t.Errorf("got  %q\nwant %q", c.got, root+c.want)
			}
		})
	}
}

func TestSpanGoldens(t *testing.T) {
	t.Parallel()
	s := space(t, "/holdfast", "n")
	at := time.UnixMilli(1_785_587_415_123)
	const root = "/holdfast/v1/n/"
	for name, c := range map[string]struct {
		got        keyspace.Span
		start, end string
	}{
		"all":            {s.All(), "", ""},
		"procs":          {s.Procs(), "proc/", "proc0"},
		"specs":          {s.Specs(), "spec/", "spec0"},
		"states":         {s.States(""), "state/", "state0"},
		"states, prefix": {s.States("a/"), "state/a%2F", "state/a%2G"},
		"states, U+10FFFF": {
			s.States("\U0010FFFF"), "state/\U0010FFFF", "state/\xf4\x8f\xbf\xc0",
		},
		"states, 0xff":  {s.States("a\xff\xff"), "state/a\xff\xff", "state/b"},
		"lives":         {s.Lives(), "live/", "live0"},
		"wakes":         {s.Wakes(), "wake/", "wake0"},
		"evicts":        {s.Evicts("p"), "evict/p/", "evict/p0"},
		"all evictions": {s.AllEvicts(), "evict/", "evict0"},
		"dones":         {s.Dones(), "done/", "done0"},
		"dues":          {s.Dues("q/1"), "due/q%2F1/", "due/q%2F10"},
		"all dues":      {s.AllDues(), "due/", "due0"},
		"due until":     {s.DueUntil("q", 5, 10, at), "due/q/5/A/", "due/q/5/A/0017855874151230"},
		"run":           {s.Run("a", 7, 2), "step/a/0000000000000000007/0000000002/", "step/a/0000000000000000007/00000000020"},
		"steps of":      {s.StepsOf("a"), "step/a/", "step/a0"},
		"steps":         {s.Steps(), "step/", "step0"},
		"params of":     {s.ParamsOf("a", 7), "params/a/0000000000000000007/", "params/a/00000000000000000070"},
		"any params":    {s.AnyParams("a"), "params/a/", "params/a0"},
		"all params":    {s.AllParams(), "params/", "params0"},
		"starts of":     {s.StartsOf("a"), "start/a/", "start/a0"},
		"starts of run": {s.StartsOfRun("a", 7, 2), "start/a/0000000000000000007/0000000002/", "start/a/0000000000000000007/00000000020"},
		"starts":        {s.Starts(), "start/", "start0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := keyspace.Span{Start: root + c.start, End: root + c.end}
			if name == "all" {
				want = keyspace.Span{Start: root, End: "/holdfast/v1/n0"}
			}
			if c.got != want {
				t.Errorf("got  %q\nwant %q", c.got, want)
			}
		})
	}
}

// The shard is a part of the key and so frozen as well.
func TestShardGoldens(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]int{"a": 0, "b": 9, "order-42": 0, "a/b": 15, emoji: 9} {
		if got := keyspace.ShardOf(id); got != want {
			t.Errorf("ShardOf(%.16q) = %d, want %d", id, got, want)
		}
	}
}

func TestShardsAreUsedEvenly(t *testing.T) {
	t.Parallel()
	const ids = 16_000
	for name, id := range map[string]func(i int) string{
		"decimal":               func(i int) string { return fmt.Sprintf("order-%d", i) },
		"padded":                func(i int) string { return fmt.Sprintf("%08d", i) },
		"hexadecimal":           func(i int) string { return fmt.Sprintf("%x", i*16) },
		"high halves of a byte": func(i int) string { return string([]rune{'@' + rune(i%7)<<4, '@' + rune(i/7%7)<<4, rune(i) << 4}) },
		"one long name each":    func(i int) string { return strings.Repeat("customer/", 20) + fmt.Sprint(i) },
	} {
		var seen [keyspace.Shards]int
		for i := range ids {
			seen[keyspace.ShardOf(id(i))]++
		}
		if least := slices.Min(seen[:]); least < ids/keyspace.Shards/2 {
			t.Errorf("%s: the least used shard holds %d of %d ids: %v", name, least, ids, seen)
		}
	}
}

// A space that nobody made reaches nothing.
func TestZeroSpaceIsEmpty(t *testing.T) {
	t.Parallel()
	if got := (keyspace.Space{}).All(); got != (keyspace.Span{}) {
		t.Errorf("All() of the zero space = %q", got)
	}
}
