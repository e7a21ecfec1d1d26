package escalation

import (
	"context"
	"time"

	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/notify/mailbox"
)

// Foresee predicts how the recipient's present preferences will decide about a step that begins at a time. It ignores limits, which depend
// on counts.
func (s *Service) Foresee(ctx context.Context, d *mailbox.StepDue, at time.Time) (preference.Verdict, error) {
	asked, err := s.ask(ctx, []mailbox.StepDue{*d}, at)
	if err != nil {
		return preference.Verdict{}, err
	}
	return asked[0].Verdict, nil
}
