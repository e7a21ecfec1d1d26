package httpapi_test

import (
	"testing"

	"github.com/getkin/kin-openapi/openapi3filter"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	for _, text := range []string{"application/x-ndjson", "application/yaml", "text/html", "text/event-stream", "text/javascript", "application/x-www-form-urlencoded"} {
		openapi3filter.RegisterBodyDecoder(text, openapi3filter.FileBodyDecoder)
	}
	goleak.VerifyTestMain(m)
}
