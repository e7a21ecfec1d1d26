package godwit

import (
	"math"
	"sync/atomic"
	"time"
)

// inEffect is a session's state of the subjects it serves. Only the reader uses the fields other than mark.
type inEffect struct {
	mark    atomic.Int64 // number of the ping whose pong confirms that the subjects are served; 0: none
	refused bool         // one was, for good
	told    bool
	wait    backoff
	again   *time.Timer
}

// pong handles the answer to the nth ping. It reports whether this confirms that all subjects are served from now on.
func (i *inEffect) pong(n int) bool {
	mark := i.mark.Load()
	if mark == 0 || int64(n) < mark || i.refused || i.told {
		return false
	}
	i.told = true
	return true
}

func (i *inEffect) stop() {
	if i.again != nil {
		i.again.Stop()
	}
}

// refused handles the server's error about subjects. It requests subjects again that were refused for now.
func (s *session) refused(e *frameError) {
	i := &s.serves
	if e.Code != "unavailable" || len(e.Refused) == 0 {
		i.refused = true
		return
	}
	i.mark.Store(math.MaxInt64)
	if i.again == nil {
		i.wait = backoff{base: connectBase, most: connectMost}
	}
	f := &clientFrame{Serve: &serve{Subjects: e.Refused, Queue: s.l.opts.queue}}
	i.again = time.AfterFunc(i.wait.next(), func() {
		s.l.out.frame(f)
		s.l.out.frame(s.ping())
	})
}
