package session

import "sync"

// jobs runs functions in the order given, at most limit at once, with goroutines that end when nothing is queued:
// a storm of hellos neither starts a goroutine each nor waits for the slowest.
type jobs struct {
	limit   int
	mu      sync.Mutex
	queue   []func()
	running int
	wg      sync.WaitGroup
}

func (j *jobs) do(f func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.queue = append(j.queue, f)
	if j.running < j.limit {
		j.running++
		j.wg.Go(j.run)
	}
}

func (j *jobs) run() {
	for {
		j.mu.Lock()
		if len(j.queue) == 0 {
			j.running--
			j.queue = nil
			j.mu.Unlock()
			return
		}
		f := j.queue[0]
		j.queue[0] = nil
		j.queue = j.queue[1:]
		j.mu.Unlock()
		f()
	}
}

func (j *jobs) wait() { j.wg.Wait() }
