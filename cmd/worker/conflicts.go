package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/pkg/effect"
)

const aboutConflicts = `Conflicts prints the effects for which more than one result was brought: such as a charge
whose provider gave two receipts for one key. The first result counts and stays; look at
the provider's books whether it acted twice. There is a line for each further result:

  the effect's id    its operation    the result that counts    the other result
  the execution and the step that brought that, or "elsewhere"    when

Names are quoted, and tabs are between them. Long results are cut off, and those that
were too large to be kept are named by their digests. Reports are kept for ever.`

func conflictsCommand() *cobra.Command {
	var f etcdFlags
	cmd := &cobra.Command{
		Use:   "conflicts",
		Short: "List effects that came to more than one result",
		Long:  aboutConflicts,
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return runConflicts(cmd, f) },
	}
	f.register(cmd, dataDirToRead)
	return cmd
}

func runConflicts(cmd *cobra.Command, f etcdFlags) error {
	client, err := f.openIfThere(cmd)
	if err != nil {
		return err
	}
	if client == nil {
		fmt.Fprintf(os.Stderr, "worker: namespace %q is empty\n", f.namespace)
		return nil
	}
	defer client.Close()
	all, err := effect.NewClient(client).Conflicts(cmd.Context())
	for _, c := range all {
		printConflict(os.Stdout, c)
	}
	return failed(err)
}

func printConflict(out io.Writer, c effect.Conflict) {
	for _, r := range c.Reports {
		by, other := `"elsewhere"`, resultText(r.Result)
		if r.By.Execution != "" {
			by = fmt.Sprintf("%q %q", r.By.Execution, r.By.Step)
		}
		if other == "" {
			other = "sha256:" + r.SHA256
		}
		fmt.Fprintf(out, "%q\t%q\t%s\t%s\t%s\t%s\n", c.Effect, c.Operation, resultText(c.Result), other, by, r.By.At.UTC().Format(time.RFC3339))
	}
	if c.Omitted > 0 {
		fmt.Fprintf(out, "%q\t%q\t%s\tand %d reports more\n", c.Effect, c.Operation, resultText(c.Result), c.Omitted)
	}
}

// resultText renders a result in one line; empty: it is not there.
func resultText(r effect.Result) string {
	if r.Declined != nil {
		return fmt.Sprintf("declined: %.200q", r.Declined.Message)
	}
	if len(r.Value) > 200 {
		return strings.ToValidUTF8(string(r.Value[:200]), "") + "…"
	}
	return string(r.Value)
}
