package simulate

import (
	"testing/synctest"
	"time"
)

// fault does one bad thing.
func (s *scheduler) fault() {
	n := s.nodes[s.rng.IntN(len(s.nodes))]
	after := time.Duration(s.rng.IntN(3000)) * time.Millisecond
	switch s.rng.IntN(10) {
	case 0, 1:
		if n.client == "" {
			return
		}
		s.say("kill %s", n.client)
		s.count("process killed")
		n.kill()
		s.restart(n, after)
	case 2:
		if n.client == "" {
			return
		}
		s.say("drain %s", n.client)
		s.count("process drained")
		n.drain()
		s.restart(n, after)
	case 3, 4:
		name := n.name
		if s.rng.IntN(3) == 0 {
			name = []string{"c0", "c1", "op"}[s.rng.IntN(3)]
		}
		s.say("freeze %s for %v", name, after+leaseDuration/2)
		s.count("node frozen")
		s.frozen[name] = time.Now().Add(after + leaseDuration/2)
	case 5, 6:
		s.expire()
	case 7:
		s.say("compact")
		s.count("compaction")
		if err := s.server.Compact(s.server.Revision()); err != nil {
			s.say("it was compacted already")
		}
	case 8:
		skew := time.Duration(s.rng.IntN(4000)-2000) * time.Millisecond
		s.say("step the clock of %s to %v", n.name, skew)
		s.count("clock stepped")
		n.step(skew)
	case 9:
		s.say("stall all claims")
		s.count("claims stalled")
		s.stalled = time.Now().Add(after + 11*time.Second) // past a dispatcher's patience
	}
}

// expire ends an etcd lease before its time.
func (s *scheduler) expire() {
	leases := s.server.Leases()
	if len(leases) == 0 {
		return
	}
	l := leases[s.rng.IntN(len(leases))]
	s.say("expire etcd lease %d", l.ID)
	s.count("etcd lease ended early")
	_ = s.server.ExpireLease(l.ID) // it was there
}

// restart starts the node's next process after a while.
func (s *scheduler) restart(n *node, after time.Duration) {
	s.later = append(s.later, restart{time.Now().Add(after), n})
	for i := len(s.later) - 1; i > 0 && s.later[i].at.Before(s.later[i-1].at); i-- {
		s.later[i], s.later[i-1] = s.later[i-1], s.later[i]
	}
}

// heal ends the faults: everything runs, and somebody wakes whoever waits for a
// wake that nobody asked for.
func (s *scheduler) heal() {
	s.say("heal")
	s.healed = true
	clear(s.frozen)
	s.stalled = time.Time{}
	for _, n := range s.nodes {
		n.step(0)
		s.restart(n, 0)
	}
	s.actors.Go(func() { s.waker() })
}

// finish drains every process and looks at what is left.
func (s *scheduler) finish() {
	s.say("finish")
	running := map[*node]bool{}
	for _, n := range s.nodes {
		if n.client != "" {
			running[n] = true
			n.drain()
		}
	}
	ended := make(chan struct{})
	s.actors.Go(func() {
		defer close(ended)
		for n := range running {
			<-n.done
		}
	})
	for {
		synctest.Wait()
		select {
		case <-ended:
			s.take()
			s.settled(s.ctx)
			return
		default:
		}
		s.take()
		s.next()
	}
}
