// Package nodes holds several processes of the real program, on one PostgreSQL, to what clients and back ends are promised of
// one: whichever node they meet, and when one is killed or drained.
package nodes
