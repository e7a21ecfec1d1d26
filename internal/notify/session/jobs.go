package session

import "sync"

// jobs does things in the order given, at most limit at once, with goroutines that end when nothing is queued: a
// storm of hellos neither starts a goroutine each nor waits for the slowest.
type jobs[T any] struct {
	limit   int
	do      func(T)
	mu      sync.Mutex
	queue   []T
	running int
	wg      sync.WaitGroup
}

func (j *jobs[T]) add(job T) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.queue = append(j.queue, job)
	if j.running < j.limit {
		j.running++
		j.wg.Go(j.run)
	}
}

func (j *jobs[T]) run() {
	for {
		j.mu.Lock()
		if len(j.queue) == 0 {
			j.running--
			j.queue = nil
			j.mu.Unlock()
			return
		}
		job := j.queue[0]
		var none T
		j.queue[0] = none
		j.queue = j.queue[1:]
		j.mu.Unlock()
		j.do(job)
	}
}

func (j *jobs[T]) wait() { j.wg.Wait() }
