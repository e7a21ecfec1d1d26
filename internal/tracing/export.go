package tracing

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// Wanted says whether somebody has named a collector: by the setting, or by the variables of OpenTelemetry.
func Wanted(setting string) bool {
	return setting != "" || os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// Exporter sends spans over OTLP on HTTP to the collector that the setting names, or else the variables of OpenTelemetry. Those also
// say headers, certificates and how long it may take.
func Exporter(ctx context.Context, setting string) (sdk.SpanExporter, error) {
	options := []otlptracehttp.Option{otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: time.Second, MaxInterval: 5 * time.Second, MaxElapsedTime: sendWithin})}
	if setting != "" {
		to, err := endpoint(setting)
		if err != nil {
			return nil, err
		}
		options = append(options, otlptracehttp.WithEndpointURL(to))
	}
	e, err := otlptrace.New(ctx, otlptracehttp.NewClient(options...))
	if err != nil {
		return nil, fmt.Errorf("start sending traces: %w", err)
	}
	return e, nil
}

// endpoint is where a collector takes traces whose URL is given as OTEL_EXPORTER_OTLP_ENDPOINT has it.
func endpoint(setting string) (string, error) {
	u, err := url.Parse(setting)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("send traces to %q: a collector's URL is like http://localhost:4318", setting)
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + "/v1/traces"
	return u.String(), nil
}
