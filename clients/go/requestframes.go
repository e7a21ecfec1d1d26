package godwit

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"time"
	"unicode/utf8"

	pb "godwit.dev/godwit/api/godwitpb"
)

// serve is the content of the frames serve and unserve.
type serve struct {
	Subjects []string `json:"subjects"`
	Queue    string   `json:"queue,omitempty"`
}

// reply is the frame that answers a request or a notification.
type reply struct {
	RequestID, ID string
	Status        int
	Answer
}

// wireReply is a reply in JSON frames.
type wireReply struct {
	RequestID   string          `json:"request_id,omitempty"`
	ID          string          `json:"id,omitempty"`
	Status      int             `json:"status,omitempty"`
	Headers     map[string]any  `json:"headers,omitempty"`
	ContentType string          `json:"content_type,omitempty"`
	Data        json.RawMessage `json:"data,omitempty"`
	DataBase64  []byte          `json:"data_base64,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (r *reply) MarshalJSON() ([]byte, error) {
	w := wireReply{RequestID: r.RequestID, ID: r.ID, Status: r.Status, ContentType: r.ContentType}
	for name, values := range r.Header {
		if w.Headers == nil {
			w.Headers = make(map[string]any, len(r.Header))
		}
		switch len(values) {
		case 0:
		case 1:
			w.Headers[name] = values[0]
		default:
			w.Headers[name] = values
		}
	}
	if w.Data = inText(r.Data, r.ContentType); w.Data == nil {
		w.DataBase64 = r.Data
	}
	return json.Marshal(w)
}

// inText returns text as a JSON string; nil: the data is sent as base64. It is nil for JSON, which must arrive unchanged, and for text that
// is longer with escapes than in base64, so that a frame with the largest answer stays below the server's limit.
func inText(data []byte, contentType string) json.RawMessage {
	if len(data) == 0 || contentType == "" || isJSON(contentType) || !utf8.Valid(data) {
		return nil
	}
	b, err := json.Marshal(string(data))
	if err != nil || len(b) > base64.StdEncoding.EncodedLen(len(data))+len(`""`) {
		return nil
	}
	return b
}

// wireRequest is a request in JSON frames.
type wireRequest struct {
	RequestID   string                     `json:"request_id"`
	Subject     string                     `json:"subject"`
	Method      string                     `json:"method"`
	Path        string                     `json:"path"`
	Query       string                     `json:"query"`
	Headers     map[string]json.RawMessage `json:"headers"`
	ContentType string                     `json:"content_type"`
	Data        json.RawMessage            `json:"data"`
	DataBase64  []byte                     `json:"data_base64"`
	Deadline    time.Time                  `json:"deadline"`
}

func (w *wireRequest) frame() serverFrame {
	r := &Request{Subject: w.Subject, Method: w.Method, Path: w.Path, Query: w.Query, Header: make(http.Header), Deadline: w.Deadline, id: w.RequestID}
	var err error
	if r.Data, r.ContentType, err = readData(w.Data, w.DataBase64, w.ContentType); err != nil {
		return unread(&memberError{"data", err.Error()}, "", "", 0)
	}
	for name, raw := range w.Headers {
		var list []string
		if len(raw) > 0 && raw[0] == '[' {
			err = json.Unmarshal(raw, &list)
		} else {
			list = make([]string, 1)
			err = json.Unmarshal(raw, &list[0])
		}
		if err != nil {
			return unread(&memberError{"headers", "are no texts"}, "", "", 0)
		}
		for _, v := range list {
			r.Header.Add(name, v)
		}
	}
	return serverFrame{Request: r}
}

func requestFromProto(p *pb.Request) serverFrame {
	r := &Request{
		Subject: p.Subject, Method: p.Method, Path: p.Path, Query: p.Query, Header: make(http.Header), Data: p.Data, ContentType: p.ContentType,
		Deadline: time.UnixMilli(p.DeadlineMs).UTC(), id: p.RequestId,
	}
	for name, v := range p.Headers {
		r.Header.Add(name, v)
	}
	for _, f := range p.HeaderFields {
		r.Header.Add(f.GetName(), f.GetValue())
	}
	return serverFrame{Request: r}
}

// requestProto returns the protobuf form of a frame about requests; nil: the frame is about something else.
func (f *clientFrame) requestProto() *pb.ClientFrame {
	switch {
	case f.Serve != nil:
		return &pb.ClientFrame{Frame: &pb.ClientFrame_Serve{Serve: &pb.Serve{Subjects: f.Serve.Subjects, Queue: f.Serve.Queue}}}
	case f.Unserve != nil:
		return &pb.ClientFrame{Frame: &pb.ClientFrame_Unserve{Unserve: &pb.Serve{Subjects: f.Unserve.Subjects, Queue: f.Unserve.Queue}}}
	case f.Reply != nil:
		r := f.Reply
		once, repeat := headers(r.Header)
		p := &pb.Reply{RequestId: r.RequestID, Id: r.ID, Status: int32(r.Status), Headers: once, Data: r.Data, ContentType: r.ContentType}
		for name, values := range repeat {
			for _, v := range values {
				p.HeaderFields = append(p.HeaderFields, &pb.HeaderField{Name: name, Value: v})
			}
		}
		return &pb.ClientFrame{Frame: &pb.ClientFrame_Reply{Reply: p}}
	}
	return nil
}
