// Package sources kills the real server and the databases that its sources read, while transactions run, and compares what recipients got with
// what was committed.
package sources
