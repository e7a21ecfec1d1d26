package session

import "sync"

// jobs runs tasks in the given order, at most limit at the same time, with goroutines that end when the queue is empty. So a storm of
// hellos does not start a goroutine each, and the slowest hello does not delay the rest.
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
