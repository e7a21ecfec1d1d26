package backend

import (
	"slices"
	"strconv"

	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/problem"
)

// appendCopy appends one recipient's result: the status of the copy, or the error.
func appendCopy(b []byte, id string, c *delivery.Copy) []byte {
	if c.Err != nil {
		return appendRefused(b, c.To, id, c.Err)
	}
	b = append(b, `{"id":`...)
	b = call.AppendString(b, id)
	b = append(b, `,"to":`...)
	b = call.AppendString(b, c.To)
	b = append(b, `,"status":"`...)
	b = append(b, c.Status.String()...)
	b = append(b, `","duplicate":`...)
	b = strconv.AppendBool(b, c.Duplicate)
	b = append(b, `,"expires_at":`...)
	b = call.AppendTime(b, c.ExpiresAt)
	return append(b, '}')
}

// appendRefused appends {"to","id","error"}; unknown members are left out.
func appendRefused(b []byte, to, id string, err error) []byte {
	b = append(b, '{')
	if to != "" {
		b = append(b, `"to":`...)
		b = append(call.AppendString(b, to), ',')
	}
	if id != "" {
		b = append(b, `"id":`...)
		b = append(call.AppendString(b, id), ',')
	}
	b = append(b, `"error":`...)
	b = call.AppendProblem(b, problem.From(call.NotStored(err)))
	return append(b, '}')
}

// copyBytes is the size of an accepted recipient's result, without the two names.
const copyBytes = len(`{"id":"","to":"","status":"delivered","duplicate":false,"expires_at":"2006-01-02T15:04:05.000Z"},`)

// appendResults appends {"results":[…]}, with one result for each recipient in the order of the request.
func appendResults(b []byte, r *delivery.Result) []byte {
	room := len(r.Copies) * (copyBytes + len(r.ID))
	for i := range r.Copies {
		room += len(r.Copies[i].To)
	}
	b = append(slices.Grow(b, room), `{"results":[`...)
	for i := range r.Copies {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendCopy(b, r.ID, &r.Copies[i])
	}
	return append(b, "]}"...)
}
