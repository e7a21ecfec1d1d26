package reactor

import "testing"

// TestLaterComesAfterTheInputOfAllConnections has one connection keep the loop until others have written.
func TestLaterComesAfterTheInputOfAllConnections(t *testing.T) {
	eachDriver(t, Config{Loops: 1}, func(t *testing.T, h *harness) {
		busy, goOn := make(chan bool), make(chan bool)
		calls := make(chan int, 10) // how many connections had input before
		read := 0
		addr := h.handle(func(c *Conn) Handler {
			f := newFake()
			f.data = func(b []byte) (int, error) {
				if string(b) == "stay" {
					busy <- true
					<-goOn
					return len(b), nil
				}
				if c.sock != nil {
					if c.Later(func() {}) {
						t.Error("a driver without rounds promises a call")
					}
					calls <- 2
					return len(b), nil
				}
				read++
				if !c.Later(func() { calls <- read }) {
					t.Error("the loop promises no call")
				}
				return len(b), nil
			}
			return f
		})
		others := []interface{ Write([]byte) (int, error) }{h.dial(addr), h.dial(addr)}
		if _, err := h.dial(addr).Write([]byte("stay")); err != nil {
			t.Fatal(err)
		}
		wait(t, busy, "the connection that keeps the loop")
		for _, c := range others {
			if _, err := c.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		goOn <- true
		for range others {
			if n := wait(t, calls, "a call"); n != 2 {
				t.Errorf("a call came after the input of %d connections, want 2", n)
			}
		}
	})
}
