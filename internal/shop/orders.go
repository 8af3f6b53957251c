package shop

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// MaxLineBytes bounds a line of an orders file.
const MaxLineBytes = 64 << 10

// A SkippedLine is a line of an orders file that gave no order, and why.
type SkippedLine struct {
	Number int // the first line is 1
	Reason string
}

func (s SkippedLine) String() string {
	return fmt.Sprintf("line %d skipped: %s", s.Number, s.Reason)
}

// Orders is what an orders file holds.
type Orders struct {
	Valid   []Order // in the order of the file; no two have the same id
	Skipped []SkippedLine
}

// ReadOrdersFile reads an orders file.
func ReadOrdersFile(path string) (Orders, error) {
	f, err := os.Open(path)
	if err != nil {
		return Orders{}, fmt.Errorf("orders: %w", err)
	}
	defer f.Close()
	orders, err := ReadOrders(f)
	if err != nil {
		return Orders{}, fmt.Errorf("orders file %s: %w", path, err)
	}
	return orders, nil
}

// ReadOrders reads orders as JSON Lines. A line that is not an order is skipped
// and listed, and so is one that repeats an id; blank lines, a byte order mark and
// carriage returns at the end of a line mean nothing. The error is r's own.
func ReadOrders(r io.Reader) (Orders, error) {
	in := bufio.NewReaderSize(r, MaxLineBytes+2)
	c := collector{lines: map[string]int{}, orders: map[string]Order{}}
	for {
		line, err := readLine(in)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, errLongLine) {
			return Orders{}, fmt.Errorf("line %d: %w", c.number+1, err)
		}
		c.take(line, err)
		if errors.Is(err, io.EOF) {
			return c.read, nil
		}
	}
}

var errLongLine = fmt.Errorf("is longer than %d bytes", MaxLineBytes)

// readLine returns the next line, whose bytes are valid until the next call, or
// errLongLine once it has passed over it. A long line at the end is followed by an
// empty one.
func readLine(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	long := len(bytes.TrimRight(line, "\r\n")) > MaxLineBytes
	for errors.Is(err, bufio.ErrBufferFull) {
		long = true
		_, err = in.ReadSlice('\n')
	}
	if long && (err == nil || errors.Is(err, io.EOF)) {
		return nil, errLongLine
	}
	return line, err
}

// A collector sorts the lines of a file into orders and skipped ones.
type collector struct {
	number int // of the line taken last
	read   Orders
	orders map[string]Order // by id
	lines  map[string]int   // where each id was first
}

// take judges the next line, or what was wrong with reading it.
func (c *collector) take(line []byte, err error) {
	c.number++
	if c.number == 1 {
		line = bytes.TrimPrefix(line, []byte("\ufeff"))
	}
	if line = bytes.Trim(line, " \t\r\n"); len(line) == 0 && !errors.Is(err, errLongLine) {
		return
	}
	if errors.Is(err, errLongLine) {
		c.skip(err)
		return
	}
	o, err := parseOrder(line)
	if err == nil {
		err = c.unique(o)
	}
	if err != nil {
		c.skip(err)
		return
	}
	c.orders[o.ID], c.lines[o.ID] = o, c.number
	c.read.Valid = append(c.read.Valid, o)
}

func (c *collector) skip(why error) {
	c.read.Skipped = append(c.read.Skipped, SkippedLine{c.number, why.Error()})
}

// unique says what is wrong with an order whose id was there before.
func (c *collector) unique(o Order) error {
	earlier, seen := c.orders[o.ID]
	switch {
	case !seen:
		return nil
	case earlier == o:
		return fmt.Errorf("repeats the order %s of line %d", quote(o.ID), c.lines[o.ID])
	}
	return fmt.Errorf("the id %s belongs to another order, on line %d", quote(o.ID), c.lines[o.ID])
}
