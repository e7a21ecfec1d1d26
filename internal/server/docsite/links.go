package docsite

import (
	"path"
	"regexp"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// relink gives each link and picture of a page the address that resolve returns. A link that leads nowhere becomes its text.
func (d *document) relink(resolve func(dest string) (string, error)) error {
	var links []ast.Node
	d.walk(d.root, func(n ast.Node) { links = append(links, n) })
	for _, n := range links {
		switch n := n.(type) {
		case *ast.Link:
			to, err := resolve(string(n.Destination))
			if err != nil {
				return err
			}
			if n.Destination = []byte(to); to == "" {
				unlink(n)
			}
		case *ast.HTMLBlock:
			picture, err := d.picture(n, resolve)
			if err != nil {
				return err
			}
			n.Parent().ReplaceChild(n.Parent(), n, picture)
		case *ast.Image:
			to, err := resolve(string(n.Destination))
			if err != nil {
				return err
			}
			if n.Destination = []byte(to); to == "" {
				unlink(n)
			}
		}
	}
	return nil
}

func unlink(n ast.Node) {
	parent := n.Parent()
	for c := n.FirstChild(); c != nil; {
		next := c.NextSibling()
		parent.InsertBefore(parent, n, c)
		c = next
	}
	parent.RemoveChild(parent, n)
}

var (
	comment = regexp.MustCompile(`(?s)<!--.*?-->`)
	address = regexp.MustCompile(`(src|srcset|href)="([^"]*)"`)
	altText = regexp.MustCompile(`alt="([^"]*)"`)
)

// picture returns HTML of a page with the addresses that resolve returns, or the description of a picture that is not there. Comments are
// left out.
func (d *document) picture(n *ast.HTMLBlock, resolve func(string) (string, error)) (ast.Node, error) {
	all := d.lines(n)
	if n.HasClosure() {
		all += string(n.ClosureLine.Value(d.source))
	}
	all = comment.ReplaceAllString(all, "")
	var failed error
	missing := false
	all = address.ReplaceAllStringFunc(all, func(attr string) string {
		m := address.FindStringSubmatch(attr)
		to, err := resolve(m[2])
		if err != nil {
			failed = err
		}
		missing = missing || to == ""
		return m[1] + `="` + to + `"`
	})
	if failed != nil {
		return nil, failed
	}
	if missing {
		all = ""
		if m := altText.FindStringSubmatch(d.lines(n)); m != nil {
			all = `<p class="picture">` + m[1] + `</p>`
		}
	}
	s := ast.NewString([]byte(all))
	s.SetCode(true) // written as it is
	block := ast.NewTextBlock()
	block.AppendChild(block, s)
	return block, nil
}

// target separates the address of a link on a page into a file, by its path from the pages' root, and an anchor. outside: the link leads
// elsewhere as it is.
func target(from, dest string) (file, anchor string, outside bool) {
	if strings.Contains(dest, "://") || strings.HasPrefix(dest, "mailto:") || strings.HasPrefix(dest, "/") {
		return "", "", true
	}
	file, anchor, _ = strings.Cut(dest, "#")
	if file == "" {
		return from, anchor, false
	}
	return path.Join(path.Dir(from), file), anchor, false
}
