package fencesql

// The tables, which are frozen: what one release wrote, every later one reads. seen
// is when the row was last written, in seconds since 1970 by the database's clock; it
// is for Prune alone.
const (
	createTokens = `CREATE TABLE IF NOT EXISTS {tokens} (
	namespace text NOT NULL,
	execution text NOT NULL,
	resource text NOT NULL,
	token bigint NOT NULL,
	seen bigint NOT NULL,
	PRIMARY KEY (namespace, execution, resource)
)`
	createSteps = `CREATE TABLE IF NOT EXISTS {steps} (
	idempotency_key text NOT NULL PRIMARY KEY,
	namespace text NOT NULL,
	execution text NOT NULL,
	step text NOT NULL,
	result text,
	seen bigint NOT NULL
)`
)

const (
	// guard keeps the greater token and returns it. It writes the row in either case,
	// so that the row is locked until the transaction ends.
	guard = `INSERT INTO {tokens} AS held (namespace, execution, resource, token, seen)
VALUES ($1, $2, $3, $4, {now})
ON CONFLICT (namespace, execution, resource) DO UPDATE
SET token = {greater}(held.token, excluded.token), seen = excluded.seen
RETURNING token`

	// once records the step's key, unless it is there. Where another transaction has
	// recorded it and not ended yet, it waits.
	once = `INSERT INTO {steps} (idempotency_key, namespace, execution, step, seen)
VALUES ($1, $2, $3, $4, {now})
ON CONFLICT (idempotency_key) DO NOTHING`

	keep   = `UPDATE {steps} SET result = $1 WHERE idempotency_key = $2`
	recall = `SELECT result FROM {steps} WHERE idempotency_key = $1`

	reset       = `DELETE FROM {tokens} WHERE namespace = $1`
	pruneTokens = `DELETE FROM {tokens} WHERE seen < {now} - $1`
	pruneSteps  = `DELETE FROM {steps} WHERE seen < {now} - $1`
)

// statements are those of one database.
type statements struct {
	create                  []string
	guard, once             string
	keep, recall            string
	reset                   string
	pruneTokens, pruneSteps string
}

func newStatements(d Dialect, prefix string) statements {
	in := func(text string) string { return d.in(prefix, text) }
	return statements{
		create: []string{in(createTokens), in(createSteps)},
		guard:  in(guard), once: in(once),
		keep: in(keep), recall: in(recall),
		reset:       in(reset),
		pruneTokens: in(pruneTokens), pruneSteps: in(pruneSteps),
	}
}
