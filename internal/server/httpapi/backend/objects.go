package backend

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"unicode/utf8"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/signal"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// maxPutBody fits the largest payload in any notation: JSON escapes take six bytes for one.
const maxPutBody = 6*object.MaxPayload + 4<<10

// objectJSON is an object in answers.
type objectJSON struct {
	Group         string          `json:"group"`
	Object        string          `json:"object"`
	Version       string          `json:"version"` // for an unknown version the floor, which is 0 if there never was a version
	Unknown       bool            `json:"unknown"`
	Payload       json.RawMessage `json:"payload,omitempty"`
	PayloadBase64 string          `json:"payload_base64,omitempty"`
	ContentType   string          `json:"content_type,omitempty"`
	Source        string          `json:"source,omitempty"`
	UpdatedAt     call.Moment     `json:"updated_at"`
}

func viewObject(k object.Key, st *object.State) (objectJSON, error) {
	v := objectJSON{
		Group: k.Group, Object: k.Object, Version: st.Version.String(), Unknown: !st.Known, ContentType: st.ContentType,
		Source: st.Origin.String(), UpdatedAt: call.Moment(st.UpdatedAt),
	}
	var err error
	switch {
	case len(st.Payload) == 0:
	case !utf8.Valid(st.Payload):
		v.PayloadBase64 = base64.StdEncoding.EncodeToString(st.Payload)
	case notification.IsJSON(st.ContentType):
		v.Payload = st.Payload
	default:
		v.Payload, err = json.Marshal(string(st.Payload))
	}
	return v, err
}

// registrationJSON is one client's registration. Versions that do not exist are null.
type registrationJSON struct {
	Group       string      `json:"group,omitempty"`
	Object      string      `json:"object,omitempty"`
	Recipient   string      `json:"recipient,omitempty"`
	Device      string      `json:"device"` // empty: the registration lasts for the session
	Online      bool        `json:"online"`
	LastSeen    call.Moment `json:"last_seen"`
	SentVersion *string     `json:"sent_version"`
	Acked       *string     `json:"acked_version"`
}

// viewRegistration shows one registration: in a recipient's view it names the object, in an object's view the recipient.
func viewRegistration(r *signal.Registration, ofRecipient bool) registrationJSON {
	v := registrationJSON{
		Device: r.Device, Online: r.Online, LastSeen: call.Moment(r.LastSeen), SentVersion: versionOrNull(r.SentVersion), Acked: versionOrNull(r.Acked),
	}
	if ofRecipient {
		v.Group, v.Object = r.Key.Group, r.Key.Object
	} else {
		v.Recipient = r.Recipient
	}
	return v
}

func versionOrNull(v object.Version) *string {
	if v == 0 {
		return nil
	}
	s := v.String()
	return &s
}

// objectOf returns the names in the path.
func objectOf(c *call.Call) (k object.Key, err error) {
	if _, err := c.Params(); err != nil {
		return k, err
	}
	k = object.Key{Group: c.R.PathValue("group"), Object: c.R.PathValue("object")}
	return k, k.Check()
}

// PutObject is PUT and POST /v1/objects/{group}/{object}; both do the same.
func (a *API) PutObject(c *call.Call) error {
	k, err := objectOf(c)
	if err != nil {
		return err
	}
	buf := a.buffers.Lend()
	defer a.buffers.Return(buf)
	if *buf, err = call.ReadBody(c.R, *buf, maxPutBody); err != nil {
		return err
	}
	p, err := decodePut(*buf)
	if err != nil {
		return err
	}
	return a.put(c, k, p)
}

// put stores a change and answers with the resulting version.
func (a *API) put(c *call.Call, k object.Key, p *object.Put) error {
	if err := a.allow(c.Key.Key, 1); err != nil {
		return err
	}
	st, changed, err := a.Objects.Put(c.Ctx, c.Key.App, k, p)
	if err != nil {
		return call.NotStored(err)
	}
	b := strconv.AppendInt([]byte(`{"version":"`), int64(st.Version), 10)
	b = strconv.AppendBool(append(b, `","changed":`...), changed)
	return c.JSON(http.StatusOK, append(b, "}\n"...))
}

// DeleteObject is DELETE /v1/objects/{group}/{object}: its version becomes unknown, and the former one stays as the
// floor.
func (a *API) DeleteObject(c *call.Call) error {
	k, err := objectOf(c)
	if err != nil {
		return err
	}
	_, ok, err := a.Objects.Get(c.Ctx, c.Key.App, k)
	if err != nil {
		return err
	}
	if !ok {
		return mailbox.ErrNotFound
	}
	return a.put(c, k, &object.Put{Unknown: true})
}

// GetObject is GET /v1/objects/{group}/{object}.
func (a *API) GetObject(c *call.Call) error {
	k, err := objectOf(c)
	if err != nil {
		return err
	}
	st, ok, err := a.Objects.Get(c.Ctx, c.Key.App, k)
	if err != nil {
		return err
	}
	if !ok {
		return mailbox.ErrNotFound
	}
	v, err := viewObject(k, &st)
	if err != nil {
		return err
	}
	return c.Value(http.StatusOK, v)
}

type groupJSON struct {
	Group string `json:"group"`
}

// ListGroups is GET /v1/objects.
func (a *API) ListGroups(c *call.Call) error {
	q, limit, err := c.ListParams()
	if err != nil {
		return err
	}
	cursor := q.Get("cursor")
	if cursor != "" {
		if err := notification.CheckName("cursor", cursor); err != nil {
			return err
		}
	}
	groups, next, err := a.Objects.Groups(c.Ctx, c.Key.App, cursor, limit)
	if err != nil {
		return err
	}
	l := call.NewList[groupJSON](len(groups), next)
	for _, group := range groups {
		l.Items = append(l.Items, groupJSON{group})
	}
	return c.Value(http.StatusOK, l)
}

// ListObjects is GET /v1/objects/{group}.
func (a *API) ListObjects(c *call.Call) error {
	q, limit, err := c.ListParams("prefix")
	if err != nil {
		return err
	}
	group, prefix, cursor := c.R.PathValue("group"), q.Get("prefix"), q.Get("cursor")
	for _, n := range []struct{ field, name string }{{"group", group}, {"prefix", prefix}, {"cursor", cursor}} {
		check := notification.CheckPart
		switch {
		case n.field == "group":
			check = notification.CheckName
		case n.name == "":
			continue
		}
		if err := check(n.field, n.name); err != nil {
			return err
		}
	}
	items, next, err := a.Objects.List(c.Ctx, c.Key.App, group, prefix, cursor, limit)
	if err != nil {
		return err
	}
	l := call.NewList[objectJSON](len(items), next)
	for i := range items {
		v, err := viewObject(items[i].Key, &items[i].State)
		if err != nil {
			return err
		}
		l.Items = append(l.Items, v)
	}
	return c.Value(http.StatusOK, l)
}

// Registrations is GET /v1/objects/{group}/{object}/registrations: all of them in one list.
func (a *API) Registrations(c *call.Call) error {
	k, err := objectOf(c)
	if err != nil {
		return err
	}
	found, err := a.Objects.Registrations(c.Ctx, c.Key.App, k)
	if err != nil {
		return err
	}
	list := make([]registrationJSON, 0, len(found))
	for i := range found {
		list = append(list, viewRegistration(&found[i], false))
	}
	return c.Value(http.StatusOK, list)
}

// decodePut reads {"version","payload" or "payload_base64","content_type","unknown","source"}; each member may be omitted. The result does
// not refer to body.
func decodePut(body []byte) (*object.Put, error) {
	if len(body) == 0 {
		return new(object.Put), nil
	}
	return decodePutOf(body, call.Fields{})
}

// decodePutOf reads a put beside other members.
func decodePutOf(body []byte, members call.Fields) (*object.Put, error) {
	p := new(object.Put)
	var payload content
	maps.Copy(members, call.Fields{
		"version": call.Reader(func(field string, raw json.RawMessage) (err error) {
			if k := call.KindOf(raw); k != "a string" && k != "a number" {
				return call.WrongType(field, "a whole number from 1 to 2^63-1, as a string or a number", raw)
			}
			p.Version, err = object.ParseVersion(string(raw))
			return err
		}),
		"payload": call.Reader(func(_ string, raw json.RawMessage) error {
			payload.given, payload.raw = true, raw
			return nil
		}),
		"payload_base64": call.Text(func(_, encoded string) error {
			payload.base64, payload.encoded = true, encoded
			return nil
		}),
		"content_type": &p.ContentType,
		"unknown":      &p.Unknown,
		"source": call.Text(func(_, source string) (err error) {
			p.Origin, err = object.ParseOrigin(source)
			return err
		}),
	})
	err := members.DecodeOrNull(body)
	if err != nil {
		return nil, err
	}
	p.Payload, p.ContentType, err = payload.settle("payload", p.ContentType)
	return p, err
}
