package testbed

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"time"
)

// longestProfile is the most seconds a server profiles for one request.
const longestProfile = 60

// Profile is a profile being taken.
type Profile struct {
	done chan error
}

// StartProfile has a server profile its CPU for about span, into file.
func StartProfile(ctx context.Context, s *Server, span time.Duration, file string) *Profile {
	p := &Profile{done: make(chan error, 1)}
	go func() { p.done <- fetchProfile(ctx, s, span, file) }()
	return p
}

// Wait waits until the profile is written.
func (p *Profile) Wait() error {
	if p == nil {
		return nil
	}
	if err := <-p.done; err != nil {
		return fmt.Errorf("profile the server: %w", err)
	}
	return nil
}

func fetchProfile(ctx context.Context, s *Server, span time.Duration, file string) error {
	scheme := "http"
	if s.TLS {
		scheme = "https"
	}
	seconds := int(min(max(math.Round(span.Seconds()), 1), longestProfile))
	url := fmt.Sprintf("%s://%s/debug/pprof/profile?seconds=%d", scheme, s.HTTP, seconds)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.Key)
	resp, err := client().Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("HTTP status %s: %.200s", resp.Status, body)
	}
	return os.WriteFile(file, body, 0o644)
}
