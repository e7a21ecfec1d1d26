package backend

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/problem"
)

// maxTemplateBody is enough bytes for a content and the spaces of its JSON.
const maxTemplateBody = 2*template.MaxContentBytes + 1<<10

type templateJSON struct {
	Name      string              `json:"name"`
	Revision  int64               `json:"revision"`
	Title     string              `json:"title"`
	Language  *string             `json:"language"`
	Locales   []string            `json:"locales"`
	Variables []template.Variable `json:"variables"`
	Content   *template.Content   `json:"content,omitempty"` // not in lists
	CreatedAt call.Moment         `json:"created_at"`
	UpdatedAt call.Moment         `json:"updated_at"`
}

// revisionJSON is what a template said at one of its revisions.
type revisionJSON struct {
	Revision  int64             `json:"revision"`
	Content   *template.Content `json:"content"`
	UpdatedAt call.Moment       `json:"updated_at"`
}

func viewTemplate(t *template.Template, whole bool) templateJSON {
	j := templateJSON{
		Name: t.Name, Revision: t.Revision, Title: t.Content.Title, Language: call.OrNull(t.Content.Language), Locales: slices.Sorted(maps.Keys(t.Content.Locales)),
		Variables: t.Content.Variables(), CreatedAt: call.Moment(t.CreatedAt), UpdatedAt: call.Moment(t.UpdatedAt),
	}
	if j.Locales == nil {
		j.Locales = []string{}
	}
	if whole {
		j.Content = &t.Content
	}
	return j
}

// showTemplate answers with a template, whose revision is its entity tag.
func showTemplate(c *call.Call, status int, t *template.Template) error {
	c.W.Header().Set("ETag", strconv.Quote(strconv.FormatInt(t.Revision, 10)))
	return c.Value(status, viewTemplate(t, true))
}

func templateName(c *call.Call) (string, error) {
	if _, err := c.Params(); err != nil {
		return "", err
	}
	name := c.R.PathValue("name")
	return name, notification.CheckName("template", name)
}

// match reads the revision that a request requires (RFC 9110, section 13.1).
func match(h http.Header) (m template.Match, err error) {
	if none := h.Get("If-None-Match"); none == "*" {
		m.New = true
	} else if none != "" {
		return m, notification.BadField("If-None-Match", "must be *: only if there is none yet")
	}
	switch tag := h.Get("If-Match"); tag {
	case "":
	case "*":
		m.There = true
	default:
		n, err := strconv.ParseInt(strings.Trim(tag, `"`), 10, 64)
		if err != nil || n < 1 {
			return m, notification.BadField("If-Match", "%q is not a revision; write it like \"3\"", notification.Clip(tag))
		}
		m.Revision = n
	}
	return m, nil
}

// templateError converts a client's error to a problem.
func templateError(err error) error {
	var other *template.RevisionError
	if errors.As(err, &other) {
		return problem.RevisionMismatch.With(other.Error())
	}
	return err
}

// PutTemplate is PUT /v1/templates/{name}: it creates the template, or its next revision.
func (a *API) PutTemplate(c *call.Call) error {
	name, err := templateName(c)
	if err != nil {
		return err
	}
	m, err := match(c.R.Header)
	if err != nil {
		return err
	}
	body, err := call.ReadBody(c.R, nil, maxTemplateBody)
	if err != nil {
		return err
	}
	var says template.Content
	if err := (call.Fields{"content": &says}).Decode(body); err != nil {
		return err
	}
	t, created, err := a.Templates.Set(c.Ctx, c.Key.App, name, says, m)
	if err != nil {
		return templateError(err)
	}
	a.Log.InfoContext(c.Ctx, "template set", "app", c.Key.App, "template", name, "revision", t.Revision, "by", c.Key.Key)
	if created {
		return showTemplate(c, http.StatusCreated, &t)
	}
	return showTemplate(c, http.StatusOK, &t)
}

// GetTemplate is GET /v1/templates/{name}.
func (a *API) GetTemplate(c *call.Call) error {
	name, err := templateName(c)
	if err != nil {
		return err
	}
	t, err := a.Templates.Get(c.Ctx, c.Key.App, name)
	if err != nil {
		return err
	}
	return showTemplate(c, http.StatusOK, t)
}

// ListTemplateRevisions is GET /v1/templates/{name}/revisions: those that are kept, the newest first.
func (a *API) ListTemplateRevisions(c *call.Call) error {
	name, err := templateName(c)
	if err != nil {
		return err
	}
	kept, err := a.Templates.Versions(c.Ctx, c.Key.App, name)
	if err != nil {
		return err
	}
	if len(kept) == 0 {
		return fmt.Errorf("template %s: %w", name, template.ErrUnknown)
	}
	l := call.NewList[revisionJSON](len(kept), "")
	for i := range kept {
		l.Items = append(l.Items, revisionJSON{kept[i].Revision, &kept[i].Content, call.Moment(kept[i].UpdatedAt)})
	}
	return c.Value(http.StatusOK, l)
}

// ListTemplates is GET /v1/templates, by name.
func (a *API) ListTemplates(c *call.Call) error {
	q, limit, err := c.ListParams()
	if err != nil {
		return err
	}
	after := q.Get("cursor")
	if after != "" && notification.CheckName("cursor", after) != nil {
		return notification.BadField("cursor", "is not one that this list gave")
	}
	list, err := a.Templates.List(c.Ctx, c.Key.App, after, limit)
	if err != nil {
		return err
	}
	next := ""
	if len(list) == limit {
		next = list[limit-1].Name
	}
	l := call.NewList[templateJSON](len(list), next)
	for i := range list {
		l.Items = append(l.Items, viewTemplate(&list[i], false))
	}
	return c.Value(http.StatusOK, l)
}

// DeleteTemplate is DELETE /v1/templates/{name}.
func (a *API) DeleteTemplate(c *call.Call) error {
	name, err := templateName(c)
	if err != nil {
		return err
	}
	m, err := match(c.R.Header)
	if err != nil {
		return err
	}
	if err := a.Templates.Delete(c.Ctx, c.Key.App, name, m); err != nil {
		return templateError(err)
	}
	a.Log.InfoContext(c.Ctx, "template deleted", "app", c.Key.App, "template", name, "by", c.Key.Key)
	return c.NoContent()
}

// PreviewTemplate is POST /v1/templates/{name}/preview: the content that a given recipient would get.
func (a *API) PreviewTemplate(c *call.Call) error {
	name, err := templateName(c)
	if err != nil {
		return err
	}
	var p campaign.Person
	var ch push.Channel
	if err := verbBody(c, call.Fields{"recipient": &p.Recipient, "locale": &p.Locale, "attributes": &p.Attributes, "variables": &p.Variables, "channel": &ch}); err != nil {
		return err
	}
	if err := p.Variables.Check("variables"); err != nil {
		return err
	}
	t, err := a.Templates.Get(c.Ctx, c.Key.App, name)
	if err != nil {
		return err
	}
	if err := t.Content.CheckFilled("variables", p.Variables); err != nil {
		return err
	}
	missing := []string{}
	for _, v := range t.Content.Variables() {
		if v.Required && !p.Says(v.Name) {
			missing = append(missing, v.Name)
		}
	}
	return c.Value(http.StatusOK, map[string]any{"content": t.Content.Render(p, ch, ""), "revision": t.Revision, "missing": missing})
}
