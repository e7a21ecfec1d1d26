package quicgate_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/clients/go/quic"
	"godwit.dev/godwit/internal/gateway/gatetest"
	"godwit.dev/godwit/internal/gateway/quicgate"
	"godwit.dev/godwit/internal/notify/notification"
)

// TestSessionOutlivesAHundredMoves moves the Go client's socket again and again while notifications come: none is lost, none comes by a
// second session.
func TestSessionOutlivesAHundredMoves(t *testing.T) {
	s := start(t, quicgate.Config{})
	d := doorOf(s)
	c, err := godwit.New("quic://"+d.addr, quic.Enable(), godwit.WithRootCAs(d.roots), godwit.WithApp(gatetest.App))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	sessions, got := make(chan struct{}, 100), make(chan string, 100)
	var listening sync.WaitGroup
	listening.Go(func() {
		_ = c.Listen(ctx, "driver-1", func(_ context.Context, n *godwit.Notification) error { got <- n.ID; return nil }, godwit.OnConnect(func(godwit.Welcome) { sessions <- struct{}{} }))
	})
	defer listening.Wait()
	defer cancel()
	<-sessions
	const moves, each = 100, 5
	go func() {
		for i := range moves * each {
			s.Send(t, notification.Draft{To: []string{"driver-1"}, ID: fmt.Sprint("n", i), Content: notification.Content{Title: "Ride"}})
		}
	}()
	seen := make(map[string]bool)
	late := time.After(gatetest.Patience)
	for i := range moves {
		if err := c.NetworkChanged(ctx); err != nil {
			t.Fatalf("move %d: %v", i, err)
		}
		for range each {
			select {
			case id := <-got:
				seen[id] = true
			case <-late:
				t.Fatalf("after %d moves, %d have come", i, len(seen))
			}
		}
	}
	for len(seen) < moves*each {
		select {
		case id := <-got:
			seen[id] = true
		case <-late:
			t.Fatalf("%d of %d have come", len(seen), moves*each)
		}
	}
	if len(sessions) > 0 {
		t.Errorf("the client has connected %d more times", len(sessions))
	}
	if n := d.Moves(); n < moves/2 { // it counts when it reads a frame
		t.Errorf("the server has seen %v moves of %d", n, moves)
	}
}
