// Package idle proves what sessions cost: an idle one at most a kilobyte, one that never reads at most its byte cap.
package idle
