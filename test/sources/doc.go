// Package sources kills the real server, and the databases of its sources, under load. Afterwards recipients must have exactly the committed
// changes, in order.
package sources
