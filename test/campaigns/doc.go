// Package campaigns proves what campaigns promise with the real server process and providers that fail as real ones
// do: every subscriber ends in exactly one honest outcome, also when the server is killed on the way.
package campaigns
