package godwit

import (
	"encoding/json"

	pb "godwit.dev/godwit/api/godwitpb"
)

// Message is a message published to a topic. It is delivered at most once.
type Message struct {
	Topic       string
	Data        []byte // at most 64 KB: JSON, text or bytes, as ContentType says
	ContentType string
}

// message is the frame's content: a message, or the number of messages dropped before the next one.
type message struct {
	Message
	gap int
}

// subscribe is the content of the frames subscribe and unsubscribe.
type subscribe struct {
	Topics []string `json:"topics"`
	Queue  string   `json:"queue,omitempty"`
}

// wireMessage is a message in JSON frames.
type wireMessage struct {
	Topic       string          `json:"topic"`
	Data        json.RawMessage `json:"data"`
	DataBase64  []byte          `json:"data_base64"`
	ContentType string          `json:"content_type"`
	Gap         int             `json:"gap"`
}

func (w *wireMessage) frame() serverFrame {
	m := &message{Message: Message{Topic: w.Topic}, gap: w.Gap}
	var err error
	if m.Data, m.ContentType, err = readData(w.Data, w.DataBase64, w.ContentType); err != nil {
		return unread(&memberError{"data", err.Error()}, "", "", 0)
	}
	return serverFrame{Message: m}
}

func messageFromProto(p *pb.Message) serverFrame {
	return serverFrame{Message: &message{Message{p.Topic, p.Data, p.ContentType}, int(p.Gap)}}
}

// topicProto returns the protobuf form of a frame about topics; nil: the frame is about something else.
func (f *clientFrame) topicProto() *pb.ClientFrame {
	switch {
	case f.Subscribe != nil:
		return &pb.ClientFrame{Frame: &pb.ClientFrame_Subscribe{Subscribe: &pb.Subscribe{Topics: f.Subscribe.Topics, Queue: f.Subscribe.Queue}}}
	case f.Unsubscribe != nil:
		return &pb.ClientFrame{Frame: &pb.ClientFrame_Unsubscribe{Unsubscribe: &pb.Subscribe{Topics: f.Unsubscribe.Topics, Queue: f.Unsubscribe.Queue}}}
	}
	return nil
}
