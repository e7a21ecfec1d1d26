// Package convergence proves the promise of objects: whatever is lost, repeated, reordered or late, every client learns
// the latest version of exactly what it wants, versions only grow, and nobody sees another app's objects.
//
// Hundreds of clients and a server live in a bubble of simulated time, over links and a store that fail as a seed says;
// GODWIT_SEED=n runs that seed alone, GODWIT_SEEDS=n so many of them. A few seeds run against the real store, and the
// real server is killed under its clients.
package convergence
