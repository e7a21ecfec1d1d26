package operator

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// Categories are what an app has said of its categories.
type Categories interface {
	Categories(app string) map[string]preference.Category
	SetCategory(ctx context.Context, app, name string, c preference.Category) error
	DeleteCategory(ctx context.Context, app, name string) error
}

const maxCategoryBody = 1 << 10

type categoryJSON struct {
	Category string  `json:"category"`
	Critical bool    `json:"critical"`
	Limit    *string `json:"escalate_limit"`
}

func viewCategory(name string, c preference.Category) categoryJSON {
	return categoryJSON{Category: name, Critical: c.Critical, Limit: call.OrNull(c.Limit.String())}
}

// ListCategories is GET /v1/categories: the categories with settings, on one page.
func (a *API) ListCategories(c *call.Call) error {
	if _, err := c.Params(); err != nil {
		return err
	}
	all := a.Categories.Categories(c.Key.App)
	l := call.NewList[categoryJSON](len(all), "")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		l.Items = append(l.Items, viewCategory(name, all[name]))
	}
	return c.Value(http.StatusOK, l)
}

// GetCategory is GET /v1/categories/{category}.
func (a *API) GetCategory(c *call.Call) error {
	name, err := categoryOf(c)
	if err != nil {
		return err
	}
	said, there := a.Categories.Categories(c.Key.App)[name]
	if !there {
		return access.ErrUnknownCategory
	}
	return c.Value(http.StatusOK, viewCategory(name, said))
}

// PutCategory is PUT /v1/categories/{category}. Settings that are absent no longer hold.
func (a *API) PutCategory(c *call.Call) error {
	name, err := categoryOf(c)
	if err != nil {
		return err
	}
	body, err := call.ReadBody(c.R, nil, maxCategoryBody)
	if err != nil {
		return err
	}
	var said preference.Category
	err = call.Fields{
		"critical": &said.Critical,
		"escalate_limit": call.Text(func(_, text string) (err error) {
			said.Limit, err = preference.ParseLimit(text)
			return err
		}),
	}.DecodeOrNull(body)
	if err != nil {
		return err
	}
	if err := a.Categories.SetCategory(c.Ctx, c.Key.App, name, said); err != nil {
		return err
	}
	a.Log.InfoContext(c.Ctx, "category set", "app", c.Key.App, "category", name, "by", c.Key.Key)
	return c.Value(http.StatusOK, viewCategory(name, said))
}

// DeleteCategory is DELETE /v1/categories/{category}: it removes the category's settings.
func (a *API) DeleteCategory(c *call.Call) error {
	name, err := categoryOf(c)
	if err != nil {
		return err
	}
	if err := a.Categories.DeleteCategory(c.Ctx, c.Key.App, name); err != nil {
		return err
	}
	a.Log.InfoContext(c.Ctx, "category deleted", "app", c.Key.App, "category", name, "by", c.Key.Key)
	return c.NoContent()
}

func categoryOf(c *call.Call) (string, error) {
	if _, err := c.Params(); err != nil {
		return "", err
	}
	name := c.R.PathValue("category")
	return name, preference.CheckCategory("category", name)
}
