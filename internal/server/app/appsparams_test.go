package app_test

import (
	"net/http"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/testkit/apispec"
)

// TestEveryOperationRefusesAParameterThatItDoesNotKnow makes a valid call of every operation of the OpenAPI document with one extra
// parameter, which may be a misspelt valid one.
func TestEveryOperationRefusesAParameterThatItDoesNotKnow(t *testing.T) {
	doc := apispec.Document(t)
	m := newMeeting(t, "red", "blue")
	before := m.dump(m.red)
	for _, op := range operations(doc) {
		h := meetings[op.name]
		switch op.path {
		case "/v1/connect", "/v1/stream", "/v1/poll", "/v1/frames":
			continue // a client may be newer than the server
		}
		if !strings.HasPrefix(op.path, "/v1/") {
			continue
		}
		path := h.path(op, m.red, "cursr=x")
		key := m.red.key
		if strings.HasPrefix(op.path, "/v1/apps") || strings.HasPrefix(op.path, "/v1/operator") {
			key = m.operator
		}
		a := m.do(op.method, path, key, fill(h.body, m.red), nil)
		if a.status != http.StatusBadRequest || !strings.Contains(a.body, `"cursr"`) {
			t.Errorf("%s %s answers %d: %.300s", op.method, path, a.status, a.body)
		}
	}
	m.unchanged("calls", before, m.dump(m.red))
}
