// Package deploy tests the files beside it with the libraries that read them in use (Compose's, Helm's and BuildKit's), and with the
// server's own program.
package deploy
