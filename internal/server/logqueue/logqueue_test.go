package logqueue_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"godwit.dev/godwit/internal/server/logqueue"
)

// reader reads only after the test allows it.
type reader struct {
	let chan struct{}
	got bytes.Buffer
}

func (r *reader) Write(b []byte) (int, error) {
	<-r.let
	return r.got.Write(b)
}

func TestLinesKeepTheirOrder(t *testing.T) {
	var got bytes.Buffer
	q := logqueue.New(&got, nil)
	var want strings.Builder
	for i := range 1000 {
		fmt.Fprintf(q, "line %d\n", i)
		fmt.Fprintf(&want, "line %d\n", i)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if got.String() != want.String() {
		t.Errorf("wrote %d bytes that differ from the %d logged", got.Len(), want.Len())
	}
	if n := q.Dropped(); n != 0 {
		t.Errorf("dropped %d lines", n)
	}
}

func TestStandingReaderBlocksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{let: make(chan struct{})}
		q := logqueue.New(r, func(lost uint64) []byte { return fmt.Appendf(nil, "lost %d\n", lost) })
		line := []byte(strings.Repeat("x", 1023) + "\n")
		_, _ = q.Write([]byte("first\n"))
		synctest.Wait() // the first line is on its way
		const more = 10
		for range logqueue.MaxBytes/len(line) + more {
			if n, err := q.Write(line); n != len(line) || err != nil {
				t.Fatalf("Write returns %d, %v", n, err)
			}
		}
		if n := q.Dropped(); n != more {
			t.Errorf("dropped %d lines, want %d", n, more)
		}
		close(r.let)
		synctest.Wait()
		_, _ = q.Write([]byte("last\n"))
		_ = q.Close()
		if text := r.got.String(); !strings.HasPrefix(text, "first\n") || !strings.HasSuffix(text, "\nlost 10\nlast\n") {
			t.Errorf("wrote %.20q … %q", text, text[max(0, len(text)-40):])
		}
	})
}

func TestCloseWaitsForAStandingReaderWithinBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{let: make(chan struct{})}
		q := logqueue.New(r, nil)
		_, _ = q.Write([]byte("line\n"))
		begun := time.Now()
		_ = q.Close()
		if took := time.Since(begun); took != logqueue.FlushPatience {
			t.Errorf("Close took %s, want %s", took, logqueue.FlushPatience)
		}
		close(r.let)
	})
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestLinesToABrokenPipeAreCounted(t *testing.T) {
	q := logqueue.New(broken{}, nil)
	_, _ = q.Write([]byte("one\n"))
	_, _ = q.Write([]byte("two\n"))
	_ = q.Close()
	if n := q.Dropped(); n != 2 {
		t.Errorf("counted %d lost lines, want 2", n)
	}
}
