package pace

import (
	"testing"
	"time"
)

func TestUrgentMessageTakesTheNextTurn(t *testing.T) {
	begun := time.Now()
	p := New(2, begun)
	for range 2 {
		seq, wait := p.Depart(begun, 1)
		if wait > 0 {
			t.Fatal("the first two of two a second have to wait")
		}
		p.Answered(seq, begun.Add(time.Millisecond))
	}
	full := begun.Add(counting - askAgain/2)
	if _, wait := p.DepartFirst(full, 1); wait == 0 {
		t.Fatal("three of two a second")
	}
	free := begun.Add(counting + askAgain/2)
	if _, wait := p.Depart(free, 1); wait == 0 {
		t.Error("it went before the urgent one that waits")
	}
	if _, wait := p.DepartFirst(free, 1); wait > 0 {
		t.Errorf("the urgent one is to wait %s more", wait)
	}
	if _, wait := p.Depart(free, 1); wait > 0 {
		t.Errorf("the urgent one has left, and others wait %s", wait)
	}
}

func TestAnUrgentMessageThatGivesUpHoldsNobodyUp(t *testing.T) {
	begun := time.Now()
	p := New(1, begun)
	seq, _ := p.Depart(begun, 1)
	p.Answered(seq, begun.Add(time.Millisecond))
	p.DepartFirst(begun.Add(counting-time.Millisecond), 1)
	if _, wait := p.Depart(begun.Add(counting+askAgain+standBack), 1); wait > 0 {
		t.Errorf("others wait %s for one that does not come again", wait)
	}
}
