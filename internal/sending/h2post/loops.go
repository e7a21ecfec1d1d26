package h2post

import "sync"

// loops counts the goroutines of a client's connections. Unlike with a sync.WaitGroup, a goroutine may begin while wait is waiting.
type loops struct {
	mu    sync.Mutex
	n     int
	ended chan struct{} // closed when n becomes 0; nil: nobody waits
}

// begin runs fn in a goroutine of its own.
func (l *loops) begin(fn func()) {
	l.mu.Lock()
	l.n++
	l.mu.Unlock()
	go func() {
		defer l.end()
		fn()
	}()
}

func (l *loops) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n--; l.n == 0 && l.ended != nil {
		close(l.ended)
		l.ended = nil
	}
}

// wait returns once no goroutine is left.
func (l *loops) wait() {
	l.mu.Lock()
	if l.n > 0 && l.ended == nil {
		l.ended = make(chan struct{})
	}
	n, ended := l.n, l.ended
	l.mu.Unlock()
	if n > 0 {
		<-ended
	}
}
