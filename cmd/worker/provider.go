package main

import (
	"fmt"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/internal/demo"
	"github.com/holdfast-io/holdfast/internal/process"
	"github.com/holdfast-io/holdfast/internal/shop"
)

const defaultListen = "127.0.0.1:7440"

const aboutProvider = `Provider is a payment provider to try the shop with. It takes charges by POST to
` + shop.ChargesPath + `, honours idempotency keys, and writes every attempt and every charge to its
ledger before it answers. It goes on with a ledger that exists: the keys of earlier
charges are honoured too.`

type providerFlags struct {
	listen, ledger string
	think          time.Duration
	holds          shop.Holds
	child          bool
}

func providerCommand() *cobra.Command {
	var f providerFlags
	cmd := &cobra.Command{
		Use:   "provider",
		Short: "Run the payment provider that the shop charges through, until Ctrl-C",
		Long:  aboutProvider,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := refuseZero(cmd); err != nil {
				return err
			}
			if f.think < 0 {
				return fmt.Errorf("--think %v: want 0 or more", f.think)
			}
			return runProvider(cmd, f)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.listen, "listen", defaultListen, "address to listen on")
	fs.StringVar(&f.ledger, "ledger", "", "ledger file, JSON Lines (required)")
	fs.DurationVar(&f.think, "think", 0, "how long each answer takes")
	fs.IntSliceVar(&f.holds.After, "hold", nil, "withhold the final answers of these numbers")
	fs.BoolVar(&f.holds.Declined, "hold-declined", false, "a refusal of the card is a final answer too")
	_, _ = fs.MarkHidden("hold"), fs.MarkHidden("hold-declined")
	child(cmd, &f.child)
	_ = cmd.MarkFlagRequired("ledger")
	return cmd
}

func runProvider(cmd *cobra.Command, f providerFlags) error {
	open := shop.OpenLedger
	if f.child {
		open = shop.ShareLedger // the demo has it open
	}
	ledger, past, err := open(f.ledger)
	if err != nil {
		return failed(err)
	}
	defer ledger.Close()
	cfg := shop.ProviderConfig{Ledger: ledger, Past: past, Think: f.think, Holds: f.holds}
	l, err := net.Listen("tcp", f.listen)
	if err != nil {
		return failed(err)
	}
	url := "http://" + l.Addr().String()
	if !f.child {
		fmt.Fprintf(os.Stderr, "payment provider: %s, ledger %s; Ctrl-C ends it\n", url, f.ledger)
		return failed(shop.NewProvider(cfg).Serve(cmd.Context(), l))
	}
	speaker := demo.NewSpeaker(os.Stdout)
	cfg.Notify = speaker.Notify
	p := shop.NewProvider(cfg)
	process.ExitWithParent(demo.Obey(p))
	speaker.Say(demo.Message{Listening: url})
	return failed(p.Serve(cmd.Context(), l))
}
