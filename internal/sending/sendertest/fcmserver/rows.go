package fcmserver

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Row is a way in which FCM answers.
type Row string

// Rows. Even answers that concern more than one device are set for a single one.
const (
	Accept          Row = ""
	Unregistered    Row = "404 UNREGISTERED"
	NoProject       Row = "404 of the project"
	OtherSender     Row = "403 SENDER_ID_MISMATCH"
	Denied          Row = "403 PERMISSION_DENIED"
	BadField        Row = "400 of another field"
	BadToken        Row = "400 of message.token"
	Malformed       Row = "400 INVALID_ARGUMENT, whatever is sent to this token"
	Disliked        Row = "400 INVALID_ARGUMENT, but not for an empty message"
	Unauthenticated Row = "401 UNAUTHENTICATED"
	NoAPNs          Row = "401 THIRD_PARTY_AUTH_ERROR of APNs"
	NoWebPush       Row = "401 THIRD_PARTY_AUTH_ERROR of Web Push"
	Quota           Row = "429 of the project"
	DeviceQuota     Row = "429 of a device"
	TopicQuota      Row = "429 of a topic"
	Failing         Row = "500"
	Unavailable     Row = "503"
	HTML            Row = "502 with a page"
	Redirect        Row = "307"
	Garbage         Row = "200 without a name"
	TooLarge        Row = "413"
	Hang            Row = "takes the message and never answers"
	Break           Row = "takes the message and breaks the connection"
)

// Behaviour sets the answers to a device's messages. The zero value accepts.
type Behaviour struct {
	Row        Row
	RetryAfter time.Duration // sent with the answer
	Delay      time.Duration // before the answer
	Times      int           // number of messages that this behaviour applies to; later ones are accepted; 0: all
	Question   Row           // answer to validate_only; empty: as to a message
}

// answer is what is written.
type answer struct {
	status int
	body   string
	kind   string // content type; empty: JSON
}

func (a answer) write(w http.ResponseWriter, b Behaviour) {
	if a.kind == "" {
		a.kind = "application/json; charset=UTF-8"
	}
	w.Header().Set("Content-Type", a.kind)
	if b.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(b.RetryAfter/time.Second)))
	}
	if a.status/100 == 3 {
		w.Header().Set("Location", "https://elsewhere.example/")
	}
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body)
}

// failure makes an answer with a google.rpc.Status.
func failure(code int, status, message string, details ...map[string]any) answer {
	b, err := json.MarshalIndent(map[string]any{"error": map[string]any{"code": code, "message": message, "status": status, "details": details}}, "", "  ")
	if err != nil {
		panic(err) // texts and numbers always encode
	}
	return answer{status: code, body: string(b)}
}

func fcmError(code string) map[string]any {
	return map[string]any{"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": code}
}

func violation(field, description string) map[string]any {
	return map[string]any{
		"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": []any{map[string]any{"field": field, "description": description}},
	}
}

func quota(subject, description string) map[string]any {
	return map[string]any{
		"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []any{map[string]any{"subject": subject, "description": description}},
	}
}

func badField(field, description string) answer {
	return failure(http.StatusBadRequest, "INVALID_ARGUMENT", "Request contains an invalid argument.", violation(field, description), fcmError("INVALID_ARGUMENT"))
}

var answers = map[Row]answer{
	Unregistered: failure(404, "NOT_FOUND", "Requested entity was not found.", fcmError("UNREGISTERED")),
	NoProject:    failure(404, "NOT_FOUND", "Requested entity was not found."),
	OtherSender:  failure(403, "PERMISSION_DENIED", "SenderId mismatch", fcmError("SENDER_ID_MISMATCH")),
	Denied:       failure(403, "PERMISSION_DENIED", "Permission 'cloudmessaging.messages.create' denied on resource."),
	BadField:     badField("message.android.ttl", "Invalid ttl"),
	BadToken:     badField("message.token", "Invalid registration token"),
	Malformed:    failure(400, "INVALID_ARGUMENT", "The registration token is not a valid FCM registration token", fcmError("INVALID_ARGUMENT")),
	Disliked:     failure(400, "INVALID_ARGUMENT", "Request contains an invalid argument.", fcmError("INVALID_ARGUMENT")),
	Unauthenticated: failure(401, "UNAUTHENTICATED", "Request had invalid authentication credentials. Expected OAuth 2 access token.",
		map[string]any{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "ACCESS_TOKEN_EXPIRED", "domain": "googleapis.com"}),
	NoAPNs: failure(401, "UNAUTHENTICATED", "Auth error from APNS or Web Push Service", fcmError("THIRD_PARTY_AUTH_ERROR"),
		map[string]any{"@type": "type.googleapis.com/google.firebase.fcm.v1.ApnsError", "statusCode": 403, "reason": "InvalidProviderToken"}),
	NoWebPush: failure(401, "UNAUTHENTICATED", "Auth error from APNS or Web Push Service", fcmError("THIRD_PARTY_AUTH_ERROR")),
	Quota: failure(429, "RESOURCE_EXHAUSTED", "Quota exceeded for quota metric 'Send requests' and limit 'Send requests per minute'.",
		fcmError("QUOTA_EXCEEDED"), quota("project:demo-project", "Sending limit exceeded for the project.")),
	DeviceQuota: failure(429, "RESOURCE_EXHAUSTED", "Sending limit exceeded for the message target.",
		fcmError("QUOTA_EXCEEDED"), quota("token", "Device message rate exceeded.")),
	TopicQuota:  failure(429, "RESOURCE_EXHAUSTED", "Topic message rate exceeded.", fcmError("QUOTA_EXCEEDED")),
	Failing:     failure(500, "INTERNAL", "Internal error encountered.", fcmError("INTERNAL")),
	Unavailable: failure(503, "UNAVAILABLE", "The service is currently unavailable.", fcmError("UNAVAILABLE")),
	HTML:        {status: 502, body: "<html>bad gateway</html>", kind: "text/html"},
	Redirect:    {status: 307, kind: "text/html"},
	Garbage:     {status: 200, body: "<html>welcome</html>", kind: "text/html"},
	TooLarge:    {status: 413, body: "<html>too large</html>", kind: "text/html"},
}
