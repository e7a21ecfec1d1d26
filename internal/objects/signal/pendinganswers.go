package signal

import "godwit.dev/godwit/internal/objects/object"

// pendingAnswers are the answers to a client's register frames, in their order. Each waits until its change was stored, or its store
// failed. Beyond maxAnswers, one further answer replaces all the others and holds only the digest.
type pendingAnswers struct{ answers []answer }

// answer is the answer to one register frame.
type answer struct {
	change  uint32
	group   string
	objects []string // empty: the digest alone
	lost    bool     // the change could not be stored
}

// add adds the answer that belongs to a change.
func (o *pendingAnswers) add(change uint32, group string, objects []string) {
	switch n := len(o.answers); {
	case n < maxAnswers:
		o.answers = append(o.answers, answer{change: change, group: group, objects: objects})
	case n == maxAnswers:
		o.answers = append(o.answers, answer{change: change})
	default:
		o.answers[n-1] = answer{change: change}
	}
}

// lose records that all changes up to the given one could not be stored.
func (o *pendingAnswers) lose(change uint32) {
	for i := range o.answers {
		if o.answers[i].change <= change {
			o.answers[i].lost = true
		}
	}
}

// next returns the answer that can be sent now, or nil. stored is the last change that is on disk.
func (o *pendingAnswers) next(stored uint32) *answer {
	if len(o.answers) == 0 {
		return nil
	}
	if a := &o.answers[0]; a.lost || a.change <= stored {
		return a
	}
	return nil
}

// pop removes the answer that next returned.
func (o *pendingAnswers) pop() {
	if o.answers = o.answers[1:]; len(o.answers) == 0 {
		o.answers = nil
	}
}

func (o *pendingAnswers) none() bool { return len(o.answers) == 0 }

// reset collects a whole set from several frames, and the answers to the frames until the set is complete.
type reset struct {
	keys    []object.Key
	pending pendingAnswers
}
