package fair

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
)

func TestOneAppLeavesAPlaceForTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPlaces(3)
		var got []string
		enter := func(app string) {
			go func() {
				if p.Enter(t.Context(), app) == nil {
					got = append(got, app)
				}
			}()
			synctest.Wait()
		}
		for range 5 {
			enter("hostile")
		}
		enter("good")
		enter("other")
		if want := []string{"hostile", "hostile", "good"}; !slices.Equal(got, want) {
			t.Errorf("in are %v, want %v", got, want)
		}
		p.Leave("hostile")
		synctest.Wait()
		if want := []string{"hostile", "hostile", "good", "hostile"}; !slices.Equal(got, want) {
			t.Errorf("then are %v, want %v: the one that waited longer first", got, want)
		}
		for _, app := range []string{"good", "hostile", "hostile", "other", "hostile", "hostile"} {
			p.Leave(app)
			synctest.Wait()
		}
		if len(got) != 7 || len(p.apps) != 0 || len(p.turns) != 0 || p.taken != 0 {
			t.Errorf("%d came in; left are %d apps, %d turns, %d places", len(got), len(p.apps), len(p.turns), p.taken)
		}
	})
}

func TestCancelledWaiterTakesNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPlaces(1)
		if err := p.Enter(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		gaveUp := errors.New("gave up")
		ctx, cancel := context.WithCancelCause(t.Context())
		result := make(chan error, 1)
		go func() { result <- p.Enter(ctx, "b") }()
		synctest.Wait()
		cancel(gaveUp)
		if err := <-result; !errors.Is(err, gaveUp) {
			t.Errorf("Enter gave %v", err)
		}
		p.Leave("a")
		if err := p.Enter(t.Context(), "c"); err != nil || p.taken != 1 || len(p.apps) != 1 {
			t.Errorf("%v; %d places are taken by %d apps", err, p.taken, len(p.apps))
		}
	})
}

// A place granted at the moment when its app gives up is given back.
func TestAPlaceThatComesTooLateIsGivenBack(t *testing.T) {
	for range 200 {
		p := NewPlaces(1)
		if err := p.Enter(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() { result <- p.Enter(ctx, "b") }()
		go cancel()
		p.Leave("a")
		if <-result == nil {
			p.Leave("b")
		}
		if p.taken != 0 || len(p.apps) != 0 || len(p.turns) != 0 {
			t.Fatalf("left are %d places, %d apps, %d turns", p.taken, len(p.apps), len(p.turns))
		}
	}
}
