package nammayatri

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Limits of the HTTP listener, which probes and scrapes use.
const (
	healthPatience = 2 * time.Second
	scrapePatience = 10 * time.Second
)

// up is what the service says of itself.
const up = "Notification Service Is Up!"

// Handler serves /health and /metrics; others are what the server counts beside.
func (s *Service) Handler(others prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", s.health)
	mux.Handle("GET /metrics", promhttp.HandlerFor(prometheus.Gatherers{s.cfg.Metrics.registry, others}, promhttp.HandlerOpts{Timeout: scrapePatience}))
	return mux
}

// health says whether notifications can be brought now.
func (s *Service) health(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	say := func(code int, text string) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text) // whoever asked may be gone
	}
	select {
	case <-s.cfg.Stopping:
		say(http.StatusServiceUnavailable, "Notification Service Is Stopping")
		return
	default:
	}
	ctx, cancel := context.WithTimeout(r.Context(), healthPatience)
	defer cancel()
	if err := s.cfg.Store.Ready(ctx); err != nil {
		s.cfg.Log.DebugContext(ctx, "not healthy", "error", err)
		say(http.StatusServiceUnavailable, "Redis Is Away")
		return
	}
	say(http.StatusOK, up)
}
