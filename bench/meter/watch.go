package meter

import (
	"context"
	"sync"
	"time"
)

// Sample is one reading of all watched processes together.
type Sample struct {
	Seconds  float64 `json:"s"`   // since watching began
	CPU      float64 `json:"cpu"` // seconds of CPU time used since watching began
	Resident int64   `json:"resident"`
}

// Watch reads processes at intervals until it is stopped.
type Watch struct {
	pids   []int
	begun  time.Time
	first  Usage
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	samples []Sample
}

// Start begins to take samples. It reads nothing if pids is empty.
func Start(pids []int, every time.Duration) *Watch {
	ctx, cancel := context.WithCancel(context.Background())
	w := &Watch{pids: pids, begun: time.Now(), cancel: cancel}
	w.first, _ = Total(pids) // a missing process becomes visible in the samples
	if len(pids) == 0 {
		return w
	}
	w.wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			w.read()
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	return w
}

func (w *Watch) read() {
	u, err := Total(w.pids)
	if err != nil {
		return // the process has ended, which its starter reports
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.samples = append(w.samples, Sample{
		Seconds: time.Since(w.begun).Seconds(), CPU: (u.CPU - w.first.CPU).Seconds(), Resident: u.Resident,
	})
}

// Stop takes a last reading, ends watching and returns all readings.
func (w *Watch) Stop() []Sample {
	w.cancel()
	w.wg.Wait()
	if len(w.pids) > 0 {
		w.read()
	}
	return w.samples
}

// Until returns the samples up to the first taken after d.
func Until(samples []Sample, d time.Duration) []Sample {
	for i, s := range samples {
		if s.Seconds >= d.Seconds() {
			return samples[:i+1]
		}
	}
	return samples
}

// Peak returns the highest memory among the samples, in bytes.
func Peak(samples []Sample) (most int64) {
	for _, s := range samples {
		most = max(most, s.Resident)
	}
	return most
}

// CPU returns the CPU time used over the samples, in seconds.
func CPU(samples []Sample) float64 {
	if len(samples) == 0 {
		return 0
	}
	return samples[len(samples)-1].CPU - samples[0].CPU
}

// Total adds up the current usage of several processes.
func Total(pids []int) (sum Usage, err error) {
	for _, pid := range pids {
		u, err := Read(pid)
		if err != nil {
			return sum, err
		}
		sum.CPU += u.CPU
		sum.Resident += u.Resident
		sum.Peak += u.Peak
		sum.Threads += u.Threads
	}
	return sum, nil
}
