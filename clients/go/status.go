package godwit

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
	"unicode/utf8"

	pb "godwit.dev/godwit/api/godwitpb"
)

// Digest names the digest in which a notification waits or into which it went.
type Digest struct {
	ID    string    `json:"id"`     // of the notification that the digest becomes
	DueAt time.Time `json:"due_at"` // when it leaves at the latest
}

// Status is the state of one recipient's copy of a notification. The time of an event that has not happened is zero.
type Status struct {
	ID          string    `json:"id"`
	To          string    `json:"to"`
	Status      string    `json:"status"` // scheduled stored delivered acked replied expired replaced recalled failed gathered digested
	Priority    string    `json:"priority"`
	Ack         string    `json:"ack"` // any, all or none
	Seq         uint64    `json:"seq"` // 0 while scheduled
	CreatedAt   time.Time `json:"created_at"`
	SendAt      time.Time `json:"send_at,omitzero"`
	ExpiresAt   time.Time `json:"expires_at"`
	DeliveredAt time.Time `json:"delivered_at,omitzero"` // time of the first delivery; may lag, and be lost in a crash
	SettledAt   time.Time `json:"settled_at,omitzero"`
	AckedAt     time.Time `json:"acked_at,omitzero"`
	LatencyMS   float64   `json:"latency_ms"` // from when the notification was due to its acknowledgement
	Digest      *Digest   `json:"digest"`     // nil: it has not gathered
	Attempts    int       `json:"attempts"`   // number of deliveries; may lag, and be lost in a crash
	Reply       *Replied  `json:"reply"`      // the recipient's answer; nil: none
}

// Replied is a recipient's answer to a notification with ReplyBy.
type Replied struct {
	Status      int
	ContentType string
	Data        []byte
}

// wireReplied is an answer in the API's JSON of a status.
type wireReplied struct {
	Status      int             `json:"status"`
	ContentType string          `json:"content_type"`
	Data        json.RawMessage `json:"data,omitempty"`
	DataBase64  []byte          `json:"data_base64,omitempty"`
}

// UnmarshalJSON decodes an answer from the API's JSON.
func (r *Replied) UnmarshalJSON(b []byte) error {
	var w wireReplied
	err := json.Unmarshal(b, &w)
	if err == nil {
		r.Status = w.Status
		r.Data, r.ContentType, err = readData(w.Data, w.DataBase64, w.ContentType)
	}
	return err
}

// MarshalJSON encodes an answer as the API does.
func (r *Replied) MarshalJSON() ([]byte, error) {
	w := wireReplied{Status: r.Status, ContentType: r.ContentType}
	switch {
	case len(r.Data) == 0:
	case isJSON(r.ContentType) && json.Valid(r.Data):
		w.Data = r.Data
	case !isJSON(r.ContentType) && utf8.Valid(r.Data):
		w.Data, _ = json.Marshal(string(r.Data)) // text always can be written
	default:
		w.DataBase64 = r.Data
	}
	return json.Marshal(w)
}

// Settled reports whether the status is final.
func (s *Status) Settled() bool {
	switch s.Status {
	case "scheduled", "stored", "gathered":
		return false
	case "delivered":
		return s.Ack == "none"
	}
	return true
}

// Status returns the status of one recipient's copy. It needs role read, which publish implies.
func (c *Client) Status(ctx context.Context, id, to string) (Status, error) {
	var s Status
	var err error
	if c.rpc != nil {
		s, err = c.rpc.status(ctx, c, id, to)
	} else {
		err = c.doJSON(ctx, request{method: http.MethodGet, path: pathTo("notifications", id), query: url.Values{"to": {to}}}, nil, &s)
	}
	if err != nil {
		return s, fmt.Errorf("read status of %s for %s: %w", id, to, err)
	}
	return s, nil
}

// Recall withdraws a notification from the named recipients, or from all. Settled copies stay as they are.
func (c *Client) Recall(ctx context.Context, id string, to ...string) error {
	if len(to) == 0 {
		to = []string{""}
	}
	for _, name := range to {
		if err := c.recall(ctx, id, name); err != nil {
			return fmt.Errorf("recall %s: %w", id, err)
		}
	}
	return nil
}

func (c *Client) recall(ctx context.Context, id, to string) error {
	if c.rpc != nil {
		_, err := callRPC(ctx, c, c.rpc.pub.Recall, &pb.RecallRequest{Id: id, To: to})
		return err
	}
	r := request{method: http.MethodDelete, path: pathTo("notifications", id)}
	if to != "" {
		r.query = url.Values{"to": {to}}
	}
	return c.doJSON(ctx, r, nil, nil)
}
