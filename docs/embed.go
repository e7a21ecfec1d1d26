// Package docs holds the guides and the reference, which the server shows at /docs. Pages for people who work on Godwit itself are left out:
// they are read beside the code.
package docs

import "embed"

//go:generate go run ../tools/upgradenotes -o guides/upgrade-notes.md ../CHANGELOG.md

// Files are the pages and their drawings.
//
//go:embed README.md comparison.md migration.md guides/*.md reference/*.md migrate/*.md
var Files embed.FS
