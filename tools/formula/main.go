// Command formula writes the formula with which Homebrew installs the archives of a release. Their checksums are those of the files.
//
//	formula -version 0.1.0 -homepage https://example.org/godwit -downloads https://example.org/godwit/v0.1.0 dist >dist/godwit.rb
package main

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
)

func main() {
	var f formula
	flag.StringVar(&f.Version, "version", "", "version of the release")
	flag.StringVar(&f.Homepage, "homepage", "", "URL of the project's page")
	flag.StringVar(&f.Downloads, "downloads", "", "URL of the folder with the archives")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: formula -version VERSION -homepage URL -downloads URL FOLDER")
		os.Exit(2)
	}
	if err := f.write(os.Stdout, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "formula:", err)
		os.Exit(1)
	}
}

// formula is what the template shows.
type formula struct {
	Version, Homepage, Downloads string
	Systems                      []system
}

// system is a section of a formula.
type system struct {
	Name     string
	Archives []archive
}

type archive struct{ CPU, File, SHA256 string }

//go:embed godwit.rb.tmpl
var files embed.FS

var page = template.Must(template.ParseFS(files, "godwit.rb.tmpl"))

// versioned are versions as archives have them.
var versioned = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`)

// write writes the formula of the archives in a folder.
func (f *formula) write(w io.Writer, dir string) error {
	if !versioned.MatchString(f.Version) {
		return fmt.Errorf("the version %q is not like 1.2.3", f.Version)
	}
	for name, address := range map[string]string{"homepage": f.Homepage, "downloads": f.Downloads} {
		if u, err := url.Parse(address); err != nil || u.Scheme != "https" || u.Host == "" || u.RawQuery != "" {
			return fmt.Errorf("%s %q is no https URL", name, address)
		}
	}
	for _, s := range []struct{ ruby, archive string }{{"macos", "darwin"}, {"linux", "linux"}} {
		made := system{Name: s.ruby}
		for _, cpu := range []struct{ ruby, archive string }{{"arm", "arm64"}, {"intel", "amd64"}} {
			a := archive{CPU: cpu.ruby, File: "godwit-" + f.Version + "-" + s.archive + "-" + cpu.archive + ".tar.gz"}
			var err error
			if a.SHA256, err = sum(filepath.Join(dir, a.File)); os.IsNotExist(err) {
				continue // of a part of the platforms
			} else if err != nil {
				return err
			}
			made.Archives = append(made.Archives, a)
		}
		if len(made.Archives) > 0 {
			f.Systems = append(f.Systems, made)
		}
	}
	if len(f.Systems) == 0 {
		return fmt.Errorf("there is no archive of version %s in %s", f.Version, dir)
	}
	return page.Execute(w, f)
}

// sum returns a file's checksum. An archive is never empty, and the checksum of nothing would look like any other.
func sum(name string) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	h := sha256.New()
	n, err := io.Copy(h, file)
	if err == nil && n == 0 {
		err = fmt.Errorf("%s is empty", name)
	}
	return hex.EncodeToString(h.Sum(nil)), err
}
