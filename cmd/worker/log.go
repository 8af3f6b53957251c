package main

import (
	"os"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// logger returns a logger for people, to standard error.
func logger(level zapcore.Level) *zap.Logger {
	cfg := zap.NewProductionEncoderConfig()
	cfg.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
	cfg.EncodeLevel = zapcore.CapitalLevelEncoder
	cfg.EncodeDuration = zapcore.StringDurationEncoder
	return zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(cfg), zapcore.Lock(os.Stderr), level))
}

// logEvents logs what becomes of the orders.
func logEvents(log *zap.Logger) execution.Observer {
	levels := map[execution.EventKind]zapcore.Level{
		execution.EventClaimed:      zapcore.DebugLevel,
		execution.EventStep:         zapcore.DebugLevel,
		execution.EventAcknowledged: zapcore.InfoLevel,
		execution.EventTakeover:     zapcore.InfoLevel,
		execution.EventEvicted:      zapcore.InfoLevel,
		execution.EventReleased:     zapcore.DebugLevel, // the dispatcher has warned of it
		execution.EventRefused:      zapcore.WarnLevel,
	}
	return func(e execution.Event) {
		level, shown := levels[e.Kind]
		if !shown {
			return
		}
		log.Log(level, string(e.Kind), zap.String("execution", string(e.ID)), zap.Int64("token", int64(e.Token)),
			word("operation", e.Operation), word("outcome", e.Outcome), zap.Error(e.Err))
	}
}

// logOutage says in the log that no provider answers, and when it does again.
func logOutage(log *zap.Logger, provider string) func(error) {
	return func(why error) {
		if why == nil {
			log.Info("the payment provider answers again", zap.String("provider", provider))
			return
		}
		log.Warn("the payment provider gives no answer; orders wait, and their charges are tried again until it does",
			zap.String("provider", provider), zap.Error(why))
	}
}

// word is a field, or nothing where it is empty.
func word(name, value string) zap.Field {
	if value == "" {
		return zap.Skip()
	}
	return zap.String(name, value)
}

// both tells two observers.
func both(a, b execution.Observer) execution.Observer {
	return func(e execution.Event) {
		a(e)
		b(e)
	}
}
