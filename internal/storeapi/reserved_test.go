package storeapi_test

import (
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/internal/storeapi"
)

// The engine's own stores are not to be had by the API: not to read, and not to change.
func TestReservedNames(t *testing.T) {
	t.Parallel()
	const own = `"storeName":"holdfast:effect","storeId":"a"`
	var tests []malformed
	for op, body := range map[string]string{
		"createStore":     `{` + own + `,"state":1}`,
		"getStore":        `{` + own + `}`,
		"listStores":      `{"storeName":"holdfast:effect"}`,
		"deleteStore":     `{` + own + `}`,
		"deleteStoreFrom": `{` + own + `,` + expected(`"i"`, `0`) + `}`,
		"getReceipt":      `{` + own + `,` + step + `}`,
		"commit":          strings.Replace(commitOf(""), key, own, 1),
		"registerWaiter":  `{` + strings.Replace(waiter, key, own, 1) + `}`,
	} {
		tests = append(tests, malformed{op, op, body, storeapi.Invalid, `begins with "holdfast:", as the engine's own stores do; choose another name`})
	}
	refuses(t, tests)
}
