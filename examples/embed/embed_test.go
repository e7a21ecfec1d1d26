package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestTheProgramNotifiesItself(t *testing.T) {
	out, in := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, "127.0.0.1:0", t.TempDir(), in)
		in.CloseWithError(io.EOF)
		ended <- err
	}()
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal(<-ended)
	}
	command := strings.Fields(lines.Text())
	res, err := http.Post(command[len(command)-1], "", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	id, status, _ := strings.Cut(strings.TrimSpace(string(answer)), " ")
	if err != nil || res.StatusCode != http.StatusOK || status != "stored" {
		t.Fatalf("%d %s, %v", res.StatusCode, answer, err)
	}
	if !lines.Scan() || lines.Text() != "office got "+id+" New ride" {
		t.Errorf("heard %q of %s", lines.Text(), id)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
