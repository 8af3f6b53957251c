package demo

import (
	"fmt"
	"io"
	"time"
)

// A narrator tells what happens while the demo runs, a line at a time.
type narrator struct{ out io.Writer }

// say writes a line. Where nobody reads it, the demo goes on all the same.
func (n narrator) say(format string, args ...any) {
	fmt.Fprintf(n.out, "%s  %s\n", time.Now().Format("15:04:05"), fmt.Sprintf(format, args...))
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
