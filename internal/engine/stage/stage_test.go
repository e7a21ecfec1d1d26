package stage_test

import (
	"bytes"
	"runtime/pprof"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/engine/stage"
)

// TestMarkNamesTheGoroutineAndTheFunctionThatMarksIt: the list of goroutines shows labels as CPU profiles do.
func TestMarkNamesTheGoroutineAndTheFunctionThatMarksIt(t *testing.T) {
	marked, end := make(chan struct{}), make(chan struct{})
	go marks(marked, end)
	<-marked
	defer close(end)
	var list bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&list, 1); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"goroutine":"loop"`, `"n":"3"`, `"in":"godwit.dev/godwit/internal/engine/stage_test.marks"`} {
		if !strings.Contains(list.String(), want) {
			t.Errorf("no goroutine has the label %s:\n%s", want, &list)
		}
	}
}

func marks(marked chan<- struct{}, end <-chan struct{}) {
	stage.Mark("loop", 3)
	close(marked)
	<-end
}
