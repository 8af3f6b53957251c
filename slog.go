package holdfast

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"go.uber.org/zap/zapcore"
)

// A slogCore writes a zap logger's entries to a slog handler.
type slogCore struct{ handler slog.Handler }

// Enabled asks the handler.
func (c *slogCore) Enabled(l zapcore.Level) bool {
	return c.handler.Enabled(context.Background(), slogLevel(l))
}

// With returns a core whose entries have the fields too.
func (c *slogCore) With(fields []zapcore.Field) zapcore.Core {
	return &slogCore{handler: c.handler.WithAttrs(slogAttrs(fields))}
}

// Check adds the core to the entry if the handler wants its level.
func (c *slogCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write hands the entry to the handler.
func (c *slogCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	rec := slog.NewRecord(e.Time, slogLevel(e.Level), e.Message, e.Caller.PC)
	if e.LoggerName != "" {
		rec.AddAttrs(slog.String("logger", e.LoggerName))
	}
	rec.AddAttrs(slogAttrs(fields)...)
	return c.handler.Handle(context.Background(), rec)
}

// Sync does nothing: a handler has no buffer that it could flush.
func (c *slogCore) Sync() error { return nil }

// slogLevel is the level's place on slog's scale, which has steps of four.
func slogLevel(l zapcore.Level) slog.Level { return slog.Level(4 * int(l)) }

func slogAttrs(fields []zapcore.Field) []slog.Attr {
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(enc)
	}
	attrs := make([]slog.Attr, 0, len(enc.Fields))
	for _, k := range slices.Sorted(maps.Keys(enc.Fields)) {
		attrs = append(attrs, slog.Any(k, enc.Fields[k]))
	}
	return attrs
}
