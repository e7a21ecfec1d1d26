package mailboxdb

import (
	"testing"

	"godwit.dev/godwit/internal/notify/mailbox"
)

type testOp struct {
	app  string
	rows int
}

func (o *testOp) size() (rows, bytes int)    { return o.rows, 0 }
func (o *testOp) each(func(mailbox.Address)) {}
func (o *testOp) Take() bool                 { return true }
func (o *testOp) Finish(error)               {}

func TestAppsTakeTurns(t *testing.T) {
	var q turns
	for range 10_000 {
		q.add("flood", &testOp{"flood", 1})
	}
	q.add("list", &testOp{"list", 1000})
	q.add("list", &testOp{"list", 1})
	q.add("calm", &testOp{"calm", 1})
	var order []string
	for rows := 0; q.ops > 0; {
		o := q.first().(*testOp)
		q.pop()
		if n := len(order); n == 0 || order[n-1] != o.app {
			order = append(order, o.app)
		}
		if rows += o.rows; o.app == "calm" && rows > 2*turnRows+1000 {
			t.Errorf("the calm one came after %d rows", rows)
		}
	}
	want := []string{"flood", "list", "calm", "flood", "list", "flood"}
	if len(order) != len(want) {
		t.Fatalf("turns %v, want %v", order, want)
	}
	for i := range want {
		if order[i] != want[i] {
			t.Fatalf("turns %v, want %v", order, want)
		}
	}
	if len(q.of)+len(q.next) != 0 {
		t.Error("apps with nothing waiting are kept")
	}
}
