package notes_test

import (
	"testing"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store/notes"
)

// BenchmarkMarkAndTake measures the cost of notes for a delivery that is acknowledged.
func BenchmarkMarkAndTake(b *testing.B) {
	const round = 3000
	var n notes.Notes
	marks := make([]mailbox.Mark, round)
	for i := range marks {
		marks[i] = mailbox.Mark{App: app, Recipient: to, Pos: int64(i), Attempts: 1, DeliveredAt: at(20)}
	}
	b.ReportAllocs()
	for b.Loop() {
		n.Mark(marks, 20)
		for i := range marks {
			n.TakeMark(marks[i].Pos)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*round), "ns/copy")
}
