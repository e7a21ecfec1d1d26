package nammayatri

import (
	"io"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// scrapePatience limits the time of a scrape.
const scrapePatience = 10 * time.Second

// up is the answer of /health while the service runs.
const up = "Notification Service Is Up!"

// Handler serves /health and /metrics; others are further metrics of the server.
func (s *Service) Handler(others prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", s.health)
	mux.Handle("GET /metrics", promhttp.HandlerFor(prometheus.Gatherers{s.cfg.Metrics.registry, others}, promhttp.HandlerOpts{Timeout: scrapePatience}))
	return mux
}

// health answers as the replaced service does, so that the probes of its deployments keep working: 200 until the service stops. During an
// outage of Redis it still answers 200, because a restart would end the connections; /readyz reports the outage.
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
