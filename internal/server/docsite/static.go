package docsite

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"godwit.dev/godwit/internal/server/module"
)

// Write writes the site as files that any web server can show, below whatever path. It has no search. files are all pages of the
// documentation, also those that are not in the program.
func Write(dir string, files fs.FS, version string, commands []module.Command) (pages int, err error) {
	v := &shown{}
	if v.site, err = build(files, static, problems(), commandsOf(commands)); err != nil {
		return 0, err
	}
	if broken := v.site.broken; len(broken) > 0 {
		return 0, errors.New(strings.Join(broken, "; "))
	}
	var views []*view
	for p := range v.site.pages {
		views = append(views, v.view(p))
	}
	for _, e := range v.site.entries {
		views = append(views, v.entry(e))
	}
	for _, out := range views {
		v.complete(out, version)
		var text bytes.Buffer
		if err := layout.Execute(&text, out); err != nil {
			return 0, fmt.Errorf("fill the layout for %s: %w", out.Here, err)
		}
		if err := put(dir, stored(out.Here), text.Bytes()); err != nil {
			return 0, err
		}
	}
	return len(views), v.pictures(dir)
}

// pictures writes what pages show besides text.
func (v *shown) pictures(dir string) error {
	text, err := fs.ReadFile(assets, sheet)
	if err == nil {
		err = put(dir, sheet, text)
	}
	if err != nil {
		return err
	}
	return fs.WalkDir(v.site.files, ".", func(name string, d fs.DirEntry, err error) error {
		if ext := path.Ext(name); err != nil || d.IsDir() || ext != ".png" && ext != ".svg" {
			return err
		}
		b, err := fs.ReadFile(v.site.files, name)
		if err != nil {
			return err
		}
		return put(dir, name, b)
	})
}

// put writes a file and makes its folders.
func put(dir, name string, text []byte) error {
	name = filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o644) // for everybody to read
}

// stored is the file of a page.
func stored(page string) string {
	if page == "" {
		return "index.html"
	}
	return page + ".html"
}

// static are the addresses between files.
func static(from, to string) string {
	switch path.Ext(to) {
	case ".png", ".svg", ".css", ".yaml":
	default:
		to = stored(to)
	}
	up := strings.Repeat("../", strings.Count(from, "/"))
	return up + to
}
