package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"time"
)

// result is an event of `go test -json`.
type result struct {
	Time    time.Time
	Action  string
	Package string
	Output  string  `json:",omitempty"`
	Elapsed float64 `json:",omitempty"`
}

// makeAll makes all targets at once, even if some of them fail.
func makeAll(ctx context.Context, targets []string, out *lines) error {
	failed := make([]error, len(targets))
	var wg sync.WaitGroup
	for i, target := range targets {
		wg.Go(func() {
			failed[i] = report(target, exec.CommandContext(ctx, "make", "--no-print-directory", target), out)
		})
	}
	wg.Wait()
	return errors.Join(failed...)
}

// report runs a command and writes its result as that of a package. It adds the command's output to the package, in whole lines, so that a
// failure shows it.
func report(name string, cmd *exec.Cmd, out *lines) error {
	begun := time.Now()
	if err := out.result(result{Action: "start", Package: name}); err != nil {
		return err
	}
	text, failed := cmd.CombinedOutput()
	for line := range bytes.Lines(text) {
		if err := out.result(result{Action: "output", Package: name, Output: string(line)}); err != nil {
			return err
		}
	}
	end := result{Action: "pass", Package: name, Elapsed: time.Since(begun).Seconds()}
	if failed != nil {
		end.Action, failed = "fail", fmt.Errorf("make %s: %w", name, failed)
	}
	return errors.Join(failed, out.result(end))
}

func (l *lines) result(r result) error {
	r.Time = time.Now()
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write the result of %s: %w", r.Package, err)
	}
	return l.write(append(text, '\n'))
}
