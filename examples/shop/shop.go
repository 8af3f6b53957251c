// Package shop holds the example shop's orders, so that the demo has them
// wherever it is started: one JSON object a line, with the fields id, customer,
// amountCents, currency and card (ok, declined or flaky2). There are odd ones
// among them: ids of emoji, with slashes, spaces and line breaks, amounts of zero
// and of all that 64 bits hold.
package shop

import _ "embed"

// Name is what messages call the file.
const Name = "examples/shop/orders.jsonl"

// Orders is the content of orders.jsonl.
//
//go:embed orders.jsonl
var Orders []byte
