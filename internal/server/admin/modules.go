package admin

import (
	"slices"

	"godwit.dev/godwit/internal/server/module"
)

// TakenError says that a module's page uses the path of a built-in page.
type TakenError struct{ Path string }

func (e *TakenError) Error() string { return "page " + e.Path + ", which the server has" }

// navigationWith returns the header with the pages of modules at its end.
func navigationWith(pages []module.Page) []placeGroup {
	if len(pages) == 0 {
		return navigation
	}
	more := placeGroup{Label: "More"}
	for _, p := range pages {
		more.places = append(more.places, place{Here: p.Path, Path: p.Path, Label: p.Label, role: p.Role})
	}
	return append(slices.Clip(navigation), more)
}

// modulePage is the data that the template of modules' pages gets.
type modulePage struct {
	Label string
	module.View
}

func (a *admin) showModule(v *visit, p *module.Page) error {
	view, err := p.Show(v.r.Context(), v.person.App)
	if err != nil {
		return err
	}
	return a.show(v, "module", v.t(p.Label), p.Path, modulePage{p.Label, view})
}
