package backend

import (
	"strconv"

	"godwit.dev/godwit/internal/notify/timeline"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// appendStep appends, after live, the state of a step: sent or waiting.
func appendStep(b []byte, s *timeline.Step) []byte {
	b = call.AppendString(append(b, `,{"channel":`...), string(s.Channel))
	b = strconv.AppendInt(append(b, `,"step":`...), int64(s.Number), 10)
	b = call.AppendString(append(b, `,"status":`...), s.Status)
	if s.Endpoint != "" {
		b = call.AppendString(append(b, `,"endpoint":`...), s.Endpoint)
	}
	if s.To != "" {
		b = call.AppendString(append(b, `,"to":`...), s.To)
	}
	b = call.AppendMoment(b, "at", s.At)
	b = append(b, `,"detail":`...)
	if s.Detail == "" {
		return append(b, "null}"...)
	}
	return append(call.AppendString(b, s.Detail), '}')
}
