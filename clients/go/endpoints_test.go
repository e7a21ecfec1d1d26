package godwit_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	godwit "godwit.dev/godwit/clients/go"
)

func TestEndpointsOfARealServer(t *testing.T) {
	c := client(t, run(t, nil))
	one, err := c.RegisterEndpoint(t.Context(), godwit.NewEndpoint{
		Channel: "telegram", Recipient: "ada", Address: json.RawMessage(`{"chat_id":1}`), Tags: []string{"news"}, Attributes: map[string]any{"age": 42},
	})
	if err != nil || !one.Created || one.ID == "" || one.ManageToken == "" {
		t.Fatalf("%+v, %v", one, err)
	}
	var many []godwit.NewEndpoint
	for n := range 1200 {
		many = append(many, godwit.NewEndpoint{Channel: "telegram", Address: json.RawMessage(fmt.Sprintf(`{"chat_id":%d}`, n)), Tags: []string{"all"}})
	}
	results, err := c.RegisterEndpoints(t.Context(), many)
	if err != nil || len(results) != len(many) {
		t.Fatalf("%d results, %v", len(results), err)
	}
	var refused *godwit.Error
	if !errors.As(results[0].Err, &refused) || refused.Field != "address.chat_id" || results[1].Created || !results[2].Created {
		t.Errorf("results %+v", results[:3])
	}
	n := 0
	for e, err := range c.Endpoints(t.Context(), godwit.EndpointFilter{Tag: "all", Status: "active"}) {
		if err != nil || e.Status != "active" {
			t.Fatalf("%+v, %v", e, err)
		}
		n++
	}
	if n != 1199 {
		t.Errorf("%d are listed", n)
	}
	if count, err := c.CountAudience(t.Context(), godwit.Audience{Where: `age >= 18`}); err != nil || count.Count != 1 || count.Channels["telegram"] != 1 {
		t.Errorf("%+v, %v", count, err)
	}
	if _, err := c.CountAudience(t.Context(), godwit.Audience{Where: `age`}); !errors.As(err, &refused) || refused.Field != "where" {
		t.Errorf("a bad expression: %v", err)
	}
	if err := c.Call(t.Context(), godwit.Call{Method: http.MethodPut, Path: "/v1/segments/adults", Body: map[string]string{"where": "age >= 18"}}, nil); err != nil {
		t.Fatal(err)
	}
	if count, err := c.CountAudience(t.Context(), godwit.Audience{Segment: "adults"}); err != nil || count.Count != 1 {
		t.Errorf("of the segment %+v, %v", count, err)
	}
	for e, err := range c.Endpoints(t.Context(), godwit.EndpointFilter{Segment: "adults"}) {
		if err != nil || e.ID != one.ID {
			t.Errorf("in the segment is %+v, %v", e, err)
		}
	}
	e, err := c.ChangeEndpoint(t.Context(), one.ID, map[string]any{"add_tags": []string{"vip"}, "attributes": map[string]any{"age": nil}, "status": "disabled"})
	if err != nil || len(e.Tags) != 2 || len(e.Attributes) != 0 || e.Status != "disabled" {
		t.Errorf("%+v, %v", e, err)
	}
	var out strings.Builder
	if err := c.ExportEndpoints(t.Context(), &out, "csv", godwit.EndpointFilter{Status: "disabled"}); err != nil || strings.Count(out.String(), "\n") != 2 {
		t.Errorf("%q, %v", out.String(), err)
	}
	if err := c.DeleteEndpoint(t.Context(), one.ID); err != nil {
		t.Error(err)
	}
	if _, err := c.Endpoint(t.Context(), one.ID); !errors.As(err, &refused) || refused.Status != 404 {
		t.Errorf("after deletion: %v", err)
	}
}
