// The agent example lets a language model work with tools. Each answer of the model and
// each call of a tool is a step, so that a crash repeats none; what costs money waits for
// a human. The model is a small server in this process that only pretends to think.
//
//	go run ./examples/agent
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast"
)

// maxTurns bounds how often the model is asked.
const maxTurns = 10

// A Task is what the agent is to do, with the help of the model at the URL.
type Task struct{ Goal, Model string }

// Approved is the event by which a human says yes or no to what an agent wants to do.
var Approved = holdfast.DefineEvent[bool]("approved")

// Agent asks the model what to do next, and does it, until the model has an answer.
var Agent = holdfast.Define("agent", func(ctx holdfast.Context, t Task) (string, error) {
	talk := []Message{{Role: "user", Text: t.Goal}}
	for turn := range maxTurns {
		say, err := holdfast.Step(ctx, fmt.Sprintf("model %d", turn), func(ctx context.Context) (Message, error) {
			return ask(ctx, t.Model, talk)
		}, holdfast.MaxAttempts(5))
		if err != nil {
			return "", err
		}
		if say.Tool == "" {
			return say.Text, nil
		}
		result, err := use(ctx, turn, say)
		if err != nil {
			return "", err
		}
		talk = append(talk, say, Message{Role: "tool", Tool: say.Tool, Text: result})
	}
	return "", fmt.Errorf("no answer after %d turns", maxTurns)
})

// use calls a tool, if a human allows it where that is needed. A tool that fails is for
// the model to deal with.
func use(ctx holdfast.Context, turn int, say Message) (string, error) {
	tool, known := tools[say.Tool]
	if !known {
		return "there is no tool " + say.Tool, nil
	}
	if tool.costs {
		yes, err := Approved.Await(ctx, 72*time.Hour, holdfast.AsStep(fmt.Sprintf("approval %d", turn)))
		switch {
		case errors.Is(err, holdfast.ErrNoEvent):
			return "nobody has approved it in time", nil
		case err != nil:
			return "", err
		case !yes:
			return "a human has refused it", nil
		}
	}
	result, err := holdfast.Step(ctx, fmt.Sprintf("%s %d", say.Tool, turn), func(ctx context.Context) (string, error) {
		return tool.call(say.Text, holdfast.Fence(ctx).Key)
	})
	if holdfast.Failed(err) {
		return "it failed: " + err.Error(), nil
	}
	return result, err
}

// A tool is what the model may ask for. It is given a key that is the same however
// often the step runs.
type tool struct {
	costs bool
	call  func(arg, key string) (string, error)
}

var tools = map[string]tool{
	"search": {call: func(arg, _ string) (string, error) { return "two trains go to " + arg, nil }},
	"book":   {costs: true, call: func(arg, key string) (string, error) { return "booked " + arg + " under " + key[:6], nil }},
}
