package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Every request refuses JSON beyond the limits of receivers, with an error that names the field and the limit.
func TestJSONBeyondItsLimitsIsRefusedEverywhere(t *testing.T) {
	deep, long := strings.Repeat("[", 65)+strings.Repeat("]", 65), strings.Repeat("7", 1001)
	deepest, longest := strings.Repeat("[", 64)+strings.Repeat("]", 64), "0."+strings.Repeat("7", 999)
	w := newWorld(t)
	for _, data := range []struct{ json, limit string }{
		{deep, "64 levels"}, {long, "1000 digits"}, {strings.Repeat("[", 9000) + strings.Repeat("]", 9000), "64 levels"},
	} {
		for name, problem := range map[string]problemJSON{
			"publish": w.post("/v1/notifications", `{"to":"a","data":`+data.json+`}`).problem(http.StatusBadRequest, "bad-input", "data"),
			"base64": w.post("/v1/notifications", fmt.Sprintf(`{"to":"a","content_type":"application/json","data_base64":%s}`, base64JSON(data.json))).
				problem(http.StatusBadRequest, "bad-input", "data"),
			"batch": *decode[resultJSON](w.ndjson(`{"to":"a","data":` + data.json + `}`).want(http.StatusOK)).Error,
		} {
			if !strings.Contains(problem.Detail, data.limit) {
				t.Errorf("%s: %q does not name the limit of %s", name, problem.Detail, data.limit)
			}
		}
	}
	w.put("/v1/objects/g/o", `{"payload":`+deep+`}`).problem(http.StatusBadRequest, "bad-input", "payload")
	w.put("/v1/objects/g/o", `{"payload":`+long+`}`).problem(http.StatusBadRequest, "bad-input", "payload")
	for _, data := range []string{deepest, longest} {
		w.post("/v1/notifications", `{"to":"a","data":`+data+`}`).want(http.StatusCreated)
		w.put("/v1/objects/g/o", `{"payload":`+data+`}`).want(http.StatusOK)
	}
}

func base64JSON(s string) string {
	b, _ := json.Marshal([]byte(s))
	return string(b)
}
