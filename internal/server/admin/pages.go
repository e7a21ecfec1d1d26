package admin

import (
	"embed"
	"fmt"
	"sync"
	"weak"

	template "github.com/DataDog/datadog-agent/pkg/template/html"

	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/server/admin/words"
)

//go:embed templates/*.html
var templates embed.FS

// pages holds the templates as each role sees them in each language; role 0 is for strangers. A template is parsed on demand and held by a weak pointer, so
// the collector frees it: all templates are 10 MB of small objects, which it would otherwise scan each time although nobody looks at a
// page.
type pages struct {
	places []placeGroup // the header
	mu     sync.Mutex
	read   map[seenBy]weak.Pointer[template.Template]
}

// seenBy is a page, the role that sees it and the language that it speaks.
type seenBy struct {
	lang *words.Language
	role signin.Role
	name string
}

// shared lists the files that a page needs beside the layout and the fields of forms.
var shared = map[string][]string{
	"overview": {"guide"}, "channel": {"guide"}, "start": {"guide"}, "compose": {"message"}, "template": {"message"},
	"integrations": {"previewed"}, "resource": {"previewed"},
}

// get returns a page: the layout, the fields of forms, what it shares with others and its own file.
func (p *pages) get(l *words.Language, role signin.Role, name string) (*template.Template, error) {
	key := seenBy{l, role, name}
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.read[key].Value(); t != nil {
		return t, nil
	}
	files := []string{"templates/layout.html", "templates/fields.html", "templates/" + name + ".html"}
	for _, more := range shared[name] {
		files = append(files, "templates/"+more+".html")
	}
	t, err := template.New(name).Funcs(functions).Funcs(speaking(l)).Funcs(mayOf(role)).Funcs(p.header()).ParseFS(templates, files...)
	if err != nil {
		return nil, fmt.Errorf("read the template of the page %s: %w", name, err)
	}
	if p.read == nil {
		p.read = make(map[seenBy]weak.Pointer[template.Template])
	}
	p.read[key] = weak.Make(t)
	return t, nil
}

// header lets templates draw the header.
func (p *pages) header() template.FuncMap {
	return template.FuncMap{"header": func(here string, who person) header { return headerOf(p.places, here, who) }, "shortcuts": func(who person) []shortcut { return shortcutsOf(p.places, who) }}
}

// mayOf lets templates ask whether a role may do what needs another role, given by name.
func mayOf(role signin.Role) template.FuncMap {
	return template.FuncMap{"may": func(need string) (bool, error) {
		needed, ok := signin.ParseRole(need)
		if !ok {
			return false, fmt.Errorf("%q is no role of people", need)
		}
		return role.May(needed), nil
	}}
}
