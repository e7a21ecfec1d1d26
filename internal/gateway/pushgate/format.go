package pushgate

import (
	"encoding/base64"
	"errors"
	"slices"

	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/objects/object"
)

// category is that of messages. Title holds the channel's name, Body the headers as JSON, and Data the body.
const category = "push"

// format is the form of frames between a session and its connection: a notification is a device's whole message, and all other frames are empty, since
// the connection itself answers.
var format = &frame.Codec{Name: "push", Decode: noFrames, Head: noHead, Encoder: encoding{}}

func noFrames([]byte, *frame.Client) error {
	return errors.New("a push device sends messages, not frames")
}

func noHead(dst []byte, _ uint64, _ uint32, _ int) []byte { return dst }

type encoding struct{}

// NotificationTail implements frame.Encoder. Ids, names of channels and base64url need no escapes in JSON.
func (encoding) NotificationTail(n *notification.Notification) []byte {
	c := &n.Content
	coded := base64.RawURLEncoding
	dst := make([]byte, 0, 128+len(n.ID)+len(c.Title)+len(c.Body)+coded.EncodedLen(len(c.Data)))
	dst = append(append(dst, `{"messageType":"notification","channelID":"`...), c.Title...)
	dst = append(append(dst, `","version":"`...), n.ID...)
	dst = append(dst, '"')
	if len(c.Data) > 0 {
		dst = append(coded.AppendEncode(append(dst, `,"data":"`...), c.Data), '"')
	}
	if c.Body != "" {
		dst = append(append(dst, `,"headers":`...), c.Body...)
	}
	return slices.Clip(append(dst, '}'))
}

// The other frames are empty.

func (encoding) Object(object.Key, *object.State) []byte                          { return nil }
func (encoding) Message(*frame.Message) []byte                                    { return nil }
func (encoding) Gap(dst []byte, _ uint32) []byte                                  { return dst }
func (encoding) Welcome(dst []byte, _ frame.Welcome) []byte                       { return dst }
func (encoding) Recall(dst []byte, _ []string) []byte                             { return dst }
func (encoding) Registered(dst []byte, _ frame.Registered) []byte                 { return dst }
func (encoding) RegistrationFailed(dst []byte, _ frame.RegistrationFailed) []byte { return dst }
func (encoding) Pong(dst []byte, _ string) []byte                                 { return dst }
func (encoding) Goodbye(dst []byte, _ frame.Goodbye) []byte                       { return dst }
func (encoding) Error(dst []byte, _ frame.Error) []byte                           { return dst }
func (encoding) Request(dst []byte, _ *frame.Request) []byte                      { return dst }
func (encoding) Inbox(dst []byte, _ frame.Inbox) []byte                           { return dst }
