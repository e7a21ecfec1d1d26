package operator

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"godwit.dev/godwit/internal/access/audit"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// AuditLog lists the actions of people and back ends.
type AuditLog interface {
	List(ctx context.Context, app string, f audit.Filter, limit int) ([]audit.Entry, error)
}

type entryJSON struct {
	ID      string      `json:"id"`
	At      call.Moment `json:"at"`
	By      string      `json:"by"`
	Way     string      `json:"way"`
	Address string      `json:"address"`
	Action  string      `json:"deed"`
	Object  string      `json:"object"`
	Outcome string      `json:"outcome"`
}

// ListAudit is GET /v1/audit: newest first.
func (a *API) ListAudit(c *call.Call) error {
	q, limit, err := c.ListParams("since", "until", "deed", "by")
	if err != nil {
		return err
	}
	f := audit.Filter{Action: q.Get("deed"), By: q.Get("by")}
	if f.Since, err = timeIn(q, "since"); err != nil {
		return err
	}
	if f.Until, err = timeIn(q, "until"); err != nil {
		return err
	}
	if q.Has("cursor") {
		if f.Before, err = strconv.ParseInt(q.Get("cursor"), 10, 64); err != nil || f.Before < 1 {
			return notification.BadField("cursor", "is not one that the API gave")
		}
	}
	list, err := a.Audit.List(c.Ctx, c.Key.App, f, limit)
	if err != nil {
		return err
	}
	next := ""
	if len(list) == limit {
		next = strconv.FormatInt(list[len(list)-1].ID, 10)
	}
	l := call.NewList[entryJSON](len(list), next)
	for i := range list {
		d := &list[i]
		l.Items = append(l.Items, entryJSON{
			ID: strconv.FormatInt(d.ID, 10), At: call.Moment(d.At), By: d.By, Way: d.Way, Address: d.Address, Action: d.Action, Object: d.Object, Outcome: string(d.Outcome),
		})
	}
	return c.Value(http.StatusOK, l)
}

// timeIn reads a time of the query; zero: there is none.
func timeIn(q url.Values, name string) (time.Time, error) {
	if !q.Has(name) {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, q.Get(name))
	if err != nil {
		return at, notification.BadField(name, "must be a time like 2030-01-31T12:00:00Z")
	}
	return at, nil
}
