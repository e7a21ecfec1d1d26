package content

import (
	"encoding/json"
	"fmt"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
)

// step is the stored form of a step. Zero values are omitted, as in rows written before the field existed.
type step struct {
	Channel string `json:"channel"`
	AfterMS int64  `json:"after_ms"`
	Shown   bool   `json:"shown,omitempty"`
	Keep    bool   `json:"keep,omitempty"`
	To      string `json:"to,omitempty"`
}

// EncodeSteps returns the stored form of an escalation's steps.
func EncodeSteps(steps []notification.Step) []byte {
	stored := make([]step, len(steps))
	for i, s := range steps {
		stored[i] = step{s.Channel, s.After.Milliseconds(), s.Shown, s.Keep, s.To}
	}
	b, _ := json.Marshal(stored) // texts and numbers only
	return b
}

// mostAfter is longer than any step may wait, in milliseconds.
const mostAfter = int64(2 * notification.MaxTTL / time.Millisecond)

// DecodeSteps is the reverse.
func DecodeSteps(b []byte) ([]notification.Step, error) {
	var stored []step
	if err := json.Unmarshal(b, &stored); err != nil || len(stored) == 0 || len(stored) > notification.MaxSteps {
		return nil, fmt.Errorf("steps of an escalation: %w", errDamaged)
	}
	steps := make([]notification.Step, len(stored))
	for i, s := range stored {
		if s.Channel == "" || s.AfterMS < 0 || s.AfterMS > mostAfter {
			return nil, fmt.Errorf("steps of an escalation: %w", errDamaged)
		}
		steps[i] = notification.Step{
			Channel: s.Channel, After: time.Duration(s.AfterMS) * time.Millisecond,
			StepOptions: notification.StepOptions{Shown: s.Shown, Keep: s.Keep, To: s.To},
		}
	}
	return steps, nil
}
