// Command clientreadme prints a client's README as a package index shows it, where links into the repository lead nowhere: they lead to the
// documentation on the project's page instead.
//
//	clientreadme clients/python/README.md https://example.org/godwit
package main

import (
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: clientreadme FILE HOMEPAGE")
		os.Exit(2)
	}
	text, err := published(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "clientreadme:", err)
		os.Exit(1)
	}
	fmt.Print(text)
}

// link is the end of a Markdown link or picture with its destination.
var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// published returns the text of a README, whose path is from the root of the repository, with links that lead to the project's page.
func published(file, homepage string) (string, error) {
	if u, err := url.Parse(homepage); err != nil || u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("the project's page %q is no https URL", homepage)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	return absolute(string(text), path.Dir(filepath.ToSlash(file)), homepage)
}

// absolute makes the links of a text absolute that lies in a folder of the repository.
func absolute(text, folder, homepage string) (string, error) {
	var lost []string
	text = link.ReplaceAllStringFunc(text, func(found string) string {
		dest := link.FindStringSubmatch(found)[1]
		if strings.Contains(dest, "://") || strings.HasPrefix(dest, "#") || strings.HasPrefix(dest, "mailto:") {
			return found
		}
		to, anchor, anchored := strings.Cut(dest, "#")
		to = path.Join(folder, to)
		page, isPage := strings.CutSuffix(to, ".md")
		switch {
		case to == "README.md":
			to = homepage
		case isPage && strings.HasPrefix(to, "docs/"):
			to = homepage + "/" + page + ".html" // as make site names it
		default:
			lost = append(lost, dest)
		}
		if anchored {
			to += "#" + anchor
		}
		return "](" + to + ")"
	})
	if len(lost) > 0 {
		return "", fmt.Errorf("the project's page has no %s", strings.Join(lost, ", "))
	}
	return text, nil
}
