// Package sinks proves that ClickHouse has every event once, by its own engine, whatever happens to it and to the server.
package sinks
