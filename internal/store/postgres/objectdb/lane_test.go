package objectdb

import (
	"slices"
	"testing"
)

func TestQueuedWritesShareTheNextCommitAndAppsTakeTurns(t *testing.T) {
	var written [][]string
	begun, goOn := make(chan struct{}), make(chan struct{})
	l := newLane(func(string) int { return laneRows / 4 }, func(batch []string) {
		written = append(written, batch)
		if len(written) == 1 {
			close(begun)
			<-goOn
		}
	})
	l.add("a", "a1")
	<-begun
	for _, v := range []string{"a2", "a3", "a4", "a5", "b1", "c1"} {
		l.add(v[:1], v)
	}
	close(goOn)
	l.close()
	want := [][]string{{"a1"}, {"a2", "b1", "c1", "a3"}, {"a4", "a5"}}
	if !slices.EqualFunc(written, want, slices.Equal) {
		t.Errorf("written are %v, want %v", written, want)
	}
	if l.add("a", "late") {
		t.Error("a closed lane takes something")
	}
}
