package digest

import "context"

// Round sends what is due now.
func (s *Service) Round(ctx context.Context) error {
	_, err := s.round(ctx, func() bool { return true })
	return err
}
