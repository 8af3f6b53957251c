package embedded_test

import (
	"context"
	"fmt"
	"os"

	"github.com/holdfast-io/holdfast/pkg/embedded"
)

func Example() {
	dir, err := os.MkdirTemp("", "embedded-example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()

	ctx := context.Background()
	server, err := embedded.Start(ctx, embedded.Config{Dir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = server.Close() }()

	if _, err := server.Client().Put(ctx, "greeting", "hello"); err != nil {
		fmt.Println(err)
		return
	}
	resp, err := server.Client().Get(ctx, "greeting")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s = %s\n", resp.Kvs[0].Key, resp.Kvs[0].Value)
	// Output: greeting = hello
}
