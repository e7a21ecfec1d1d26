package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// result is the result of a mutant, a JSON line in the file of results.
type result struct {
	Mutant  string  `json:"mutant"`
	By      string  `json:"noticed_by,omitempty"` // package; empty: it survived
	Why     string  `json:"why,omitempty"`
	Reached bool    `json:"reached"` // by a test
	Seconds float64 `json:"seconds"`
}

// results is the file of results. Each is written immediately, so that an interrupted run can continue.
type results struct{ file *os.File }

// openResults opens the file of results, and returns the mutants that were noticed. Surviving mutants are tried again, since tests may have
// been added for them.
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
	text, err := io.ReadAll(f)
	whole := bytes.LastIndexByte(text, '\n') + 1 // an incomplete last line was being written when a run was killed
	if err == nil {
		err = f.Truncate(int64(whole))
	}
	if err == nil {
		_, err = f.Seek(int64(whole), io.SeekStart)
	}
	for line := range bytes.Lines(text[:whole]) {
		var r result
		if err == nil {
			err = json.Unmarshal(line, &r)
		}
		noticed[r.Mutant] = r.By != ""
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, fmt.Errorf("read what was found before, without -resume it is begun anew: %s: %w", d.results, err)
	}
	return &results{f}, noticed, nil
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
