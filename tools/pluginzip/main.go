// Command pluginzip packs the plug-in for WordPress as a site installs it, and prints the name of the archive. The same files make the same
// bytes, with SOURCE_DATE_EPOCH as their time.
//
//	pluginzip integrations/wordpress dist
package main

import (
	"archive/zip"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: pluginzip SOURCE FOLDER")
		os.Exit(2)
	}
	name, err := pack(os.Args[1], os.Args[2], os.Getenv("SOURCE_DATE_EPOCH"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "pluginzip:", err)
		os.Exit(1)
	}
	fmt.Println(name)
}

// folder is the plug-in's folder in the archive, and so on the site.
const folder = "godwit/"

// pack writes the archive into a folder, and returns its name.
func pack(source, into, epoch string) (string, error) {
	version, err := agreedVersion(source)
	if err != nil {
		return "", err
	}
	seconds, err := strconv.ParseInt(cmp.Or(epoch, "0"), 10, 64)
	if err != nil {
		return "", fmt.Errorf("read SOURCE_DATE_EPOCH: %w", err)
	}
	var files []string
	for _, pattern := range []string{"*.php", "includes/*.php", "readme.txt", "LICENSE"} {
		found, err := filepath.Glob(filepath.Join(source, pattern))
		if err != nil || len(found) == 0 {
			return "", errors.Join(fmt.Errorf("%s has no %s", source, pattern), err)
		}
		files = append(files, found...)
	}
	slices.Sort(files)
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, file := range files {
		if err := add(w, source, file, time.Unix(seconds, 0).UTC()); err != nil {
			return "", fmt.Errorf("pack %s: %w", file, err)
		}
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	name := filepath.Join(into, "godwit-wordpress-"+version+".zip")
	return name, os.WriteFile(name, b.Bytes(), 0o644) // handed out to everybody
}

func add(w *zip.Writer, source, file string, at time.Time) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	name, err := filepath.Rel(source, file)
	if err != nil {
		return err
	}
	h := &zip.FileHeader{Name: folder + filepath.ToSlash(name), Method: zip.Deflate, Modified: at}
	h.SetMode(0o644)
	to, err := w.CreateHeader(h)
	if err == nil {
		_, err = to.Write(content)
	}
	return err
}

// agreed are the headers that WordPress reads from both files, as each calls them.
var agreed = map[string]string{"Version": "Stable tag", "Requires at least": "Requires at least", "Requires PHP": "Requires PHP", "License": "License"}

// agreedVersion returns the plug-in's version. It is an error if the plug-in and its readme.txt say different things.
func agreedVersion(source string) (version string, err error) {
	var texts [2][]byte
	for i, name := range []string{"godwit.php", "readme.txt"} {
		if texts[i], err = os.ReadFile(filepath.Join(source, name)); err != nil {
			return "", err
		}
	}
	for plugin, readme := range agreed {
		one, two := header(texts[0], plugin), header(texts[1], readme)
		if one == "" || one != two {
			return "", fmt.Errorf("godwit.php says %q as %s, and readme.txt says %q as %s", one, plugin, two, readme)
		}
	}
	return header(texts[0], "Version"), nil
}

func header(text []byte, name string) string {
	found := regexp.MustCompile(`(?m)^[ *]*` + regexp.QuoteMeta(name) + `:\s*(\S.*?)\s*$`).FindSubmatch(text)
	if found == nil {
		return ""
	}
	return string(found[1])
}
