package integration_test

import (
	"fmt"
	"testing"
)

// report ends a benchmark with the etcd requests per operation.
func (e *engine) report(b *testing.B) {
	b.Helper()
	b.ReportMetric(float64(e.counts.Total())/float64(b.N), "requests/op")
	b.ReportMetric(float64(e.counts.Reads.Load()+e.counts.Gets.Load())/float64(b.N), "reads/op")
}

func BenchmarkAdmit(b *testing.B) {
	e := newEngine(b)
	e.counts.Reset()
	b.ResetTimer()
	e.admit(b, "x", b.N)
	e.report(b)
}

// BenchmarkAdmitMany admits 10,000 executions in each call.
func BenchmarkAdmitMany(b *testing.B) {
	const batch = 10_000
	e := newEngine(b)
	e.counts.Reset()
	b.ResetTimer()
	for done := 0; done < b.N; done += batch {
		e.admitMany(b, fmt.Sprint("x", done, "/"), min(b.N-done, batch))
	}
	e.report(b)
}

// BenchmarkSend sends events to one execution that runs.
func BenchmarkSend(b *testing.B) {
	e := newEngine(b)
	e.admit(b, "x", 1)
	d := e.claim(b, 1)[0]
	e.counts.Reset()
	b.ResetTimer()
	for range b.N {
		e.send(b, d.ID)
	}
	e.report(b)
}

// BenchmarkReceive applies events, of which up to 1,000 are pending.
func BenchmarkReceive(b *testing.B) {
	const pending = 1000
	e := newEngine(b)
	e.admit(b, "x", 1)
	d := e.claim(b, 1)[0]
	b.ResetTimer()
	for done := 0; done < b.N; done += pending {
		n := min(b.N-done, pending)
		b.StopTimer()
		before := e.counts.Total()
		for range n {
			e.send(b, d.ID)
		}
		sending := e.counts.Total() - before
		b.StartTimer()
		e.receive(b, d, n)
		b.ReportMetric(float64(e.counts.Total()-before-sending)/float64(n), "requests/op")
	}
}

// BenchmarkClaim claims one at a time, or as many as a dispatcher has free slots.
func BenchmarkClaim(b *testing.B) {
	for _, batch := range []int{1, 64} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			e := newEngine(b)
			e.admit(b, "x", b.N)
			e.counts.Reset()
			b.ResetTimer()
			for left := b.N; left > 0; left -= batch {
				e.claim(b, min(left, batch))
			}
			e.report(b)
		})
	}
}

func BenchmarkStep(b *testing.B) {
	e := newEngine(b)
	e.admit(b, "x", 1)
	d := e.claim(b, 1)[0]
	e.counts.Reset()
	b.ResetTimer()
	for i := range b.N {
		e.step(b, d, fmt.Sprint(i))
	}
	e.report(b)
}

func BenchmarkAcknowledge(b *testing.B) {
	e := newEngine(b)
	e.admit(b, "x", b.N)
	ds := e.claim(b, b.N)
	e.counts.Reset()
	b.ResetTimer()
	for _, d := range ds {
		e.acknowledge(b, d)
	}
	e.report(b)
}

// BenchmarkExecution runs an execution of three steps from admission to outcome.
func BenchmarkExecution(b *testing.B) {
	e := newEngine(b)
	e.counts.Reset()
	b.ResetTimer()
	for i := range b.N {
		e.admit(b, fmt.Sprint(i, "/"), 1)
		d := e.claim(b, 1)[0]
		for _, key := range []string{"load", "charge", "receipt"} {
			e.step(b, d, key)
		}
		e.acknowledge(b, d)
	}
	e.report(b)
}
