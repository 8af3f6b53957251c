package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// mayBeZero are the flags of which zero, or nothing, is a value like another.
func mayBeZero(name string) bool {
	switch name {
	case "think", "drain-timeout", "min-unacknowledged", "prefix", "workflow", "status":
		return true
	}
	return false
}

// refuseZero refuses flags that were given as zero or as nothing: that would mean
// their default, and who writes it means something else.
func refuseZero(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if err != nil || f.Hidden || mayBeZero(f.Name) {
			return
		}
		switch f.Value.String() {
		case "", "[]":
			err = fmt.Errorf("--%s is empty: give it a value, or leave it out", f.Name)
		case "0", "0s":
			err = fmt.Errorf("--%s %s: want more than 0", f.Name, f.Value)
		}
	})
	return err
}
