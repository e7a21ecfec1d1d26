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

// longestProfile is the longest profile, in seconds, that a server takes in one request.
const longestProfile = 60

// Profile is a profile being taken.
type Profile struct {
	done chan error
}

// StartProfile makes a server profile its CPU use for about span, and writes the profile to file.
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
	seconds := int(min(max(math.Round(span.Seconds()), 1), longestProfile))
	body, err := s.profile(ctx, fmt.Sprintf("profile?seconds=%d", seconds))
	if err != nil {
		return err
	}
	return os.WriteFile(file, body, 0o644)
}

// Collect makes a server collect its garbage and return free memory to the system.
func (s *Server) Collect(ctx context.Context) error {
	if _, err := s.profile(ctx, "heap"); err != nil {
		return fmt.Errorf("have the server give memory back: %w", err)
	}
	return nil
}

func (s *Server) profile(ctx context.Context, which string) ([]byte, error) {
	scheme := "http"
	if s.TLS {
		scheme = "https"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s://%s/debug/pprof/%s", scheme, s.HTTP, which), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+s.Key)
	c := client()
	defer c.CloseIdleConnections()
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("HTTP status %s: %.200s", resp.Status, body)
	}
	return body, nil
}
