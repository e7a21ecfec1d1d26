// Package vectors runs the cases of api/vectors against the server's own codec. Client libraries run the same files.
package vectors
