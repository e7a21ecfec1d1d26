// Package faults proves what the server promises when its surroundings fail: a full disk, a second server on its
// data, a stop in the middle of work, strangers at the door. And what it promises about what it has stored:
//
//   - damage: nothing is lost in silence or altered when a disk or a hand damages the server's files. Each file is flipped, cut off,
//     zeroed or removed, beside a server that runs and under one that does not.
//   - convergence: whatever is lost, repeated, reordered or late, every client learns the latest version of exactly the objects it
//     wants, versions only grow, and nobody sees another app's objects. Hundreds of clients and a server live in a bubble of simulated
//     time, over links and a store that fail as a seed says; GODWIT_SEED=n runs seed n alone, GODWIT_SEEDS=n runs n seeds. A few
//     seeds run against the real store, and the real server is killed under its clients.
//   - upgrade: the server of today opens a data folder that a former release left, everything is there and goes on. The folders are
//     committed; upgrade_make_test.go made them, with the release that testdata names.
//   - migrate: a folder that moves into PostgreSQL arrives whole.
package faults
