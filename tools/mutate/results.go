package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// result is what became of a mutant: a line of JSON in the file of results.
type result struct {
	Mutant  string  `json:"mutant"`
	By      string  `json:"noticed_by,omitempty"` // package; empty: it survived
	Why     string  `json:"why,omitempty"`
	Reached bool    `json:"reached"` // by a test
	Seconds float64 `json:"seconds"`
}

// results is the file of results, written as they come, so that a run that was stopped can go on.
type results struct{ file *os.File }

// openResults opens the file of results, and says what it has of mutants that were noticed. Those that survived are
// tried again: tests may have been written for them.
func (d *drawing) openResults() (*results, map[string]bool, error) {
	noticed := map[string]bool{}
	if d.results == "" {
		return &results{}, noticed, nil
	}
	if err := os.MkdirAll(filepath.Dir(d.results), 0o750); err != nil {
		return nil, nil, err
	}
	how := os.O_RDWR | os.O_CREATE
	if !d.resume {
		how |= os.O_TRUNC
	}
	f, err := os.OpenFile(d.results, how, 0o600)
	if err != nil {
		return nil, nil, err
	}
	for dec := json.NewDecoder(f); ; {
		var r result
		switch err := dec.Decode(&r); {
		case errors.Is(err, io.EOF):
			return &results{f}, noticed, nil
		case err != nil:
			_ = f.Close()
			return nil, nil, fmt.Errorf("read what was found before, without -resume it is begun anew: %s: %w", d.results, err)
		}
		noticed[r.Mutant] = r.By != ""
	}
}

func (r *results) add(one *result) error {
	if r.file == nil {
		return nil
	}
	line, err := json.Marshal(one)
	if err != nil {
		return err
	}
	_, err = r.file.Write(append(line, '\n'))
	return err
}

func (r *results) close() {
	if r.file != nil {
		_ = r.file.Close()
	}
}
