package fencesql

import (
	"strconv"
	"strings"
)

// A Dialect is the kind of a database: its placeholders and its functions.
type Dialect int

// The dialects. There is no default: a statement of the wrong one would fail in the
// middle of somebody's transaction.
const (
	PostgreSQL Dialect = iota + 1 // 9.5 or later
	SQLite                        // 3.35 or later
)

// String returns the dialect's name.
func (d Dialect) String() string {
	switch d {
	case PostgreSQL:
		return "PostgreSQL"
	case SQLite:
		return "SQLite"
	}
	return "Dialect(" + strconv.Itoa(int(d)) + ")"
}

func (d Dialect) known() bool { return d == PostgreSQL || d == SQLite }

// in returns the statement as the dialect says it, with the tables' names.
func (d Dialect) in(prefix, text string) string {
	words := []string{"{tokens}", prefix + "tokens", "{steps}", prefix + "steps"}
	switch d {
	case PostgreSQL:
		words = append(words, "{greater}", "greatest", "{now}", "CAST(extract(epoch FROM now()) AS bigint)")
	case SQLite:
		words = append(words, "{greater}", "max", "{now}", "CAST(strftime('%s', 'now') AS integer)", "$", "?")
	}
	return strings.NewReplacer(words...).Replace(text)
}
