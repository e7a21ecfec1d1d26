package godwit

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	pb "godwit.dev/godwit/api/godwitpb"
)

// MaxPayload is the maximum number of bytes of an object's payload: a signal only reports that something changed, and clients fetch the
// data elsewhere.
const MaxPayload = 4 << 10

// ObjectPut is a new version of an object.
type ObjectPut struct {
	// Version changes the object only if it is above the current one. 0: the server chooses the next version. A retry after a failure may
	// then count twice, which only skips a version.
	Version     Version
	Payload     []byte // JSON, text or bytes
	ContentType string // type of Payload; empty: JSON if it is valid JSON, else text if it is UTF-8, else bytes
	Source      string // the client that caused the change, "recipient" or "recipient/device": it gets no signal
}

// PutResult is the object's state on the server after a put.
type PutResult struct {
	Version Version `json:"version"` // the stored version; of an unknown object: the floor
	Changed bool    `json:"changed"` // false: the put's version was not above the stored one
}

// Object is the server's state of an object.
type Object struct {
	Group       string
	Object      string
	Version     Version // if Unknown: the floor, which the next version exceeds
	Unknown     bool    // the latest version is unknown, or the object was deleted
	Payload     []byte
	ContentType string
	Source      string // who made this version
	UpdatedAt   time.Time
}

// Registration is one client's registration for an object.
type Registration struct {
	Recipient    string    `json:"recipient"`
	Device       string    `json:"device"` // empty: the registration lasts for the session
	Online       bool      `json:"online"`
	LastSeen     time.Time `json:"last_seen"`
	SentVersion  Version   `json:"sent_version"`  // 0: none yet
	AckedVersion Version   `json:"acked_version"` // 0: none yet
}

// wirePut is a put in the API's JSON.
type wirePut struct {
	Version       Version         `json:"version,omitempty"`
	Unknown       bool            `json:"unknown,omitempty"`
	Payload       json.RawMessage `json:"payload,omitempty"`
	PayloadBase64 string          `json:"payload_base64,omitempty"`
	ContentType   string          `json:"content_type,omitempty"`
	Source        string          `json:"source,omitempty"`
}

func objectPath(k objectKey) string { return pathTo("objects", k.group, k.object) }

// PutObject gives an object a new version. It returns once the version is on the server's disk; every client registered for the object
// eventually receives this version or a later one.
func (c *Client) PutObject(ctx context.Context, group, object string, p ObjectPut) (PutResult, error) {
	w := wirePut{Version: p.Version, Source: p.Source}
	data := wirePublication{ContentType: p.ContentType}
	if err := data.setData(p.Payload); err != nil {
		return PutResult{}, fmt.Errorf("put object %s/%s: payload: %w", group, object, err)
	}
	w.Payload, w.PayloadBase64, w.ContentType = data.Data, data.DataBase64, data.ContentType
	return c.putObject(ctx, http.MethodPut, objectKey{group, object}, &w, p.Payload)
}

// UnknownObject declares that an object's latest version is unknown: clients then fetch the object from its source. The version stays as a
// floor, which the next one must exceed; a higher floor replaces it.
func (c *Client) UnknownObject(ctx context.Context, group, object string, floor Version) (PutResult, error) {
	return c.putObject(ctx, http.MethodPut, objectKey{group, object}, &wirePut{Version: floor, Unknown: true}, nil)
}

// DeleteObject does the same as UnknownObject. Later versions of the object exceed all earlier ones.
func (c *Client) DeleteObject(ctx context.Context, group, object string) error {
	_, err := c.putObject(ctx, http.MethodDelete, objectKey{group, object}, nil, nil)
	return err
}

func (c *Client) putObject(ctx context.Context, method string, k objectKey, w *wirePut, payload []byte) (r PutResult, err error) {
	err = k.check()
	switch {
	case err != nil:
	case c.rpc != nil && method == http.MethodDelete:
		_, err = callRPC(ctx, c, c.rpc.pub.DeleteObject, &pb.DeleteObjectRequest{Group: k.group, Object: k.object})
	case c.rpc != nil:
		r, err = c.rpc.putObject(ctx, c, &pb.PutObjectRequest{
			Group: k.group, Object: k.object, Version: int64(w.Version), Unknown: w.Unknown, Payload: payload, ContentType: w.ContentType, Source: w.Source,
		})
	default:
		var in, out any = w, &r
		if method == http.MethodDelete {
			in, out = nil, nil
		}
		err = c.doJSON(ctx, request{method: method, path: objectPath(k)}, in, out)
	}
	if err != nil {
		what := "put"
		if method == http.MethodDelete {
			what = "delete"
		}
		return r, fmt.Errorf("%s object %s: %w", what, k, err)
	}
	return r, nil
}

// objectView is an object in the API's JSON.
type objectView struct {
	wireObject
	Source    string    `json:"source"`
	UpdatedAt time.Time `json:"updated_at"`
}

func (v *objectView) object(group string) (o Object, err error) {
	if v.Group == "" {
		v.Group = group
	}
	s, err := v.signal()
	if err != nil {
		return o, fmt.Errorf("%s: %w", s.key(), err)
	}
	return Object{s.Group, s.Object, s.Version, s.Unknown, s.Payload, s.ContentType, v.Source, v.UpdatedAt}, nil
}

// GetObject reads an object. If the object was never put, it fails with an *Error with Status 404.
func (c *Client) GetObject(ctx context.Context, group, object string) (o Object, err error) {
	k := objectKey{group, object}
	var v objectView
	if err = k.check(); err == nil {
		err = c.doJSON(ctx, request{method: http.MethodGet, path: objectPath(k)}, nil, &v)
	}
	if err == nil {
		if v.Object == "" {
			v.Object = object
		}
		o, err = v.object(group)
	}
	if err != nil {
		return o, fmt.Errorf("read object %s: %w", k, err)
	}
	return o, nil
}

// page is one page of a list.
type page[T any] struct {
	Items      []T    `json:"items"`
	NextCursor string `json:"next_cursor"`
}

// listPage is the number of items in one request.
const listPage = 500

// ListObjects lists the objects of a group whose names begin with prefix, ordered by name. If an error ends the sequence, it is the last
// element.
func (c *Client) ListObjects(ctx context.Context, group, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		r := request{method: http.MethodGet, path: pathTo("objects", group), query: url.Values{"limit": {strconv.Itoa(listPage)}}}
		if prefix != "" {
			r.query.Set("prefix", prefix)
		}
		err := checkName("group", group)
		for err == nil {
			var p page[objectView]
			if err = c.doJSON(ctx, r, nil, &p); err != nil {
				break
			}
			for i := range p.Items {
				o, err := p.Items[i].object(group)
				if !yield(o, err) || err != nil {
					return
				}
			}
			if p.NextCursor == "" {
				return
			}
			r.query.Set("cursor", p.NextCursor)
		}
		yield(Object{}, fmt.Errorf("list objects of %s: %w", group, err))
	}
}

// Registrations lists the clients that are registered for an object, online or not, and the version that each has received: "which units
// have camera-config v7?"
func (c *Client) Registrations(ctx context.Context, group, object string) (list []Registration, err error) {
	k := objectKey{group, object}
	if err = k.check(); err == nil {
		err = c.doJSON(ctx, request{method: http.MethodGet, path: objectPath(k) + "/registrations"}, nil, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("read registrations for %s: %w", k, err)
	}
	return list, nil
}
