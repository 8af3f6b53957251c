package storeapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-io/holdfast/internal/canonical"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// Members are what an object of a request holds. They are taken out one by one, and
// [members.end] says what was wrong: encoding/json would match names whatever their
// case, take the last of two, and pass over what it does not know.
type members struct {
	where  string // " in expected", for an inner object
	values map[string]json.RawMessage
	inner  []*members
	wrong  *error // the first fault of the whole request
}

// parse reads the body of a request, one JSON object.
func parse(body []byte) (*members, error) {
	var raw json.RawMessage
	switch err := json.Unmarshal(body, &raw); {
	case !utf8.Valid(body):
		return nil, invalid("the body is not valid UTF-8")
	case len(bytes.TrimSpace(body)) == 0:
		return nil, invalid("the body is empty; want a JSON object")
	case err != nil:
		return nil, invalid("the body is not one JSON object: %w", err)
	case kind(raw) != kindObject:
		return nil, invalid("the body is %s; want an object", kind(raw))
	}
	m := &members{wrong: new(error)}
	m.split(raw)
	return m, nil
}

// split reads an object that is known to be valid JSON.
func (m *members) split(object json.RawMessage) {
	m.values = map[string]json.RawMessage{}
	d := json.NewDecoder(bytes.NewReader(object))
	_, err := d.Token()
	for err == nil && d.More() {
		var name json.Token
		var value json.RawMessage
		if name, err = d.Token(); err == nil {
			err = d.Decode(&value)
		}
		text := fmt.Sprint(name)
		if _, twice := m.values[text]; twice {
			m.refuse("the member %q comes twice%s", text, m.where)
		}
		m.values[text] = value
	}
	if err != nil {
		m.refuse("the body is not one JSON object: %w", err)
	}
}

func (m *members) refuse(format string, args ...any) {
	if *m.wrong == nil {
		*m.wrong = invalid(format, args...)
	}
}

// end returns what was wrong. Members that nobody took come first: one that is
// misspelled is also missing.
func (m *members) end() error {
	for _, o := range append([]*members{m}, m.inner...) {
		if names := slices.Sorted(maps.Keys(o.values)); len(names) > 0 {
			return invalid("unknown member %q%s", names[0], o.where)
		}
	}
	return *m.wrong
}

// take returns the value of a member that must be there.
func (m *members) take(name string) (json.RawMessage, bool) {
	raw, there := m.values[name]
	delete(m.values, name)
	if !there {
		m.refuse("missing %s%s", name, m.where)
	}
	return raw, there
}

// takeKind returns the value of a member, which must be of the kind.
func (m *members) takeKind(name, want string) (json.RawMessage, bool) {
	raw, there := m.take(name)
	if there && kind(raw) != want {
		m.refuse("%s%s is %s; want %s", name, m.where, kind(raw), want)
		return nil, false
	}
	return raw, there
}

// raw returns a value of any kind, byte for byte.
func (m *members) raw(name string) []byte {
	raw, _ := m.take(name)
	return raw
}

// text returns a string.
func (m *members) text(name string) (s string) {
	raw, ok := m.takeKind(name, kindString)
	if !ok {
		return ""
	}
	if canonical.HalfSurrogate(raw) != "" {
		m.refuse("%s%s holds half a character: %s", name, m.where, raw)
		return ""
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		m.refuse("%s%s: %w", name, m.where, err)
	}
	return s
}

// count returns an integer that is not negative.
func (m *members) count(name string) int64 {
	raw, ok := m.takeKind(name, kindNumber)
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < 0 || raw[0] == '-' {
		m.refuse("%s%s is %.32s; want an integer from 0 to 9223372036854775807, in digits", name, m.where, raw)
	}
	return n
}

// paths returns a list of paths.
func (m *members) paths(name string) stores.Paths {
	raw, ok := m.takeKind(name, kindList)
	if !ok {
		return nil
	}
	paths, err := stores.ParsePaths(raw)
	if bad, is := errors.AsType[*execution.InvalidError](err); is {
		m.refuse("%s%s: %s %s", name, strings.TrimPrefix(bad.What, "paths"), bad.Value, bad.Reason) // its value is JSON: quoted again it is hard to read
	} else if err != nil {
		m.refuse("%s: %w", name, err)
	}
	return paths
}

// object returns the members of an inner object.
func (m *members) object(name string) *members {
	in := &members{where: " in " + name, wrong: m.wrong}
	m.inner = append(m.inner, in)
	if raw, ok := m.takeKind(name, kindObject); ok {
		in.split(raw)
	}
	return in
}

// store returns the name of a store, which the stores validate but for the names that
// are not a user's to have.
func (m *members) store() execution.StoreID {
	return execution.StoreID{Name: m.storeName(), ID: m.text("storeId")}
}

// storeName returns the name of a user's store.
func (m *members) storeName() string {
	name := m.text("storeName")
	if err := stores.CheckName(name); err != nil && *m.wrong == nil {
		*m.wrong = err
	}
	return name
}

func (m *members) step() execution.StepID {
	in := m.object("stepId")
	return execution.StepID{Execution: execution.ID(in.text("executionId")), Step: in.text("stepKey")}
}

// optionalStep returns the step, or nil where it is left out, or null.
func (m *members) optionalStep() *execution.StepID {
	if raw, there := m.values["stepId"]; !there || kind(raw) == kindNull {
		delete(m.values, "stepId")
		return nil
	}
	step := m.step()
	return &step
}

func (m *members) expected() stores.Version {
	in := m.object("expected")
	return stores.Version{Instance: in.text("instanceId"), Version: in.count("version")}
}
