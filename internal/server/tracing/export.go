package tracing

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"godwit.dev/godwit/internal/sending/foreign"
)

// maxAnswer limits the part of a collector's answer that is read, in bytes: its reason for refusing a request is logged.
const maxAnswer = 64 << 10

// WantsTraces reports whether a collector for traces is configured: by the setting, or by OpenTelemetry's environment
// variables.
func WantsTraces(setting string) bool { return wants(setting, "TRACES") }

// WantsFigures reports the same for metrics.
func WantsFigures(setting string) bool { return wants(setting, "METRICS") }

func wants(setting, signal string) bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	if by := os.Getenv("OTEL_" + signal + "_EXPORTER"); by != "" && !slices.Contains(strings.Split(strings.ReplaceAll(by, " ", ""), ","), "otlp") {
		return false // "none", or a protocol that is not supported here
	}
	return setting != "" || os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
}

// Exporter sends spans over OTLP on HTTP to the collector in the setting, or else in OpenTelemetry's environment variables. These
// also set headers, certificates and the timeout.
func Exporter(ctx context.Context, setting string) (sdk.SpanExporter, error) {
	options := []otlptracehttp.Option{otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: time.Second, MaxInterval: 5 * time.Second, MaxElapsedTime: sendWithin}), otlptracehttp.WithMaxResponseSize(maxAnswer), otlptracehttp.WithProxy(proxy)}
	if setting != "" {
		to, err := endpoint(setting, "traces")
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

// FigureExporter sends figures in the same way as Exporter sends spans.
func FigureExporter(ctx context.Context, setting string) (metric.Exporter, error) {
	options := []otlpmetrichttp.Option{otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{Enabled: true, InitialInterval: time.Second, MaxInterval: 5 * time.Second, MaxElapsedTime: sendWithin}), otlpmetrichttp.WithMaxResponseSize(maxAnswer), otlpmetrichttp.WithProxy(proxy)}
	if setting != "" {
		to, err := endpoint(setting, "metrics")
		if err != nil {
			return nil, err
		}
		options = append(options, otlpmetrichttp.WithEndpointURL(to))
	}
	e, err := otlpmetrichttp.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("start sending figures: %w", err)
	}
	return e, nil
}

// redirected is the status with which a collector redirects requests.
type redirected int

func (r redirected) Error() string { return fmt.Sprintf("the collector answered %d", int(r)) }

// proxy returns the environment's proxy for a request. The exporters' clients follow redirects, and would send the headers with the
// credential to any host that the collector names; so proxy refuses a request that follows a redirect. A client of our own would ignore the
// certificates in the environment.
func proxy(r *http.Request) (*url.URL, error) {
	if r.Response != nil {
		return nil, redirected(r.Response.StatusCode)
	}
	return http.ProxyFromEnvironment(r)
}

// endpoint returns the URL for traces or metrics of a collector whose URL is in the form of OTEL_EXPORTER_OTLP_ENDPOINT.
func endpoint(setting, signal string) (string, error) {
	u, err := url.Parse(setting)
	switch {
	case err != nil: // the error omits the address, which may contain a password
		return "", fmt.Errorf("send %s: otlp is no URL; one of a collector is like http://localhost:4318", signal)
	case u.User != nil:
		return "", fmt.Errorf("send %s to %s: the URL must not contain a user or a password; OTEL_EXPORTER_OTLP_HEADERS=authorization=… sends them", signal, u.Host)
	case u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("send %s to %q: a collector's URL is like http://localhost:4318", signal, setting)
	case strings.ContainsAny(setting, "?#"):
		return "", fmt.Errorf("send %s to %s: the URL must end before ? and #: /v1/%s is added to it", signal, u.Host, signal)
	}
	return u.JoinPath("v1", signal).String(), nil
}

// collectorCause returns the reason why a collector accepted nothing. The exporters' errors repeat its answer and the URL, which may
// contain tokens; the status is only available in their text.
func collectorCause(ctx context.Context, err error) string {
	if ctx.Err() != nil {
		return context.Cause(ctx).Error()
	}
	if to := redirected(0); errors.As(err, &to) {
		return to.Error()
	}
	text := err.Error()
	if strings.Contains(text, "OTLP partial success: ") {
		return "the collector refused some of it"
	}
	if found := answered.FindStringSubmatch(text); found != nil {
		return "the collector answered " + found[1]
	}
	if strings.Contains(text, "retry-able request failure: body") {
		return "the collector asked to come again later"
	}
	return "the collector cannot be reached: " + foreign.Cause(err)
}

// answered matches both exporters' errors about an answer. The collector's own words follow it.
var answered = regexp.MustCompile(`failed to send (?:metrics )?to \S+: ([0-9]{3})\b`)

// describe returns the resource of these traces and metrics: the server, and what the environment adds
// (OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME).
func describe(ctx context.Context, version, node string) (*resource.Resource, error) {
	return resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "godwit"), attribute.String("service.version", version), attribute.String("service.instance.id", node)),
		resource.WithFromEnv(), resource.WithTelemetrySDK())
}
