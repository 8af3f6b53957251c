package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// A Message is a part of the talk with the model. With a Tool it asks for the tool, with
// Text as the argument, or is what that has said.
type Message struct {
	Role string `json:"role"` // user, model or tool
	Tool string `json:"tool,omitempty"`
	Text string `json:"text"`
}

// ask sends the talk to the model, and returns what it says.
func ask(ctx context.Context, url string, talk []Message) (say Message, err error) {
	body, err := json.Marshal(talk)
	if err != nil {
		return say, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return say, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return say, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return say, fmt.Errorf("the model answers %s", res.Status)
	}
	return say, json.NewDecoder(res.Body).Decode(&say)
}

// pretend is a model that knows one trick: it searches, books, and says what came of it.
func pretend(w http.ResponseWriter, r *http.Request) {
	var talk []Message
	if err := json.NewDecoder(r.Body).Decode(&talk); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	say := Message{Role: "model"}
	switch last := talk[len(talk)-1]; {
	case last.Role == "user":
		_, where, _ := strings.Cut(last.Text, " to ")
		say.Tool, say.Text = "search", where
	case last.Tool == "search":
		say.Tool, say.Text = "book", "the first train"
	default:
		say.Text = "Done: " + last.Text + "."
	}
	if err := json.NewEncoder(w).Encode(say); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
