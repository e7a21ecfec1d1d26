package nammayatri

import (
	"io"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// scrapePatience is how long a scrape may take.
const scrapePatience = 10 * time.Second

// up is what the service says of itself.
const up = "Notification Service Is Up!"

// Handler serves /health and /metrics; others are what the server counts beside.
func (s *Service) Handler(others prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", s.health)
	mux.Handle("GET /metrics", promhttp.HandlerFor(prometheus.Gatherers{s.cfg.Metrics.registry, others}, promhttp.HandlerOpts{Timeout: scrapePatience}))
	return mux
}

// health answers as that service does, so that probes of its deployments go on: it lives, until it stops. While Redis is away connections
// stay, which a restart would end; /readyz says that.
func (s *Service) health(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	text := up
	select {
	case <-s.cfg.Stopping:
		text = "Notification Service Is Stopping"
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
	}
	_, _ = io.WriteString(w, text) // whoever asked may be gone
}
