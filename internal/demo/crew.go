package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-io/holdfast/internal/process"
	"github.com/holdfast-io/holdfast/internal/shop"
)

// providerName is what the demo calls the process of the payment provider.
const providerName = "provider"

// think is how long an answer of the provider takes.
const think = 50 * time.Millisecond

// grace is how long a child has to end by itself.
const grace = 10 * time.Second

// A crew is the demo's child processes: this very program, started again as the
// payment provider and as workers. Each puts what it says into the inbox.
type crew struct {
	cfg      Config
	dir      string // of their logs
	inbox    *inbox
	provider *process.Child
	workers  []*process.Child
	logs     []*os.File
	watchers sync.WaitGroup // one goroutine a child
}

// said is a message of a child, ended the news of its end.
type (
	said struct {
		by string
		Message
	}
	ended struct{ child *process.Child }
)

// startProvider starts the payment provider, which says where it listens.
func (c *crew) startProvider(ledger string, h shop.Holds) error {
	args := []string{
		"provider", "--child", "--listen=127.0.0.1:0", "--ledger=" + ledger,
		"--think=" + think.String(), "--hold=" + join(h.After),
	}
	if h.Declined {
		args = append(args, "--hold-declined")
	}
	var err error
	c.provider, err = c.start(providerName, args)
	return err
}

// startWorkers starts the workers, as anybody would by worker run.
func (c *crew) startWorkers(endpoint, namespace, provider string) error {
	for i := range c.cfg.Workers {
		name := "worker-" + strconv.Itoa(i+1)
		w, err := c.start(name, []string{
			"run", "--child", "--name=" + name, "--etcd-endpoints=" + endpoint, "--namespace=" + namespace,
			"--provider=" + provider, "--lease=" + c.cfg.Lease.String(), "--renew-every=" + renewal(c.cfg.Lease).String(),
			"--concurrency=" + strconv.Itoa(c.cfg.Concurrency), "--drain-timeout=" + (grace / 2).String(),
			// Longer than the freeze, however long that is: see shop.Cashier.
			"--charge-timeout=" + (24 * time.Hour).String(),
		})
		if err != nil {
			return err
		}
		c.workers = append(c.workers, w)
	}
	return nil
}

// renewal is how often a lease is renewed.
func renewal(lease time.Duration) time.Duration { return (lease / 3).Round(time.Millisecond) }

func join(numbers []int) string {
	var s []string
	for _, n := range numbers {
		s = append(s, strconv.Itoa(n))
	}
	return strings.Join(s, ",")
}

func (c *crew) start(name string, args []string) (*process.Child, error) {
	log, err := c.log(name)
	if err != nil {
		return nil, err
	}
	child, err := process.Start(process.Config{
		Name: name, Path: c.cfg.Program, Args: args, Stderr: log,
		Line: func(line []byte) {
			var m Message
			if json.Unmarshal(line, &m) == nil {
				c.inbox.put(said{name, m})
			}
		},
	})
	if err != nil {
		return nil, err
	}
	c.watchers.Go(func() {
		<-child.Done()
		c.inbox.put(ended{child})
	})
	return child, nil
}

// log returns where a child's log goes.
func (c *crew) log(name string) (*os.File, error) {
	if c.cfg.Verbose {
		return os.Stderr, nil
	}
	f, err := os.Create(filepath.Join(c.dir, name+".log"))
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", name, err)
	}
	c.logs = append(c.logs, f)
	return f, nil
}

// worker returns the worker with the name, or nil.
func (c *crew) worker(name string) *process.Child {
	for _, w := range c.workers {
		if w.Name() == name {
			return w
		}
	}
	return nil
}

// release has the provider send the answer that it withholds.
func (c *crew) release(hold int) error {
	line, err := json.Marshal(command{Release: hold})
	if err != nil {
		return err
	}
	return c.provider.Send(line)
}

// retire ends the workers that are left, which have nothing more to do, then the
// provider, and returns the error of those that did not end well. killed is not
// asked.
func (c *crew) retire(killed string) error {
	var g errgroup.Group
	for _, w := range c.workers {
		if w.Name() != killed {
			g.Go(func() error { return w.Stop(grace) })
		}
	}
	return errors.Join(g.Wait(), c.provider.Stop(grace))
}

// stop ends every child that is left, all at once, and closes the logs.
func (c *crew) stop() {
	var g errgroup.Group
	for _, child := range append(c.workers, c.provider) {
		if child != nil {
			g.Go(func() error { return child.Stop(grace) })
		}
	}
	_ = g.Wait() // how they end says nothing any more
	c.watchers.Wait()
	for _, f := range c.logs {
		_ = f.Close()
	}
}
