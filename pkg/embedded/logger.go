package embedded

import (
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// core passes on what is at or above a level that can be raised later. (zap's
// IncreaseLevel complains where the logger's own level is the higher one.)
type core struct {
	zapcore.Core
	level zap.AtomicLevel
}

// newLogger returns etcd's logger and the level that silences it.
func newLogger(logger *zap.Logger) (*zap.Logger, zap.AtomicLevel) {
	level := zap.NewAtomicLevelAt(zapcore.WarnLevel)
	return logger.Named("etcd").WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		return core{withoutRepeats(c), level}
	})), level
}

func (c core) Enabled(l zapcore.Level) bool { return c.level.Enabled(l) && c.Core.Enabled(l) }

func (c core) With(fields []zapcore.Field) zapcore.Core { return core{c.Core.With(fields), c.level} }

func (c core) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.level.Enabled(e.Level) || expected(e.Message) {
		return checked
	}
	return c.Core.Check(e, checked)
}

// expected says whether etcd logs the message, always or by chance, at the healthy
// start of a server like this one: with HTTP and gRPC on one port, without users,
// and asked for the version of its data before it has written one.
func expected(message string) bool {
	switch message {
	case "simple token is not cryptographically signed", "Failed to detect schema version", "failed to update storage version":
		return true
	}
	return strings.HasPrefix(message, "Running http and grpc server on single port")
}
