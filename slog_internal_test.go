package holdfast

// White-box: the core is reached by tests without an etcd.

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

func slogLines(t *testing.T, level slog.Level, write func(*zap.Logger)) []string {
	t.Helper()
	var out bytes.Buffer
	drop := func(groups []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey && len(groups) == 0 {
			return slog.Attr{}
		}
		return a
	}
	cfg := clientConfig{}
	Slog(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level, ReplaceAttr: drop}))(&cfg)
	write(cfg.logger)
	var lines []string
	for line := range bytes.Lines(out.Bytes()) {
		lines = append(lines, string(bytes.TrimSpace(line)))
	}
	return lines
}

func TestSlogTakesZapsEntries(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name  string
		write func(*zap.Logger)
		want  []string
	}{
		{"levels", func(l *zap.Logger) {
			l.Debug("a")
			l.Info("b")
			l.Warn("c")
			l.Error("d")
		}, []string{"level=INFO msg=b", "level=WARN msg=c", "level=ERROR msg=d"}},
		{"fields", func(l *zap.Logger) {
			l.Info("m", zap.String("b", "x y"), zap.Int64("a", 7), zap.Duration("c", time.Second), zap.Error(errors.New("boom")))
		}, []string{`level=INFO msg=m a=7 b="x y" c=1s error=boom`}},
		{"bound fields and a name", func(l *zap.Logger) {
			l.Named("worker").With(zap.String("execution", "order-42")).Warn("m", zap.Bool("ok", true))
		}, []string{"level=WARN msg=m execution=order-42 logger=worker ok=true"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			wantList(t, "lines", slogLines(t, slog.LevelInfo, c.write), c.want)
		})
	}
}

func TestSlogLevelsOfTheHandlerHold(t *testing.T) {
	t.Parallel()
	lines := slogLines(t, slog.LevelError, func(l *zap.Logger) {
		wantEqual(t, "enabled", l.Core().Enabled(zapcore.WarnLevel), false)
		l.Warn("dropped")
		l.Error("kept")
		if err := l.Sync(); err != nil {
			t.Error(err)
		}
	})
	wantList(t, "lines", lines, []string{"level=ERROR msg=kept"})
}

func TestNilLoggersAreSilent(t *testing.T) {
	t.Parallel()
	cfg := clientConfig{logger: zap.NewNop()}
	Logger(nil)(&cfg)
	Slog(nil)(&cfg)
	wantEqual(t, "enabled", cfg.logger.Core().Enabled(zapcore.FatalLevel), false)
}
